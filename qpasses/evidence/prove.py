"""Prove: recompute, from the constants on each integer node, that its body is its meaning."""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from fractions import Fraction
from math import prod

import numpy as np

from opsets.errors import ModelError, UsageError
from opsets.fixed_point import Int64
from opsets.kernels import RESTED
from opsets.op import DOMAIN, Constants, of_words
from opsets.qpasses_v1 import OPS
from opsets.qpasses_v1.int_reduce import DIVIDES
from opsets.rounding import NodeRounding
from opsets.row_blocks import rows_along
from opsets.word_products import has_words
from qpasses.evidence.bodies import body_of, constants_of
from qpasses.evidence.node_evidence import NodeEvidence
from qpasses.evidence.problems import beyond, headroom, problem_of
from qpasses.evidence.prove_casts import cast
from qpasses.evidence.prove_gemmlowp import gemmlowp_softmax
from qpasses.evidence.prove_lookups import (
    asked_about,
    lookup,
    lookup_interpolated,
    lookup_interpolated_by_channel,
    lookup_pair,
)
from qpasses.evidence.prove_moves import (
    chosen_words,
    extreme_words,
    largest_words,
    padded_words,
    shuffled_words,
)
from qpasses.evidence.prove_pairs import PAIRS, all_pairs, kernel_differences, real_sum
from qpasses.evidence.prove_products import mul_inputs, real_product
from qpasses.evidence.prove_published import (
    i_bert_gelu,
    i_layer_norm,
    published_softmax,
    shift_gelu,
)
from qpasses.evidence.prove_quotients import quotients
from qpasses.evidence.prove_recurrent import recurrent
from qpasses.evidence.prove_reductions import (
    differing_sums,
    multiplier_error,
    reduced_thresholds,
    sums,
)
from qpasses.evidence.prove_rows import log_softmax, normalized, softmax, softmax16
from qpasses.evidence.prove_slopes import slope_differences
from qpasses.evidence.prove_streams import rescale, stream_sum
from qpasses.evidence.prove_windows import differing_means, window_sizes
from qpasses.evidence.prove_word_sums import word_sums
from qpasses.evidence.prove_words import word_matrix, word_product
from qpasses.evidence.tables_together import ANSWERS
from qpasses.evidence.taps import total_of
from qpasses.evidence.thresholds import (
    Interval,
    kernel_mismatches,
    largest_gap,
    levels,
    meaning_thresholds,
    moved,
    products,
    real_thresholds,
)
from qpasses.ir.function import Function
from qpasses.ir.graph import Graph, Node, constant
from qpasses.ir.record import AnyQuantization, Quantization, Record
from qpasses.ir.stages import Kind, kind


def prove(graph: Graph, record: Record) -> Iterator[NodeEvidence]:
    """The evidence of each integer node of ``graph``, in graph order."""
    for start in range(0, len(graph.nodes), AT_ONCE):
        nodes = graph.nodes[start : start + AT_ONCE]
        tables = [node for node in nodes if node.domain == DOMAIN and node.op == "Lut"]
        ANSWERS.ask(asked_about(each, record, constants_of(each)["table"]) for each in tables)
        for node in nodes:
            yield from evidence_of(node, record)


AT_ONCE = 512
"""Of so many nodes the tables are asked for together."""


def evidence_of(node: Node, record: Record) -> Iterator[NodeEvidence]:
    """The evidence of an integer node, for the body its record names; nothing for others."""
    if node.domain == DOMAIN:
        yield prove_node(node, record)
    elif node.name in record.nodes or (
        kind(node) is Kind.INTEGER and stored_around(node, record)
    ):
        yield structural(node, record)


def proved_body(
    node: Node, record: Record, known: NodeEvidence | None = None
) -> NodeEvidence | None:
    """The evidence of the first onnxruntime body that is proved for a node of ``qpasses``.

    ``known``: that of the body in use. None if there is no such body.
    """
    entry = record.nodes[node.name]
    for body in OPS[node.op].fitting("onnxruntime", constants_of(node), node.attrs):
        if known is None or known.body != body.overload:
            other = copy(entry)  # as sound as it was
            other.overload = body.overload
            found = prove_node(node, Record(record.tensors, {node.name: other}))
        else:
            found = known
        if found.proved:
            return found
    return None


def prove_node(node: Node, record: Record) -> NodeEvidence:
    """The evidence of one node of domain ``qpasses``, for the body its record names.

    Raises ModelError for numbers that no arithmetic of 64 bits holds.
    """
    try:
        return PROOFS[node.op](node, constants_of(node), record)
    except UsageError as error:
        raise ModelError(f"node {node.name!r}: {error}") from error


