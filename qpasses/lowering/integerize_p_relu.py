"""IntegerizePRelu: LeakyRelu and PRelu by a multiplier on each side of zero."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from opsets.errors import UsageError
from opsets.op import Flavour
from opsets.qpasses_v1 import OPS
from opsets.realised import slopes_are_coded
from qpasses.ir.elementwise import differing_axes, made_of, slopes_of, takes_multipliers
from qpasses.ir.function import Function
from qpasses.ir.graph import Graph, Node
from qpasses.ir.patterns import quantized_by, stored_input
from qpasses.ir.record import SIGNALS, NodeRecord, Quantization
from qpasses.ir.rewriting import NOT_MINE, Context, Declined, Outcome, Pass
from qpasses.lowering.numbers.coded_slope_numbers import coded_slopes
from qpasses.lowering.numbers.slope_numbers import choose_slopes, nearest_slopes
from qpasses.lowering.put_integer_node import (
    output_codes,
    own_constants,
    put_integer_node,
    scales,
    with_zero,
)

MOST_WIDE_SLOPES = 1024
"""So many slopes of 16 bits are run on all codes."""


class IntegerizePRelu(Pass):
    """Multiply what lies above and below zero, where that is wanted or no table can.

    before: ``y = Q(PRelu(DQ(x), slopes))``
    after:  ``y = qpasses.IntPRelu(x, x_zero, multiplier, shift, slope_multiplier, ...)``
    **Exact** up to the multipliers: the codes that differ from real arithmetic are counted in
    the evidence. For a LeakyRelu or PRelu that is a chain of its own, with
    ``--activation-form multiplier``, slopes that differ along several axes, or a target with
    a form of its own: IntCodedPRelu, or a table where that form has no number for a slope. Of
    16 bits also where slopes differ at all, as such tables are of one function.
    """

    op_types: ClassVar = frozenset({"QuantizeLinear"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Choose the multipliers on all codes, put IntPRelu in place."""
        settings, end = context.settings, node.inputs[0]
        nodes, source = made_of(end, context.selection.excluded)
        if source is None or len(nodes) != 1 or slopes_of(nodes[0]) is None:
            return NOT_MINE
        x, y = stored_input(source, settings, SIGNALS), quantized_by(node, settings, SIGNALS)
        if x is None or y is None:
            return NOT_MINE
        kinds = {x.quantization.dtype, y.quantization.dtype}
        has_no_table = "int16" in kinds and bool(differing_axes(nodes))
        wanted = takes_multipliers(nodes, settings.activation_form, settings.target)
        if not (wanted or has_no_table) or len(kinds - {"int16"}) > 1:
            return NOT_MINE
        meaning, name = y.quantization, nodes[0].name
        ends = output_codes(meaning, meaning.limits, context)
        clamps = {"y_min": ends[1].values, "y_max": ends[2].values}
        attributes = {"rounding": context.target.rounding}
        try:
            op, numbers = _numbers(nodes[0], x.quantization, meaning, clamps, context)
        except UsageError as error:
            return Declined(str(error), of=[name])
        inputs = [*with_zero(x, context), *own_constants(name, numbers, context), *ends]
        record = NodeRecord(
            source=[name],
            scales=scales(x=x, y=y),
            function=Function.of(nodes, [source], end, graph.opset).as_text(),
        )
        return put_integer_node(graph, op, name, inputs, y.tensor, attributes, record, context)


def _numbers(
    node: Node,
    x: Quantization,
    y: Quantization,
    clamps: Mapping[str, NDArray[Any]],
    context: Context,
) -> tuple[str, Mapping[str, NDArray[np.int32]]]:
    """The integer op and its numbers by name.

    Raises UsageError for what the target cannot express.
    """
    slopes, target = slopes_of(node), context.target
    assert slopes is not None, node.name
    slopes = slopes.reshape(() if slopes.size == 1 else slopes.shape)
    has_words = "int16" in (x.dtype, y.dtype)
    if has_words and slopes_are_coded(target):
        raise UsageError(f"target {target.name!r} has multipliers of slopes for 8 bits alone")
    if has_words and slopes.size > MOST_WIDE_SLOPES:
        raise UsageError(
            f"{slopes.size:,} slopes of 16 bits: no more than {MOST_WIDE_SLOPES:,} are proved"
        )
    if slopes_are_coded(target):
        leaky = node.op == "LeakyRelu"
        return "IntCodedPRelu", coded_slopes(x, y, slopes, leaky, target)
    if has_words:
        choice = nearest_slopes(x, y, slopes, target)
    else:
        judged: Flavour = "onnxruntime" if target.fast_kernels else "portable"
        kernel = OPS["IntPRelu"].body(judged, clamps, {"rounding": target.rounding}).kernel
        assert kernel is not None
        choice = choose_slopes(x, y, slopes, kernel, target)
    numbers = {
        "multiplier": choice.multiplier[0],
        "shift": choice.shift[0],
        "slope_multiplier": choice.multiplier[1:].reshape(slopes.shape),
        "slope_shift": choice.shift[1:].reshape(slopes.shape),
    }
    typed = {name: np.asarray(value).astype(np.int32) for name, value in numbers.items()}
    return "IntPRelu", typed
