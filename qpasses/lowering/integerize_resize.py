"""IntegerizeResize: interpolation becomes sums with integer coefficients."""

from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from opsets.errors import UsageError
from qpasses.evidence.prove_reductions import sums
from qpasses.ir.graph import Graph, Node, Tensor, constant, input_at, is_float, sole_consumer
from qpasses.ir.moving import moves, moves_words
from qpasses.ir.patterns import Stored, clamp, quantized_by, stored_input, stored_output
from qpasses.ir.record import SIGNALS, WORDS, NodeRecord, middle_code
from qpasses.ir.rewriting import NOT_MINE, Context, Declined, Outcome, Pass
from qpasses.ir.unknown_sizes import FREE, given_in_a_run
from qpasses.lowering.numbers.interpolation import (
    COORDINATES,
    Axis,
    Taps,
    taps_of,
    ten_bit_taps,
)
from qpasses.lowering.put_integer_node import (
    own_constants,
    put_integer_node,
    scales,
    sources,
)
from qpasses.lowering.requantized import Accumulation, Replaced, emit_requantized

LARGEST_TOTAL, LARGEST_OF_WORDS = (1 << 31) // 255, (1 << 31) // 65535
"""So much may products of coefficients add up to: times any level it fits int32."""

_TOO_FINE = "Resize by a factor that only large integers express: int32 sums could overflow"

_SCALES_AND_SIZES = (2, 3)
"""The inputs of a Resize that say them."""

_PLAIN = {"antialias": 0, "exclude_outside": 0, "keep_aspect_ratio_policy": "stretch"}
"""Attributes that must have these values."""


class IntegerizeResize(Pass):
    """Replace a quantized Resize with mode linear by an integer sum.

    So is one of 16 bits with mode nearest, which onnxruntime has no kernel for, by whole
    factors: of one place, whose coefficient is 1.

    before: ``y = Q(Resize <mode = "linear"> (DQ(x), , scales))``
    after:  ``y = qpasses.IntResize(x, x_zero, indices, coefficients, multiplier, shift, ...)``
    **Exact** up to the multiplier: places are fractions, coefficients integers over their
    common denominator, and the multiplier holds x_scale / (y_scale * denominators). Or by the
    form of a target, with places and coefficients of 10 bits.
    """

    op_types: ClassVar = frozenset({"Resize"})

    def takes(self, node: Node) -> bool:
        """Those that mix values, and those that move what may have 16 bits."""
        return node.op == "Resize" and (moves_words(node) or not moves(node))

    def guard(self, graph: Graph, node: Node) -> Declined | None:
        """Linear, from and to known sizes, along the last one to three axes."""
        if not is_float(node.outputs[0]) or moves(node):
            return None  # on stored integers already, or as they are
        axes, special = _last_axes(node), _special(node)
        if special and not _is_product(node):
            return Declined(f"Resize with {special}: no integer form yet")
        if axes is None and given_in_a_run(node, *_SCALES_AND_SIZES):
            return Declined(
                "Resize by factors, or to sizes, that the model is given or finds in a run: "
                "export it with constant ones"
            )
        if axes is None:
            return Declined(f"Resize from or to a size that is not known: {FREE}")
        if special:
            return Declined(f"Resize with {special} that large matrices would take")
        if len(axes) > min(3, len(node.inputs[0].shape) - 2):
            return Declined("Resize of batch or channels, or along more than three axes")
        if _taps(node, axes).total > LARGEST_TOTAL:
            return Declined(_TOO_FINE)
        return None

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Put IntResize in place."""
        settings, axes = context.settings, _last_axes(node)
        if moves(node):
            return self._repeat(graph, node, context)
        x = stored_input(node.inputs[0], settings, SIGNALS)
        found = stored_output(graph, node, settings, SIGNALS)
        if x is None and found is None:
            return NOT_MINE  # all in float
        if x is None or found is None or axes is None:
            return Declined("input or output is not quantized per tensor to 8 bits")
        if context.target.resize == "ten_bits":
            return self._ten_bits(graph, Replaced(node, *found), x, axes, context)
        if x.quantization.dtype == "int16" and _taps(node, axes).total > LARGEST_OF_WORDS:
            return Declined(_TOO_FINE)
        return self._put(graph, Replaced(node, *found), x, axes, context)

    def _repeat(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """A Resize with mode nearest, if what it moves has 16 bits."""
        settings, axes = context.settings, _last_axes(node)
        x = stored_input(node.inputs[0], settings, WORDS)
        y = quantized_by(sole_consumer(graph, node.outputs[0]), settings, WORDS)
        if axes is None or x is None or y is None or x.quantization != y.quantization:
            return NOT_MINE  # of 8 bits, or nothing that only moves
        return self._put(graph, Replaced(node, y, []), x, axes, context)

    def _ten_bits(
        self, graph: Graph, replaced: Replaced, x: Stored, axes: list[Axis], context: Context
    ) -> Outcome:
        """TFLite's: of codes as they are, so that ties go away from the middle code."""
        node, meaning, y = replaced.node, x.quantization, replaced.y.quantization
        if meaning != y or meaning.dtype == "int16":
            return Declined(f"{node.op}: its target needs one scale of 8 bits on both sides")
        mode = node.attrs.get("coordinate_transformation_mode", "half_pixel")
        try:
            taps = ten_bit_taps(axes, mode)
        except UsageError as error:
            return Declined(f"{node.op}: {error}")
        bits, middle = taps.total.bit_length() - 1, middle_code(meaning.dtype, 8)
        numbers = {"multiplier": np.ones(1, np.int32), "shift": np.full(1, bits, np.int32)}
        inputs = [
            *_tables(x, middle, node, taps, context),
            *own_constants(node.name, numbers, context),
            context.scalar(meaning.dtype, middle),
            *(context.scalar(meaning.dtype, end) for end in clamp(replaced.absorbed, meaning)),
        ]
        record = NodeRecord(
            source=sources(node, *replaced.absorbed),
            scales=scales(x=x, y=replaced.y),
            cells=taps.total,
        )
        attributes = {**_sizes(axes), "rounding": "half_away"}
        return put_integer_node(
            graph,
            "IntResize",
            node.name,
            inputs,
            replaced.y.tensor,
            attributes,
            record,
            context,
        )

    def _put(
        self, graph: Graph, replaced: Replaced, x: Stored, axes: list[Axis], context: Context
    ) -> Outcome:
        node, meaning, taps = replaced.node, x.quantization, _taps(replaced.node, axes)
        inputs = _tables(x, meaning.zero_point, node, taps, context)
        reachable = sums(taps.total, meaning.zero_point, meaning.dtype)
        acc = Accumulation(reachable, {"x": [meaning.scale]}, cells=taps.total)
        return emit_requantized(
            graph, replaced, "IntResize", inputs, _sizes(axes), acc, context
        )


