"""Sums of words, which have more pairs than run, differences, and the way back to 8 bits."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64
from opsets.op import Constants
from opsets.qpasses_v1 import OPS
from opsets.rounding import LAST_STEP
from qpasses.evidence.bodies import body_of
from qpasses.evidence.node_evidence import NodeEvidence
from qpasses.evidence.problems import problem_of
from qpasses.evidence.prove_pairs import SUBTRACTING, half_to_even
from qpasses.ir.edges import codes
from qpasses.ir.graph import Node
from qpasses.ir.record import Quantization, Record
from qpasses.ir.runtime import run_op

_NEAR_STEPS = 1 << 14
"""So many steps of the result are looked at, on both sides."""


def stream_sum(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """A bound for every pair, and the body on pairs that were made to find it wrong."""
    entry, body = record.nodes[node.name], body_of(node, record)
    ratios = [Fraction(entry.scales[n][0]) / Fraction(entry.scales["y"][0]) for n in "ab"]
    signs = 1, -1 if node.op in SUBTRACTING else 1
    signed = [sign * ratio for sign, ratio in zip(signs, ratios, strict=True)]
    pairs = stream_pairs(given, [float(each) for each in signed])
    inputs = [{**given, **pairs}[name] for name in OPS[node.op].inputs]
    attributes = {"rounding": node.attrs["rounding"]}
    problem = problem_of(node, given, record)
    meaning = OPS[node.op].reference(*inputs, **attributes).astype(np.int64)
    runs = (
        run_op(node.op, body, inputs, attributes, optimize=each)
        for each in ((False, True) if not problem else ())
    )
    gaps = np.abs(meaning - _real(given, pairs, signed))
    bound = sum_bound(given, ratios, node.attrs["rounding"])
    return NodeEvidence(
        name=node.name,
        op=node.op,
        kind="bounded",
        domain=len(meaning),
        mismatches=sum(int((found != meaning).sum()) for found in runs),
        body=body.overload,
        reference_moved=int((gaps > 0).sum()),
        reference_max_lsb=int(bound + 1),
        bound=bound,
        problem=problem,
    )


def sum_bound(given: Constants, ratios: list[Fraction], rounding: str = "") -> float:
    """How far a sum is from the real one at most, in steps of y, before it is rounded.

    Each multiplier is off by so much at the code furthest from zero; where operands are
    rounded on their own, each by half a step more, one of which stands for the rounding of the
    sum.
    """
    total = Fraction(0)
    for name, ratio in zip("ab", ratios, strict=True):
        limits, zero = np.iinfo(given[f"{name}_zero"].dtype), int(given[f"{name}_zero"])
        furthest = max(limits.max - zero, zero - limits.min)
        shift = int(given[f"{name}_shift" if "left_shift" in given else "shift"])
        total += abs(Fraction(int(given[f"{name}_multiplier"]), 1 << shift) - ratio) * furthest
        if rounding in LAST_STEP and shift > 31:  # half a step of the first of two roundings
            total += Fraction(1, 1 << shift - 30)
    return float(total + Fraction("left_shift" in given) / 2)


def stream_pairs(given: Constants, ratios: list[float]) -> dict[str, NDArray[Any]]:
    """[P] codes of a and b: each code beside any other, the ends, both sides of steps of y."""
    rng = np.random.default_rng(abs(int(given["a_multiplier"])))
    zeros = [int(given[f"{name}_zero"]) for name in "ab"]
    ends = [np.iinfo(given[f"{name}_zero"].dtype) for name in "ab"]

    def anywhere(which: int, count: int) -> Int64:
        return rng.integers(ends[which].min, ends[which].max, count, endpoint=True)

    found: list[list[Int64]] = [[], []]
    for one in (0, 1):
        every = np.arange(ends[one].min, ends[one].max + 1)
        found[one] += [every, *[np.repeat([ends[one].min, ends[one].max], 2)]]
        found[1 - one] += [
            anywhere(1 - one, len(every)),
            np.tile([ends[1 - one].min, ends[1 - one].max], 2),
        ]
        low, high = sorted((int(given["y_min"]), int(given["y_max"])))  # forged, it may be
        steps = rng.integers(low, high, _NEAR_STEPS, endpoint=True) - int(given["y_zero"])
        other = anywhere(1 - one, _NEAR_STEPS)
        term = (other - zeros[1 - one]) * ratios[1 - one]
        wanted = (steps - 1 / 2 - term) / (ratios[one] or 1.0)
        near = np.clip(np.floor(wanted) + zeros[one], ends[one].min, ends[one].max - 1)
        for side in (0, 1):
            found[one].append(near.astype(np.int64) + side)
            found[1 - one].append(other)
    return {
        name: np.concatenate(found[which]).astype(given[f"{name}_zero"].dtype)
        for which, name in enumerate("ab")
    }


def _real(
    given: Constants, pairs: Mapping[str, NDArray[Any]], ratios: list[Fraction]
) -> Int64:
    """The stored sums of real arithmetic, in double; ``ratios`` have the signs of terms."""
    total = sum(
        (pairs[name].astype(np.float64) - float(given[f"{name}_zero"])) * float(ratio)
        for name, ratio in zip("ab", ratios, strict=True)
    )
    levels = np.rint(total) + float(given["y_zero"])
    return np.clip(levels, float(given["y_min"]), float(given["y_max"])).astype(np.int64)


def rescale(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """All codes, through onnxruntime itself."""
    scales, x_zero = record.nodes[node.name].scales, int(given["x_zero"])
    x = np.sort(codes(Quantization(1.0, x_zero, given["x_zero"].dtype.name)))
    ratio = Fraction(scales["x"][0]) / Fraction(scales["y"][0])
    total = (x.astype(object) - x_zero) * ratio.numerator
    return of_numbers(node, given, record, x, half_to_even(total, ratio.denominator))


def of_numbers(
    node: Node, given: Constants, record: Record, x: NDArray[Any], levels: NDArray[Any]
) -> NodeEvidence:
    """A node of one tensor on the numbers ``x``, [N]: its body, its meaning, and the
    ``levels`` of real arithmetic, which may be of any size.
    """
    op, body = OPS[node.op], body_of(node, record)
    inputs = [{**given, "x": x}[name] for name in op.inputs]
    attributes = {name: node.attrs[name] for name in op.attributes}
    meaning = op.reference(*inputs, **attributes).astype(np.int64)
    stored = levels + int(given["y_zero"])
    real = np.clip(stored, int(given["y_min"]), int(given["y_max"])).astype(np.int64)
    gaps = np.abs(meaning - real)
    runs = [run_op(node.op, body, inputs, attributes, optimize=e) for e in (False, True)]
    return NodeEvidence(
        name=node.name,
        op=node.op,
        kind="exhaustive",
        domain=len(x),
        mismatches=int(np.logical_or(*(found != meaning for found in runs)).sum()),
        body=body.overload,
        reference_moved=int((gaps > 0).sum()),
        reference_max_lsb=int(gaps.max()),
        problem=problem_of(node, given, record),
    )
