"""Choosing multipliers: by the rule of a target, or so that a fast kernel is exact."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64
from opsets.forms import scaled_in_double
from opsets.kernels import Kernel
from opsets.multipliers import Scale, ScaleError
from opsets.real_scales import near_scales
from opsets.realised import (
    SCALED_ROUNDING,
    float_kernel,
    node_multiplier,
    node_multipliers,
    node_rounding,
    scaled_multiplier,
)
from opsets.rounding import LAST_STEP
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
"""How many neighbours are tried, at 24 bits, to find one that the kernel computes exactly.
Thresholds are evenly spaced: the wrong steps of neighbours come and go together."""

_SCREEN = 16
"""Far neighbours are first judged by so many steps at each end, where rounding is coarsest."""

_WITHIN = 0.999
"""Of one, by doubles: they are not exact."""

_FEW = 1 << 9
"""So many neighbours, of all channels together, are judged at once."""


@dataclass(frozen=True)
class Choice:
    """Multipliers and shifts per channel (int64 [C]), and for which the kernel is exact.

    ``rest``: what is added to the products for biases between two steps, if they are.
    """

    multiplier: Int64
    shift: Int64
    exact: NDArray[np.bool_]
    rest: Int64 | None = None


def derive_multipliers(
    scales: Sequence[Scale], target: Target, elementwise: bool = False
) -> Choice:
    """For each scale the multiplier of the target's rule, which portable bodies compute.

    Raises ScaleError for a scale that the target cannot express, naming its channel.
    """
    pairs = []
    for channel, scale in enumerate(scales):
        try:
            pairs.append(node_multiplier(scale, target, elementwise))
        except ScaleError as error:
            where = f"channel {channel}: " if len(scales) > 1 else ""
            raise ScaleError(f"{where}{error}") from error
    multiplier, shift = np.array(pairs, np.int64).reshape(-1, 2).T
    return Choice(multiplier, shift, np.ones(len(multiplier), bool))


def scaled_multipliers(scales: Sequence[Scale], steps: Int64, reachable: Interval) -> Choice:
    """For each scale a multiplier of 31 bits with the levels of ``scaled_in_double``.

    On every reachable sum: both are monotone, so that both sides of all thresholds say it.
    The nearest multiplier, or the nearest of its neighbours, of two the larger. Raises
    ScaleError, naming the channel, where none has them.
    """
    pairs = [scaled_multiplier(scale) for scale in scales]
    multiplier, shift = np.array(pairs, np.int64).reshape(-1, 2).T
    real = np.array([float(scale) for scale in scales])
    farthest = np.maximum(-reachable.low, reachable.high) * real
    if (farthest >= (1 << 31) - 1).any():
        raise ScaleError(f"a sum times its scale reaches {farthest.max():.6g}, beyond int32")

    def unlike(channels: NDArray[np.intp], candidate: Int64) -> NDArray[np.bool_]:
        column, places = real[channels, None], shift[channels]
        part = Interval(reachable.low[channels], reachable.high[channels])
        ours = meaning_thresholds(candidate, places, steps, SCALED_ROUNDING)
        wrong = kernel_mismatches(
            lambda sums, _m, _s: scaled_in_double(sums, column),
            candidate,
            places,
            ours,
            steps,
            part,
        )
        return np.asarray(wrong > 0)

    missing = np.arange(len(pairs))
    missing = missing[unlike(missing, multiplier)]
    for distance in _spiral(1, NEIGHBOURS):
        if not missing.size:
            break
        tried = multiplier[missing] + distance
        fits = ~unlike(missing, tried) & (tried < 1 << 31)
        multiplier[missing[fits]] = tried[fits]
        missing = missing[~fits]
    if missing.size:
        where = f"channel {missing[0]}: " if len(pairs) > 1 else ""
        raise ScaleError(
            f"{where}no multiplier of 31 bits gives the levels of a product with "
            f"{real[missing[0]]:.17g} in double"
        )
    return Choice(multiplier, shift, np.ones(len(pairs), bool))


NEIGHBOURS = 8
"""So far from the nearest multiplier others are tried, where the target allows it."""


def with_most_real_sums(
    choice: Choice,
    scales: Sequence[Fraction],
    rests: Sequence[Fraction],
    steps: Int64,
    reachable: Interval,
    target: Target,
) -> Choice:
    """``choice``, or in a channel the nearest neighbour with fewest sums unlike real ones.

    Of two as near the larger. ``rests``: what each bias lacks of the real one, if any does;
    there may be more of them than multipliers.
    """
    rounding, best = node_rounding(target), choice.multiplier.copy()
    if rests and len(rests) != len(best):  # one multiplier for all
        return replace(choice, rest=rests_in_products(rests, best))
    real = real_thresholds(scales, steps, rests)

    def unlike(multiplier: Int64) -> Int64:
        rest = rests_in_products(rests, multiplier) if rests else None
        ours = meaning_thresholds(multiplier, choice.shift, steps, rounding, rest)
        return moved(ours, real, reachable)

    fewest = unlike(best)
    for distance in range(1, NEIGHBOURS + 1) if fewest.any() else ():
        for other in (choice.multiplier + distance, choice.multiplier - distance):
            count = unlike(other)
            is_sound = (other < 1 << 31) & (other >= 1 << 30) & (best >= 1 << 30)
            better = (count < fewest) & is_sound
            best, fewest = np.where(better, other, best), np.where(better, count, fewest)
    rest = rests_in_products(rests, best) if rests else None
    return Choice(best, choice.shift, choice.exact, rest)


def rests_in_products(rests: Sequence[Fraction], multiplier: Int64) -> Int64:
    """What biases lack, in the steps of products with a multiplier or one for each channel."""
    factors = np.broadcast_to(multiplier, (len(rests),)).tolist()
    return np.array([round(f * m) for f, m in zip(rests, factors, strict=True)], np.int64)


def unlike_target(
    multiplier: Int64, shift: Int64, steps: Int64, reachable: Interval, target: Target
) -> str:
    """Why a node with these multipliers is not what the target computes, or nothing.

    Of two roundings the left shift may wrap; a product in floats may round to another level.
    """
    rounding = node_rounding(target)
    if rounding in LAST_STEP and reachable.wraps(shift, rounding):
        low, high = int(reachable.low.min()), int(reachable.high.max())
        return (
            f"a scale of 1 or more shifts its sums, {low} to {high}, to the left by "
            f"{31 - int(shift.min())}: target {target.name!r} wraps there"
        )
    kernel = float_kernel(target)
    if kernel is None:
        return ""
    ours = meaning_thresholds(multiplier, shift, steps, rounding)
    wrong = kernel_mismatches(kernel, multiplier, shift, ours, steps, reachable)
    if not wrong.any():
        return ""
    return (
        f"rounding = {target.rounding!r} of target {target.name!r} gives other levels than "
        f"integers do, at {int(wrong.sum())} of {ours.size} thresholds"
    )


def choose_multipliers(
    scales: Sequence[Fraction],
    steps: Int64,
    reachable: Interval,
    kernel: Kernel,
    target: Target,
) -> Choice:
    """For each real scale the multiplier by which meaning and kernel agree everywhere.

    Starts at the nearest multiplier of the target's width and tries its neighbours, one unit
    in the last place after the other. Among exact near ones the fewest accumulators that
    differ from real arithmetic win, then the smallest change; else the first exact far one.
    Where none within ``FAR`` is exact, the nearest multiplier stays and ``exact`` is False.
    """
    search = _Search(scales, steps, reachable, kernel, target)
    far = FAR >> max(24 - target.multiplier_bits, 0)  # at most 2**-14 of the scale
    near = min(NEAR, far)
    for distance in _spiral(0, near):
        if not search.cost.any():
            break
        search.attempt(distance)
    rest = _spiral(near + 1, far)
    while rest and (missing := np.flatnonzero(~search.exact)).size:
        count = max(1, _FEW // missing.size)
        search.take_first_exact(rest[:count], missing)
        rest = rest[count:]
    return Choice(search.best, search.shift, search.exact)


class _Search:
    """The state of the search: per channel the best multiplier so far and its cost."""

    def __init__(
        self,
        scales: Sequence[Fraction],
        steps: Int64,
        reachable: Interval,
        kernel: Kernel,
        target: Target,
    ) -> None:
        self.start, self.shift = node_multipliers(scales, target)
        self.best = self.start.copy()
        self.exact = np.zeros(len(scales), bool)
        self.cost = np.full(len(scales), np.iinfo(np.int64).max)
        self._real = reachable.clip(real_thresholds(scales, steps))
        self._steps, self._reachable = steps, reachable
        self._kernel, self._target = kernel, target
        self._rounding = node_rounding(target)
        self._ordered = self._are_ordered(scales)
        self._open = {side: np.ones(len(scales), bool) for side in (-1, 0, 1)}

    def _are_ordered(self, scales: Sequence[Fraction]) -> NDArray[np.bool_]:
        """[C]: whether neighbours farther away never differ less from real arithmetic.

        The real scale lies within one of the first multiplier, so all neighbours on one side
        are beyond it, and each moves every threshold farther. After two roundings, or where
        the first multiplier is no near one, that is not so.
        """
        if self._rounding in LAST_STEP:
            return np.zeros(len(scales), bool)
        real = np.ldexp(near_scales(scales), self.shift.astype(np.int32))
        return np.asarray(np.abs(real - self.start) < _WITHIN)

    def attempt(self, distance: int) -> None:
        """Take the neighbour at ``distance`` in those channels where it is better."""
        is_open = self._open[(distance > 0) - (distance < 0)]
        asked = is_open & (self.cost > 0)
        if not asked.any():
            return
        channels = self._in_width(distance, np.flatnonzero(asked))
        if len(channels) == 0:
            return
        thresholds = self._thresholds(distance, channels, self._steps)
        cost = moved(thresholds, self._real[channels], self._part(channels))
        cheaper = cost < self.cost[channels]
        is_open[channels[~cheaper & self._ordered[channels]]] = False
        thresholds, cost, channels = thresholds[cheaper], cost[cheaper], channels[cheaper]
        exact = self._wrong(distance, channels, thresholds, self._steps) == 0
        chosen = channels[exact]
        self.best[chosen] = self.start[chosen] + distance
        self.exact[chosen], self.cost[chosen] = True, cost[exact]

    def take_first_exact(self, distances: Sequence[int], channels: NDArray[np.intp]) -> None:
        """In each of ``channels`` the first neighbour that the kernel computes exactly.

        Most are wrong at the outermost steps already.
        """
        moves = np.repeat(np.array(distances, np.int64), len(channels))
        channels = np.tile(channels, len(distances))
        outer = np.unique(np.concatenate([self._steps[:_SCREEN], self._steps[-_SCREEN:]]))
        candidate = self.start[channels] + moves
        right = (candidate > 0) & (candidate < 1 << self._target.multiplier_bits)
        for steps in (outer, self._steps):
            moves, channels = moves[right], channels[right]
            thresholds = self._thresholds(moves, channels, steps)
            right = self._wrong(moves, channels, thresholds, steps) == 0
        chosen, first = np.unique(channels[right], return_index=True)
        self.best[chosen] = self.start[chosen] + moves[right][first]
        self.exact[chosen] = True

    def _thresholds(
        self, moves: Int64 | int, channels: NDArray[np.intp], steps: Int64
    ) -> Int64:
        """What the neighbours at ``moves`` mean."""
        candidate, shift = self.start[channels] + moves, self.shift[channels]
        return meaning_thresholds(candidate, shift, steps, self._rounding)

    def _wrong(
        self, moves: Int64 | int, channels: NDArray[np.intp], thresholds: Int64, steps: Int64
    ) -> Int64:
        """At how many of their ``thresholds`` the kernel is wrong."""
        candidate, shift = self.start[channels] + moves, self.shift[channels]
        part = self._part(channels)
        return kernel_mismatches(self._kernel, candidate, shift, thresholds, steps, part)

    def _in_width(self, distance: int, channels: NDArray[np.intp]) -> NDArray[np.intp]:
        candidate = self.start[channels] + distance
        fits = (candidate > 0) & (candidate < 1 << self._target.multiplier_bits)
        return np.asarray(channels[fits | ((candidate == 0) & (distance == 0))])

    def _part(self, channels: NDArray[np.intp]) -> Interval:
        return Interval(self._reachable.low[channels], self._reachable.high[channels])


@cache
def _spiral(first: int, last: int) -> Sequence[int]:
    """first, -first, first + 1, -(first + 1) ... -last; zero once."""
    signed = tuple(sign * step for step in range(first, last + 1) for sign in (1, -1))
    return signed if first else signed[1:]
