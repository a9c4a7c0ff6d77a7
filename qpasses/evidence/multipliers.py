"""Choosing multipliers: of those that the kernel computes exactly, the one nearest to real."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64
from opsets.kernels import Kernel
from opsets.target import Target
from qpasses.evidence.thresholds import (
    Interval,
    kernel_mismatches,
    meaning_thresholds,
    moved,
    real_thresholds,
)

NEAR = 8
"""How many neighbours are compared for the smallest distance to real arithmetic."""

FAR = 512
"""How many neighbours are tried to find one that the kernel computes exactly."""


@dataclass(frozen=True)
class Choice:
    """Multipliers and shifts per channel (int64 [C]), and for which the kernel is exact."""

    multiplier: Int64
    shift: Int64
    exact: NDArray[np.bool_]
    farthest: int


def choose_multipliers(
    scales: Sequence[Fraction],
    steps: Int64,
    reachable: Interval,
    kernel: Kernel,
    target: Target,
) -> Choice:
    """For each real scale the multiplier by which meaning and kernel agree everywhere.

    Starts at the nearest multiplier of the target's width and tries its neighbours, one unit
    in the last place after the other. Among exact ones the fewest accumulators that differ
    from real arithmetic win, then the smallest change. Where none within ``FAR`` is exact, the
    nearest multiplier stays and ``exact`` is False.
    """
    start = [target.scale_to_multiplier(scale) for scale in scales]
    multiplier, shift = np.array(start, np.int64).reshape(-1, 2).T
    real = reachable.clip(real_thresholds(scales, steps))
    best = Choice(multiplier.copy(), shift, np.zeros(len(scales), bool), 0)
    cost = np.full(len(scales), np.iinfo(np.int64).max)
    farthest = 0
    for distance in _spiral():
        open_ = np.flatnonzero((cost > 0) if abs(distance) <= NEAR else ~best.exact)
        candidate = multiplier[open_] + distance
        fits = (candidate > 0) & (candidate < 1 << target.multiplier_bits)
        fits |= (distance == 0) & (candidate == 0)
        open_, candidate = open_[fits], candidate[fits]
        if len(open_) == 0:
            continue
        part = Interval(reachable.low[open_], reachable.high[open_])
        thresholds = meaning_thresholds(candidate, shift[open_], steps, target.rounding)
        wrong = kernel_mismatches(kernel, candidate, shift[open_], thresholds, steps, part)
        distance_to_real = moved(thresholds, real[open_], part)
        better = (wrong == 0) & (distance_to_real < cost[open_])
        chosen = open_[better]
        best.multiplier[chosen], best.exact[chosen] = candidate[better], True
        cost[chosen] = distance_to_real[better]
        farthest = max(farthest, abs(distance)) if better.any() else farthest
    return Choice(best.multiplier, shift, best.exact, farthest)


def _spiral() -> list[int]:
    """0, 1, -1, 2, -2 ... FAR, -FAR."""
    return [0] + [sign * step for step in range(1, FAR + 1) for sign in (1, -1)]
