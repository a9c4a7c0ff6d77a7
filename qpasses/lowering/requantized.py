"""What the passes share that turn an accumulator into stored integers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.errors import UsageError
from opsets.fixed_point import Int64
from opsets.multipliers import Scale, ScaleError
from opsets.qpasses_v1 import OPS
from opsets.realised import SCALED_ROUNDING, node_rounding, word_sum_rounding
from opsets.row_blocks import rows_along
from opsets.target import Target
from opsets.word_products import has_words
from qpasses.evidence.thresholds import Interval, levels
from qpasses.ir.graph import Graph, Node, Tensor
from qpasses.ir.patterns import AnyStored, clamp, common_clamp
from qpasses.ir.record import AnyQuantization, NodeRecord, Quantization, in_channels, scales_of
from qpasses.ir.rewriting import Context, Declined, Outcome
from qpasses.lowering.numbers.multiplier_search import (
    Choice,
    choose_multipliers,
    derive_multipliers,
    scaled_multipliers,
    unlike_target,
    with_most_real_sums,
)
from qpasses.lowering.numbers.word_numbers import unlike_widths, word_multipliers
from qpasses.lowering.put_integer_node import (
    constants_of,
    output_codes,
    own_constants,
    put_integer_node,
    sources,
)


@dataclass(frozen=True)
class Replaced:
    """A float node with the stored tensor it gives and the clamps it absorbs.

    ``added``: the Add of a bias behind it, or the Mul or Div by a number, if there is one.
    """

    node: Node
    y: AnyStored
    absorbed: Sequence[Node]
    added: Sequence[Node] = ()


@dataclass(frozen=True)
class Accumulation:
    """The int32 sum of a float node: what it can reach, and the real scales it stands for.

    ``scales`` are those of the operands by input name, of weights per channel: the sum is in
    steps of their product and is divided by ``cells``.
    """

    reachable: Interval
    scales: Mapping[str, Sequence[float]]
    cells: int = 1


def accumulators(
    weights: NDArray[Any], bias: NDArray[Any], axis: int, x: AnyQuantization
) -> Interval:
    """What sum((x - x_zero) * w) + bias can reach per channel, for any stored x.

    ``weights`` are stored, the output channels along ``axis``; padding is zero and inside.
    """
    zeros: Int64 = x.zero.astype(np.int64)
    if zeros.ndim:  # of the channel that makes each of the output's
        zeros = np.repeat(zeros, weights.shape[axis] // zeros.size)
    low, high = (np.int64(limit) - zeros for limit in x.type_limits)
    positive, negative = (
        np.concatenate([side(rows, 0).sum(axis=1, dtype=np.int64) for rows in parts])
        for side, parts in (
            (np.maximum, rows_along(weights, axis)),
            (np.minimum, rows_along(weights, axis)),
        )
    )
    offset = bias.astype(np.int64)
    return Interval(
        positive * low + negative * high + offset, positive * high + negative * low + offset
    )


def emit_requantized(
    graph: Graph,
    replaced: Replaced,
    op: str,
    inputs: Sequence[Tensor],
    attributes: dict[str, Any],
    acc: Accumulation,
    context: Context,
) -> Outcome:
    """Put ``op`` in place of ``replaced``: ``inputs``, multiplier, shift, zero point, clamp.

    The multipliers do not depend on the wanted bodies, so that all bodies mean the same.
    Declines if an accumulator could leave its width, or the target computes something else.
    """
    node, y, target = replaced.node, replaced.y.quantization, context.target
    if not all(0 < each < np.inf for values in acc.scales.values() for each in values):
        return Declined(f"{node.op} with a scale that is no number of float32")
    given = constants_of(op, inputs)
    of_words = has_words({**given, "y_zero": y.zero}, attributes)
    bits = _sum_bits(op, given, target)
    if not acc.reachable.fits(bits):
        channel, amount = acc.reachable.farthest()
        return Declined(
            f"{node.op} could overflow its int{bits} accumulator: channel {channel} reaches "
            f"{amount}, int{bits} ends at {1 << (bits - 1)}: fewer bits of "
            "weights, or parts that are added, would hold it"
        )
    if bits == WORD_SUM_BITS and not _holds_bias(given):
        return Declined(f"{node.op} reads 16 bits and has a stored bias beyond 2**30")
    clamps = replaced.absorbed
    bounds = clamp(clamps, y) if isinstance(y, Quantization) else common_clamp(clamps, y)
    if bounds is None:
        return Declined(f"{node.op} with clamps inside of the codes of some channels")
    ends = output_codes(y, bounds, context)
    known = given | {"y_min": ends[1].values, "y_max": ends[2].values}
    reads_words = has_words(given, attributes)
    zeros = [value for name, value in given.items() if name in _ZEROS]
    if problem := unlike_widths(
        target, node.op, *(each.dtype.name for each in zeros), y.dtype
    ):
        return Declined(problem)
    has_rule = op in MATRICES and reads_words and target.word_multiplier is not None
    is_scaled = op == "IntGemm" and target.gemm == "scaled" and not has_rule
    rounding = SCALED_ROUNDING if is_scaled else node_rounding(target)
    if has_rule:
        rounding = word_sum_rounding(target)
    attributes = {**attributes, "rounding": rounding}
    record = NodeRecord(
        source=sources(node, *replaced.added, *replaced.absorbed),
        scales={**{name: list(each) for name, each in acc.scales.items()}, "y": scales_of(y)},
        cells=acc.cells,
        macs=context.record.macs.get(node.name, 0),
        bias=context.given.biases.get(node.name, ()),
    )
    if is_scaled and of_words:
        return Declined(f"{node.op}: target {target.name!r} scales sums of 8 bits alone")
    if of_words:
        try:
            scales = _scales(op, acc, scales_of(y), target)
            choice = word_multipliers(
                scales, acc.reachable, target, op not in MATRICES, reads_words
            )
        except UsageError as error:
            return Declined(f"{node.op}: {error}")
    else:
        steps = levels(y.zero_point, *bounds)
        try:
            if is_scaled:
                scales = _scales(op, acc, scales_of(y), target)
                choice = scaled_multipliers(scales, steps, acc.reachable)
            else:
                choice = _choice(op, acc, record, known, attributes, steps, target)
        except ScaleError as error:
            return Declined(f"{node.op}: {error}")
        if choice.rest is not None and choice.rest.any():
            attributes["bias_rests"] = choice.rest.tolist()
        pair = choice.multiplier, choice.shift
        problem = unlike_target(*pair, steps, acc.reachable, target)
        if problem and not is_scaled:
            return Declined(f"{node.op}: {problem}")
    numbers = {"multiplier": choice.multiplier, "shift": choice.shift}
    scaling = {name: value.astype(np.int32) for name, value in numbers.items()}
    return put_integer_node(
        graph,
        op,
        node.name,
        [*inputs, *own_constants(node.name, scaling, context), *ends],
        replaced.y.tensor,
        attributes,
        record,
        context,
    )


_ZEROS = ("x_zero", "a_zero", "b_zero")
"""Inputs that have the types of what flows in."""

WORD_SUM_BITS, MATRIX_BITS = 38, 62
"""Of sums of words with constant weights, each of whose planes int32 has to hold; of those of
two tensors, which their own multipliers bound."""


def _sum_bits(op: str, given: Mapping[str, NDArray[Any]], target: Target) -> int:
    """How many bits a sum of so ``given`` operands has at most."""
    if not has_words(given, {}):
        return min(target.accumulator_bits, 32)
    return MATRIX_BITS if op == "IntMatMul" else WORD_SUM_BITS


def _holds_bias(given: Mapping[str, NDArray[Any]]) -> bool:
    """Whether int32 holds the bias and the sum of the lower plane, which is below 2**30."""
    bias = given.get("bias", np.zeros(0)).astype(np.int64)
    return not (np.abs(bias) > 1 << 30).any()


def _choice(
    op: str,
    acc: Accumulation,
    record: NodeRecord,
    known: Mapping[str, NDArray[Any]],
    attributes: Mapping[str, Any],
    steps: Int64,
    target: Target,
) -> Choice:
    """The multipliers of codes of 8 bits. Raises ScaleError where the target has none."""
    if target.fast_kernels:
        kernel = OPS[op].body("onnxruntime", known, attributes).kernel
        assert kernel is not None, op
        return choose_multipliers(record.real_scales(), steps, acc.reachable, kernel, target)
    derived = _scales(op, acc, record.scales["y"], target)
    choice = derive_multipliers(derived, target, op not in MATRICES)
    if not target.seeks_real_sums:
        return choice
    real, stored = record.real_scales(), known.get("bias")
    rests = record.bias_rests(stored) if stored is not None else []
    return with_most_real_sums(choice, real, rests, steps, acc.reachable, target)


MATRICES = ("IntConv", "IntConvPerChannel", "IntGemm", "IntMatMul")
"""Ops with the multipliers of accumulators; others have those of elementwise ops."""


def _scales(op: str, acc: Accumulation, y: Sequence[float], target: Target) -> list[Scale]:
    """The scale of each channel as the system of the target computes it."""
    channels = in_channels([*acc.scales.values(), y])
    found = (target.real_scale(op, operands, one) for *operands, one in channels)
    return [scale if acc.cells == 1 else scale / acc.cells for scale in found]