def thresholds(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """Every step of every channel, over the accumulators that the weights allow.

    But for nodes with 16 bits at an end.
    """
    if any(each.dtype == np.int16 for name, each in given.items() if name.endswith("_zero")):
        return word_sums(node, given, record, accumulator_interval(node, given))
    entry = record.nodes[node.name]
    reachable = accumulator_interval(node, given)
    channels = len(reachable.low)
    multiplier, shift = (
        np.broadcast_to(given[name].astype(np.int64), (channels,))
        for name in ("multiplier", "shift")
    )
    rounding: NodeRounding = node.attrs["rounding"]
    steps = levels(*(int(given[name]) for name in ("y_zero", "y_min", "y_max")))
    rest = rests_of(node)
    ours = meaning_thresholds(multiplier, shift, steps, rounding, rest)
    kernel, wrong, problem = OPS[node.op].overload(entry.overload).kernel, 0, ""
    if kernel is None:  # as a body of 16 bits has none
        problem = f"body {entry.overload!r} does not compute such a node"
    else:
        more = rest if kernel in RESTED else None
        parts = kernel_mismatches(kernel, multiplier, shift, ours, steps, reachable, more)
        wrong = int(parts.sum())
    rests = entry.bias_rests(given.get("bias", np.zeros(0)))
    scales: Sequence[Fraction] = entry.real_scales()
    if rests:
        scales = list(scales) * (channels // len(scales))
    real = np.broadcast_to(real_thresholds(scales, steps, rests), ours.shape)
    low, high = int(reachable.low.min()), int(reachable.high.max())
    apart = moved(ours, real, reachable)
    wraps = reachable.wraps(shift, rounding)
    return NodeEvidence(
        name=node.name,
        op=node.op,
        kind="thresholds",
        domain=reachable.count(),
        mismatches=wrong,
        body=entry.overload,
        reference_moved=int(apart.sum()),
        reference_max_lsb=largest_gap(ours, real, reachable) if apart.any() else 0,
        channels=channels,
        moved_channels=np.flatnonzero(apart).tolist(),
        accumulator=(low, high),
        headroom_bits=headroom(low, high),
        problem=problem_of(node, given, record)
        or problem
        or ("" if reachable.fits_int32() else "the accumulator can leave int32")
        or ("its left shift can leave int32" if wraps else ""),
    )


def matrix(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """Every step over the accumulators of ``inner`` products; of words a bound."""
    prover = word_matrix if has_words(given, node.attrs) else thresholds
    return prover(node, given, record)


def rests_of(node: Node) -> Int64 | None:
    """[C]: what a node adds to the products of its accumulators; None for nothing."""
    rests = node.attrs.get("bias_rests")
    return np.array(rests, np.int64) if rests else None


def accumulator_interval(node: Node, given: Constants) -> Interval:
    """What the int32 accumulator of each channel can reach for any stored input."""
    if node.op == "IntMatMul":
        return products(given["a_zero"], given["b_zero"], node.attrs["inner"])
    limits, zeros = np.iinfo(given["x_zero"].dtype), given["x_zero"].astype(np.int64)
    if zeros.ndim:  # of the channel that makes each of the output's
        zeros = np.repeat(zeros, len(given["w"]) // zeros.size)
    low, high = limits.min - zeros, limits.max - zeros
    if "w" not in given:
        cells = _cells(node, given)
        return Interval((low * cells).reshape(1), (high * cells).reshape(1))
    axis = OPS[node.op].channel_axis
    zero, bias, found = int(given["w_zero"]), given["bias"].astype(np.int64), []
    for rows in rows_along(given["w"], axis):
        weights = rows.astype(np.int16) - zero
        sides = (np.maximum(weights, 0), np.minimum(weights, 0))
        found.append([side.sum(axis=1, dtype=np.int64) for side in sides])
    above, below = np.concatenate(found, axis=1)
    floors, ends = above * low + below * high, above * high + below * low  # low <= 0 <= high
    return Interval(floors + bias, ends + bias)


def _cells(node: Node, given: Constants) -> int:
    """How often a stored integer counts in the sum of a node without weights."""
    if node.op == "IntResize":
        return total_of(given, node.attrs)
    shape = node.attrs["kernel_shape" if node.op == "IntAveragePool" else "spatial_shape"]
    return prod(shape)


def add_pairs(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """All 65,536 pairs, of a sum in both orders, through onnxruntime itself.

    But for residual streams of 16 bits.
    """
    if any(given[f"{name}_zero"].dtype == np.int16 for name in "aby"):
        return stream_sum(node, given, record)
    entry = record.nodes[node.name]
    a, b, y = (
        Quantization(
            entry.scales[name][0], int(given[f"{name}_zero"]), given[f"{name}_zero"].dtype.name
        )
        for name in ("a", "b", "y")
    )
    bounds = int(given["y_min"]), int(given["y_max"])
    pairs = dict(zip("ab", all_pairs(a.dtype), strict=True))
    inputs = {name: {**given, **pairs}[name] for name in OPS[node.op].inputs}
    rounding = node.attrs["rounding"]
    meaning = OPS[node.op].reference(*inputs.values(), rounding=rounding)
    gaps = np.abs(meaning.astype(np.int64) - real_sum(a, b, y, bounds, node.op))
    return NodeEvidence(
        name=node.name,
        op=node.op,
        kind="exhaustive",
        domain=PAIRS,
        mismatches=kernel_differences(inputs, entry.overload, rounding, node.op),
        body=entry.overload,
        reference_moved=int((gaps > 0).sum()),
        reference_max_lsb=int(gaps.max()),
        problem=problem_of(node, given, record),
    )


def mul_pairs(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """All 65,536 pairs, in both orders, through onnxruntime itself; of words a bound."""
    if has_words(given, node.attrs):
        return word_product(node, given, record)
    entry, rounding = record.nodes[node.name], node.attrs["rounding"]
    a, b, y = (
        Quantization(
            entry.scales[name][0], int(given[f"{name}_zero"]), given[f"{name}_zero"].dtype.name
        )
        for name in ("a", "b", "y")
    )
    inputs = mul_inputs(a, b, y, int(given["multiplier"]), int(given["shift"]))
    inputs |= {name: given[name] for name in ("y_min", "y_max")}
    meaning = OPS["IntMul"].reference(*inputs.values(), rounding=rounding)
    bounds = int(given["y_min"]), int(given["y_max"])
    gaps = np.abs(meaning.astype(np.int64) - np.clip(real_product(a, b, y), *bounds))
    return NodeEvidence(
        name=node.name,
        op=node.op,
        kind="exhaustive",
        domain=PAIRS,
        mismatches=kernel_differences(inputs, entry.overload, rounding, "IntMul"),
        body=entry.overload,
        reference_moved=int((gaps > 0).sum()),
        reference_max_lsb=int(gaps.max()),
        problem=problem_of(node, given, record),
    )


def rectified(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """All codes under every slope, through onnxruntime itself."""
    entry, body = record.nodes[node.name], body_of(node, record)
    x, y = (
        Quantization(
            entry.scales[name][0], int(given[f"{name}_zero"]), given[f"{name}_zero"].dtype.name
        )
        for name in "xy"
    )
    slopes = Function.from_text(entry.function).slopes
    if not np.isfinite(slopes).all():
        raise ModelError(f"node {node.name!r}: its recorded slopes are not finite")
    found = slope_differences(node.op, body, given, node.attrs["rounding"], x, y, slopes)
    return NodeEvidence(
        name=node.name,
        op=node.op,
        kind="exhaustive",
        domain=(1 << 8 * given["x_zero"].itemsize) * slopes.size,
        mismatches=found.mismatches,
        body=entry.overload,
        reference_moved=found.moved,
        reference_max_lsb=found.max_lsb,
        channels=slopes.size,
        problem=problem_of(node, given, record),
    )


def reduced(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """Every step of the output, for as many cells as on the first sample.

    Where some have 16 bits, a bound for all of them, and as many steps as run soon.
    """
    entry, body = record.nodes[node.name], body_of(node, record)
    rounding, cells = node.attrs["rounding"], entry.cells if node.attrs["mean"] else 1
    reachable = sums(entry.cells, int(given["x_zero"]), given["x_zero"].dtype.name)
    steps = levels(*(int(given[name]) for name in ("y_zero", "y_min", "y_max")))
    if node.attrs["mean"] == DIVIDES:
        ours = reduced_thresholds(given, cells, rounding)
    else:
        multiplier, shift = (
            given[name].astype(np.int64).reshape(1) for name in ("multiplier", "shift")
        )
        ours = meaning_thresholds(multiplier, shift, steps, rounding)
    scales = replace(entry, cells=cells).real_scales()
    real = np.array(real_thresholds(scales, steps))
    attributes = {name: node.attrs[name] for name in OPS["IntReduce"].attributes}
    is_wide, parts = of_words(given, attributes), cells if node.attrs["mean"] == DIVIDES else 1
    low, high = int(reachable.low[0]), int(reachable.high[0])
    return NodeEvidence(
        name=node.name,
        op=node.op,
        kind="bounded" if is_wide else "thresholds",
        domain=reachable.count(),
        mismatches=differing_sums(body, given, entry.cells, attributes, ours, reachable),
        body=body.overload,
        reference_moved=int(moved(ours, real, reachable).sum()),
        reference_max_lsb=largest_gap(ours, real, reachable),
        channels=1,
        accumulator=(low, high),
        headroom_bits=headroom(low, high),
        bound=multiplier_error(given, parts, scales[0], reachable) if is_wide else None,
        problem=problem_of(node, given, record)
        or ("" if reachable.fits_int32() else "the accumulator can leave int32"),
    )


def counted_means(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """Every step of the output, for each number of cells that a window can have.

    Where some have 16 bits, a bound for all of them, and as many steps as run soon.
    """
    entry, body = record.nodes[node.name], body_of(node, record)
    steps = levels(*(int(given[name]) for name in ("y_zero", "y_min", "y_max")))
    is_wide, bounds = of_words(given, node.attrs), list[float]()
    domain = wrong = count = largest = 0
    for cells in window_sizes(node.attrs["kernel_shape"], node.attrs["uncounted_pads"]):
        reachable = sums(cells, int(given["x_zero"]), given["x_zero"].dtype.name)
        ours = reduced_thresholds(given, cells, node.attrs["rounding"])
        scales = replace(entry, cells=cells).real_scales()
        real = real_thresholds(scales, steps)
        bounds.append(multiplier_error(given, cells, scales[0], reachable))
        wrong += differing_means(body, given, cells, node.attrs, ours, reachable)
        count += int(moved(ours, real, reachable).sum())
        largest = max(largest, largest_gap(ours, real, reachable))
        domain += reachable.count()
    low, high = int(reachable.low[0]), int(reachable.high[0])
    return NodeEvidence(
        name=node.name,
        op=node.op,
        kind="bounded" if is_wide else "thresholds",
        domain=domain,
        mismatches=wrong,
        body=body.overload,
        reference_moved=count,
        reference_max_lsb=largest,
        channels=1,
        accumulator=(low, high),
        headroom_bits=headroom(low, high),
        bound=max(bounds) if is_wide else None,
        problem=problem_of(node, given, record)
        or ("" if reachable.fits_int32() else "the accumulator can leave int32"),
    )


def stored_around(node: Node, record: Record) -> set[AnyQuantization]:
    """What the stored tensors that a node reads and writes mean; none for other integers."""
    around = [*node.inputs, *node.outputs]
    return {record.tensors[t.name] for t in around if t.name in record.tensors}


def structural(node: Node, record: Record) -> NodeEvidence:
    """Moves stored integers: all stored tensors around it share scale and zero point."""
    meanings = stored_around(node, record)
    problem = ""
    if len(meanings) != 1:
        problem = "its stored tensors have different scales or zero points"
    elif node.op == "Clip":
        values = map(constant, node.inputs[1:])
        bounds = [int(each.item()) for each in values if each is not None and each.size == 1]
        if len(bounds) == 2:
            problem = beyond(node, record, *bounds)
        else:
            problem = "its bounds are not two constant numbers"
    return NodeEvidence(node.name, node.op, "structural", 0, 0, "standard", problem=problem)


PROOFS: dict[str, Callable[[Node, Constants, Record], NodeEvidence]] = {
    "IntConv": thresholds,
    "IntConvPerChannel": thresholds,
    "IntGemm": thresholds,
    "IntMatMul": matrix,
    "IntAveragePool": thresholds,
    "IntGlobalAveragePool": thresholds,
    "IntCountedAveragePool": counted_means,
    "IntAdd": add_pairs,
    "IntSub": add_pairs,
    "IntRescaledAdd": add_pairs,
    "IntRescaledSub": add_pairs,
    "IntRescale": rescale,
    "IntCast": cast,
    "IntDiv": quotients,
    "IntMul": mul_pairs,
    "IntPRelu": rectified,
    "IntCodedPRelu": rectified,
    "IntReduce": reduced,
    "IntResize": thresholds,
    "IntMaxPool": largest_words,
    "IntPad": padded_words,
    "IntWhere": chosen_words,
    "IntExtreme": extreme_words,
    "IntShuffle": shuffled_words,
    "TableSoftmax": softmax,
    "TableSoftmax16": softmax16,
    **dict.fromkeys(("IntGru", "IntLstm", "IntRnn"), recurrent),
    "IntLogSoftmax": log_softmax,
    "IntLayerNorm": normalized,
    "GemmlowpSoftmax": gemmlowp_softmax,
    "Shiftmax": published_softmax,
    "IBertSoftmax": published_softmax,
    "ShiftGelu": shift_gelu,
    "IBertGelu": i_bert_gelu,
    "ILayerNorm": i_layer_norm,
    "Lut": lookup,
    "Lut16": lookup,
    "LutInterpolated": lookup_interpolated,
    "LutInterpolatedPerChannel": lookup_interpolated_by_channel,
    "LutPerChannel": lookup,
    "LutPair": lookup_pair,
}
"""The ops that a graph may hold, and what proves a node of each."""