def _tables(x: Stored, zero: int, node: Node, taps: Taps, context: Context) -> list[Tensor]:
    """The inputs before the multiplier."""
    return [
        x.tensor,
        context.scalar(x.quantization.dtype, zero),
        context.table(f"{node.name}.indices", taps.indices.astype(np.int32)),
        context.table(f"{node.name}.coefficients", taps.coefficients.astype(np.int32)),
    ]


def _sizes(axes: list[Axis]) -> dict[str, Any]:
    others = [1] * (3 - len(axes))
    return {
        "dims": len(axes),
        "x_sizes": [*others, *(axis.before for axis in axes)],
        "y_sizes": [*others, *(axis.after for axis in axes)],
    }


def _is_product(node: Node) -> bool:
    """Whether it is a product with matrices where its sizes are known."""
    attributes = node.attrs
    is_wide = attributes.get("mode") == "cubic" or attributes.get("antialias", 0)
    return bool(is_wide) and (
        attributes.get("coordinate_transformation_mode") != "tf_crop_and_resize"
        and attributes.get("keep_aspect_ratio_policy", "stretch") == "stretch"
    )


def _special(node: Node) -> str:
    """What a Resize does that no integers do yet, or nothing."""
    mode = node.attrs.get("mode", "nearest")
    if mode == "cubic":
        return "mode cubic"
    coordinates = node.attrs.get("coordinate_transformation_mode", "half_pixel")
    if coordinates not in COORDINATES:
        return f"coordinates {coordinates}"
    changed = [name for name, plain in _PLAIN.items() if node.attrs.get(name, plain) != plain]
    return ", ".join(changed)


def _last_axes(node: Node) -> list[Axis] | None:
    """The axes from the first that is resized on, at least the last, if all are known."""
    before, after = node.inputs[0].shape, node.outputs[0].shape
    factors, sizes = (constant(input_at(node, index)) for index in (2, 3))
    given = factors if factors is not None and factors.size else sizes
    if before is None or after is None or given is None:
        return None
    found = [Axis(*each, Fraction(1)) for each in zip(before, after, strict=True)]
    listed = node.attrs.get("axes") or range(len(before))
    for position, value in zip(listed, given.tolist(), strict=True):
        whole = found[position].before if given is sizes else 1
        if not isinstance(whole, int):
            return None
        found[position] = replace(found[position], scale=Fraction(value) / whole)
    first = next((i for i, axis in enumerate(found) if axis.scale != 1), -1)
    sides = [size for axis in found[first:] for size in (axis.before, axis.after)]
    return found[first:] if all(isinstance(size, int) for size in sides) else None


def _taps(node: Node, axes: list[Axis]) -> Taps:
    coordinates = node.attrs.get("coordinate_transformation_mode", "half_pixel")
    nearest = node.attrs.get("nearest_mode", "round_prefer_floor") if moves(node) else ""
    return taps_of(axes, coordinates, nearest)
