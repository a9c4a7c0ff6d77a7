"""Sums of two stored tensors: multipliers with which the fast kernel is exact on all pairs."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.errors import UsageError
from opsets.fixed_point import LARGEST_SHIFT, ROUNDINGS, saturating_multiplier
from opsets.forms import ADD_FORMS
from opsets.multipliers import ScaleError
from opsets.qpasses_v1 import OPS
from opsets.realised import quotient_rounding, searched
from opsets.target import Target
from qpasses.evidence.prove_pairs import (
    add_inputs,
    all_pairs,
    fast_overload,
    kernel_agrees,
    near_ties,
    real_sum,
)
from qpasses.ir.record import Quantization

NEAR = 3
"""Neighbours compared with real arithmetic: changes that add up to so many units at most."""


RING = 6
"""Neighbours all tried: changes of both multipliers that add up to so many units at most."""


LARGEST_CHANGE = 512
"""The largest change tried at 24 bits, in units in the last place."""


@dataclass(frozen=True)
class AddChoice:
    """Multipliers with their common shift (int32 scalars), and whether the kernel is exact."""

    a_multiplier: NDArray[np.int32]
    b_multiplier: NDArray[np.int32]
    shift: NDArray[np.int32]
    exact: bool


def choose_add(
    a: Quantization,
    b: Quantization,
    y: Quantization,
    bounds: tuple[int, int],
    target: Target,
    op: str = "IntAdd",
) -> AddChoice:
    """Multipliers for a + b, or a - b where ``op`` is IntSub.

    With them onnxruntime's kernel equals the meaning on all pairs.

    The larger one fills the target's width, both share its shift. The nearest neighbours are
    asked first, those that differ from real arithmetic on the fewest pairs before the others.
    Where none is exact, or the target wants no fast kernels, the nearest stays. Multipliers of
    a target with a rule of its own are those of the rule.

    Raises UsageError for what no node computes.
    """
    if target.rounding not in ROUNDINGS:
        raise UsageError(f"no sum is rounded once as {target.rounding!r}")
    if not searched(target):
        return _ruled_add(a, b, y, bounds, target, op)
    ratios = [Fraction(each.scale) / Fraction(y.scale) for each in (a, b)]
    larger, shift = saturating_multiplier(max(ratios), target.multiplier_bits)
    if shift < target.min_shift or (larger and shift > target.max_shift):
        raise ScaleError(
            f"target {target.name!r} cannot express the scale {float(max(ratios)):.6g} of a "
            f"sum: it is {larger} / 2**{shift}, shifts are {target.min_shift} to "
            f"{target.max_shift}"
        )
    start = [
        larger if ratio == max(ratios) else round(ratio * (1 << shift)) for ratio in ratios
    ]
    start = [min(multiplier, larger) for multiplier in start]

    rounding = quotient_rounding(target)

    def inputs(change: tuple[int, int]) -> dict[str, NDArray[Any]]:
        changed = start[0] + change[0], start[1] + change[1]
        return add_inputs(a, b, y, bounds, *changed, shift)

    near, far = _changes(target.multiplier_bits)
    near, far = ([c for c in some if _valid(c, start, target)] for some in (near, far))
    rows, columns = np.nonzero(near_ties(a, b, y, op, _slack(ratios, start, near, shift)))
    codes = all_pairs(a.dtype)[0].reshape(-1)
    doubtful = {"a": codes[rows], "b": codes[columns]}  # on all others the meaning is real
    real = real_sum(a, b, y, bounds, op)[rows, columns]
    meanings = (
        OPS[op].reference(*{**inputs(c), **doubtful}.values(), rounding=rounding) for c in near
    )
    moved = [int((meaning != real).sum()) for meaning in meanings]
    ranked = [change for _, change in sorted(zip(moved, near, strict=True), key=itemgetter(0))]
    if not target.fast_kernels:
        best = start[0] + ranked[0][0], start[1] + ranked[0][1]
        return _add_choice(best, shift, False)
    for change in [*ranked, *far]:
        given = inputs(change)
        if kernel_agrees(given, fast_overload(given), rounding, op):
            return _add_choice((start[0] + change[0], start[1] + change[1]), shift, True)
    return _add_choice((start[0], start[1]), shift, False)


def _slack(
    ratios: Sequence[Fraction],
    start: Sequence[int],
    changes: Sequence[tuple[int, int]],
    shift: int,
) -> float:
    """How far a sum is, in steps of y, from the real one at most, and the error of doubles.

    255 levels on a side, by multipliers that are changed by as much as ``changes`` says.
    """
    farthest = max(abs(i) + abs(j) for i, j in changes)
    units = (abs(m - ratio * (1 << shift)) for m, ratio in zip(start, ratios, strict=True))
    off = 255 * (sum(units) + farthest) / (1 << shift)
    return float(off) + 2.0**-40 * (255 * float(sum(ratios)) + 1)


def _ruled_add(
    a: Quantization,
    b: Quantization,
    y: Quantization,
    bounds: tuple[int, int],
    target: Target,
    op: str,
) -> AddChoice:
    pairs = ADD_FORMS["one_rounding"].numbers(a.scale, b.scale, y.scale, target)
    shift = max(pairs[0][1], 1)
    first, second = (multiplier << (shift - pairs[0][1]) for multiplier, _ in pairs)
    if shift > LARGEST_SHIFT or max(first, second) >= 1 << 31:
        raise ScaleError(f"no sum has the multipliers {first} and {second} with shift {shift}")
    given = add_inputs(a, b, y, bounds, first, second, shift)
    exact = target.fast_kernels and kernel_agrees(
        given, fast_overload(given), target.rounding, op
    )
    return _add_choice((first, second), shift, exact)


def _valid(change: tuple[int, int], start: Sequence[int], target: Target) -> bool:
    """Whether both multipliers stay within the target's width, and zero only if they were."""
    pairs = zip(change, start, strict=True)
    return all(min(m, 1) <= m + step < 1 << target.multiplier_bits for step, m in pairs)


def _add_choice(pair: tuple[int, int], shift: int, exact: bool) -> AddChoice:
    return AddChoice(_scalar(pair[0]), _scalar(pair[1]), _scalar(shift), exact)


def _scalar(value: int) -> NDArray[np.int32]:
    return np.array(value, np.int32)


@lru_cache(maxsize=4)
def _changes(bits: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Changes of both multipliers to try: the nearest, and those further away, in order.

    QLinearAdd adds the zero point before it rounds: with ratios that are powers of two and an
    odd zero point, ties are only right once both multipliers leave the powers of two by more
    than the float32 sum rounds away. No change exceeds 2**-14 of the scale.
    """
    scale = max(24 - bits, 0)
    near, ring, largest = (each >> scale for each in (NEAR, RING, LARGEST_CHANGE))
    span = range(-ring, ring + 1)
    changes = [(i, j) for i in span for j in span if abs(i) + abs(j) <= ring]
    changes.sort(key=lambda change: (abs(change[0]) + abs(change[1]), change))
    count = sum(abs(i) + abs(j) <= near for i, j in changes)
    steps = [1 << power for power in range(3, 10) if 1 << power <= largest]
    signs = [(1, 1), (-1, -1), (1, 0), (0, 1), (-1, 0), (0, -1)]
    far = changes[count:] + [(i * step, j * step) for step in steps for i, j in signs]
    return changes[:count], far
