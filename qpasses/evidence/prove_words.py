"""Products with 16 bits: a proved bound, and the body on inputs made to find it wrong.

The arithmetic of bodies and meaning is exact on integers (opsets/word_products.py), so that
they can only differ by a mistake in the statements. Beyond the codes that y saturates at, real
arithmetic saturates too: the bound counts up to there.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64
from opsets.op import Constants
from opsets.qpasses_v1 import OPS
from opsets.rounding import LAST_STEP, wraps
from opsets.word_products import LARGEST, largest_multiplier, reach_of_product
from qpasses.evidence.bodies import body_of
from qpasses.evidence.node_evidence import NodeEvidence
from qpasses.evidence.problems import problem_of
from qpasses.evidence.thresholds import end_levels, products
from qpasses.ir.graph import Node
from qpasses.ir.record import Record
from qpasses.ir.runtime import run_op

_STEPS = 1 << 13
"""So many steps of the result are looked at, on both sides."""

_ROWS = 8
"""Of matrices that are drawn, so many rows and columns."""

_LARGEST = 1 << 22
"""So many codes a matrix has at most of which each column is a sum beside a step."""


def word_product(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """IntMul: each code beside any other, the ends, both sides of steps for either operand."""
    pairs = _pairs(given)
    levels = [pairs[name].astype(np.int64) - int(given[f"{name}_zero"]) for name in "ab"]
    return _bounded(node, given, record, [(pairs, levels[0] * levels[1])], 1)


def word_matrix(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """IntMatMul: the four corners, rows of anything, sums on both sides of steps."""
    inner = int(node.attrs["inner"])
    return _bounded(node, given, record, list(_matrices(given, inner)), inner)


_Inputs = tuple[dict[str, NDArray[Any]], Int64]
"""a and b, and their exact product."""


def _bounded(
    node: Node, given: Constants, record: Record, inputs: Sequence[_Inputs], inner: int
) -> NodeEvidence:
    entry, body, op = record.nodes[node.name], body_of(node, record), OPS[node.op]
    attributes = {name: node.attrs[name] for name in op.attributes}
    ratio, problem = entry.real_scales()[0], problem_of(node, given, record)
    problem = problem or _beyond_64_bits(node, given, inner)
    count = wrong = unlike = 0
    for operands, acc in inputs if not problem else ():
        arrays = [{**given, **operands}[name] for name in op.inputs]
        meaning = op.reference(*arrays, **attributes).astype(np.int64)
        for optimize in (False, True):
            found = run_op(node.op, body, arrays, attributes, optimize=optimize)
            wrong += int((found != meaning).sum())
        unlike += int((meaning != _real(given, acc, ratio)).sum())
        count += meaning.size
    bound = product_bound(given, ratio, inner, node.attrs["rounding"])
    reachable = products(given["a_zero"], given["b_zero"], inner)
    return NodeEvidence(
        name=node.name,
        op=node.op,
        kind="bounded",
        domain=count,
        mismatches=wrong,
        body=body.overload,
        reference_moved=unlike,
        reference_max_lsb=int(bound + 1),
        accumulator=(int(reachable.low[0]), int(reachable.high[0])),
        bound=bound,
        problem=problem,
    )


def _beyond_64_bits(node: Node, given: Constants, inner: int) -> str:
    """Why no arithmetic of 64 bits holds a node, or nothing; two roundings: or of 32."""
    rounding, reach = node.attrs["rounding"], reach_of_product(given, inner)
    if reach * largest_multiplier(given) > LARGEST:
        return "its products with the multiplier can leave 64 bits"
    if wraps([-reach, reach], given["shift"].reshape(()), rounding).any():
        return "its left shift can leave int32"
    return ""


def product_bound(given: Constants, ratio: Fraction, inner: int, rounding: str = "") -> float:
    """How far a sum of ``inner`` products is from the real one, in steps of y, at most.

    Before it is rounded, and where the real one or ours is no code that y saturates at. The
    multiplier is off by the same part of each; two roundings add half a step of the first.
    """
    ours = Fraction(int(given["multiplier"].reshape(())), 1 << int(given["shift"].reshape(())))
    zero = int(given["y_zero"])
    last = max(abs(int(given[name]) - zero) for name in ("y_min", "y_max")) + 1
    reach = Fraction(reach_of_product(given, inner))
    if min(ours, ratio) > 0:
        reach = min(reach, last / min(ours, ratio))
    bound = abs(ours - ratio) * reach
    if rounding in LAST_STEP and given["shift"] > 31:
        bound += Fraction(1, 1 << int(given["shift"].reshape(())) - 30)
    return float(bound)


def _real(given: Constants, acc: Int64, ratio: Fraction) -> Int64:
    """The stored products of real arithmetic, in double."""
    levels = np.rint(acc.astype(np.float64) * float(ratio)) + float(given["y_zero"])
    return np.clip(levels, float(given["y_min"]), float(given["y_max"])).astype(np.int64)


def _beside_steps(given: Constants, count: int) -> Int64:
    """[2 * count or fewer]: accumulators on both sides of steps of y, as far as codes go."""
    m, shift = (int(given[name].reshape(())) for name in ("multiplier", "shift"))
    low, high, zero = (int(given[name]) for name in ("y_min", "y_max", "y_zero"))
    steps = np.unique(np.linspace(low, high, count).astype(np.int64)) - zero
    below = [((2 * k - 1) << shift) // (2 * m) for k in steps.tolist()] if m > 0 else [0]
    return np.array([near + side for near in below for side in (0, 1)], object)


def _pairs(given: Constants) -> dict[str, NDArray[Any]]:
    rng, zeros = np.random.default_rng(0), [int(given[f"{name}_zero"]) for name in "ab"]
    limits = [np.iinfo(given[f"{name}_zero"].dtype) for name in "ab"]
    found: list[list[Int64]] = [[], []]

    def anywhere(which: int, count: int) -> Int64:
        return rng.integers(limits[which].min, limits[which].max, count, endpoint=True)

    for one, other in ((0, 1), (1, 0)):
        every = np.arange(limits[one].min, limits[one].max + 1)
        ends = np.array([limits[other].min, limits[other].max])
        found[one] += [every, *[np.repeat([limits[one].min, limits[one].max], 2)]]
        found[other] += [anywhere(other, len(every)), np.tile(ends, 2)]
        wanted = _beside_steps(given, _STEPS)
        beside = anywhere(other, len(wanted))
        level = np.where(beside == zeros[other], 1, beside - zeros[other]).astype(object)
        near = np.clip(wanted // level + zeros[one], limits[one].min, limits[one].max - 1)
        for side in (0, 1):
            found[one].append(near.astype(np.int64) + side)
            found[other].append(beside)
    return {
        name: np.concatenate(found[which]).astype(given[f"{name}_zero"].dtype)
        for which, name in enumerate("ab")
    }


def _matrices(given: Constants, inner: int) -> Iterator[_Inputs]:
    rng, zeros = np.random.default_rng(0), [given[f"{name}_zero"] for name in "ab"]
    limits = [np.iinfo(zero.dtype) for zero in zeros]
    sides = (_ROWS, inner), (inner, _ROWS)
    a, b = (
        rng.integers(each.min, each.max, shape, each.dtype, endpoint=True)
        for each, shape in zip(limits, sides, strict=True)
    )
    a[:2] = np.array([[limits[0].min], [limits[0].max]])
    b[:, :2] = np.array([limits[1].min, limits[1].max])
    yield {"a": a, "b": b}, _product(a, b, *zeros)
    corners = [x * y for x in end_levels(zeros[0]) for y in end_levels(zeros[1])]
    count = max(min(_STEPS, _LARGEST // (2 * max(inner, 1))), 1)
    wanted = _beside_steps(given, count)
    least, most = inner * min(corners), inner * max(corners)
    reached = np.array([n for n in wanted if least <= n <= most], np.int64)
    for part in (reached[reached >= 0], reached[reached < 0]):
        if inner and part.size:
            row, columns = operands_of(part, zeros[0], zeros[1], inner)
            acc = part[None]
            yield {"a": row, "b": columns}, acc


def _product(a: NDArray[Any], b: NDArray[Any], *zeros: NDArray[Any]) -> Int64:
    levels = (x.astype(np.int64) - int(zero) for x, zero in zip((a, b), zeros, strict=True))
    return np.asarray(np.matmul(*levels), np.int64)


def operands_of(
    acc: NDArray[np.integer[Any]], a_zero: NDArray[Any], b_zero: NDArray[Any], inner: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Stored a [1, K] and b [K, N] whose product, less zero points, is ``acc`` [N].

    All of ``acc`` have one sign and are reached by ``inner`` products: by so many of the
    largest level of a, of those that give this sign, and more of its unit for the remainder.
    """
    sign = -1 if (acc < 0).any() else 1
    corners = sorted(
        (sign * a * b, a, b) for a in end_levels(a_zero) for b in end_levels(b_zero)
    )
    _, a, b = corners[-1]
    step = max(abs(a), 1)
    whole, remainder = np.divmod(np.abs(acc.astype(np.int64)), step)
    units = -(-(step - 1) // max(abs(b), 1))
    row = np.repeat([a, np.sign(a)], [inner, units])
    columns = np.sign(b) * np.concatenate([spread(whole, inner), spread(remainder, units)])
    return (row + a_zero).astype(a_zero.dtype)[None], (columns + b_zero).astype(b_zero.dtype)


def spread(totals: Int64, count: int) -> Int64:
    """[count, N]: numbers as equal as they can be whose sums are ``totals``."""
    base, more = np.divmod(totals, max(count, 1))
    return base + (np.arange(count)[:, None] < more)
