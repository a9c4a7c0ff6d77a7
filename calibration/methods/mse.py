"""mse: the range of least expected squared error."""

from dataclasses import dataclass

import numpy as np

from calibration.methods.expected_error import total_error
from calibration.methods.spread import Reals, Spread
from calibration.methods.wanted import Wanted, clipped, largest, within
from calibration.statistics import Range, Statistics

_FRACTIONS = np.union1d(np.linspace(0, 1, 65), np.geomspace(2.0**-16, 1, 65))
"""Of the extremes, tried as ends of a range."""

_NARROWED = np.geomspace(2.0**-6, 1, 25)
"""Tried of both extremes at once."""

_REFINEMENTS = 4
"""Each narrows the search to between the neighbours of the best, eight times."""

_POLISHES = 10


def mse(seen: Statistics, wanted: Wanted) -> Range:
    """The ends, or the threshold, of least expected squared error.

    First as if rounding cost scale**2 / 12 for each value within that is not zero (zeros are
    stored exactly), and clipping the squared distance to the end: both ends are searched
    together, on a grid of even and of geometric steps, then between its neighbours. Then by
    the error on the grid of codes itself, which is another where steps are wider than what
    most values span: from there, and from the extremes narrowed, to the next least.
    """
    values = Spread.of(seen)
    if wanted.symmetric:
        search = _Search(Spread.of_magnitudes(seen), (1 << (wanted.bits - 1)) - 1)
        start = search.best(0.0, largest(seen))[1]
        widest = Range(-largest(seen), largest(seen))
        best = _polished(values, wanted, widest, Range(-start, start))
        return within(seen, wanted, best.high)
    widest = seen.range.with_zero()
    search = _Search(values, wanted.steps)
    best = _polished(values, wanted, widest, Range(*search.best(widest.low, widest.high)))
    return clipped(seen, best.low, best.high)


def _polished(values: Spread, wanted: Wanted, widest: Range, start: Range) -> Range:
    """By steps of one end or of both, halved where none of them helps."""

    def error(ends: Range) -> float:
        return total_error(values, ends, wanted)

    both_at_once = wanted.symmetric or 0.0 in (widest.low, widest.high)
    narrowed = [Range(f * widest.low, f * widest.high) for f in _NARROWED.tolist()]
    best, step = min([r for r in (start, *narrowed) if r.width > 0], key=error), 1 / 32
    for _ in range(_POLISHES):
        tried = [_scaled(best, f, g, widest) for f, g in _moves(step, both_at_once)]
        following = min(best, *tried, key=error)
        best, step = following, step / 2 if following == best else step
    return best


def _moves(step: float, both_at_once: bool) -> list[tuple[float, float]]:
    """Factors of the low and of the high end."""
    moves = [(1 - step, 1 - step), (1 + step, 1 + step)]
    if both_at_once:
        return moves
    return [*moves, (1 - step, 1.0), (1 + step, 1.0), (1.0, 1 - step), (1.0, 1 + step)]


def _scaled(ends: Range, low: float, high: float, widest: Range) -> Range:
    return Range(max(ends.low * low, widest.low), min(ends.high * high, widest.high))


@dataclass(frozen=True)
class _Search:
    """For ranges ``low <= 0 <= high`` stored in ``steps`` steps."""

    values: Spread
    steps: int

    def best(self, low: float, high: float) -> tuple[float, float]:
        """The ends of least error not beyond ``low`` and ``high``."""
        lows, highs = low * _FRACTIONS, high * _FRACTIONS
        for _ in range(_REFINEMENTS):
            errors = self.errors(lows, highs)
            i, j = np.unravel_index(int(errors.argmin()), errors.shape)
            lows, highs = _between_neighbours(lows, int(i)), _between_neighbours(highs, int(j))
        errors = self.errors(lows, highs)
        i, j = np.unravel_index(int(errors.argmin()), errors.shape)
        return float(lows[i]), float(highs[j])

    def errors(self, lows: Reals, highs: Reals) -> Reals:
        """The sum of expected squared errors for each low end (rows) and each high end."""
        below, _, low_squares = self.values.mirrored().above(-lows)
        above, _, high_squares = self.values.above(highs)
        scales = (highs - lows[:, None]) / self.steps
        inside = self.values.total - above - below[:, None]
        return scales**2 / 12 * inside + high_squares + low_squares[:, None]


def _between_neighbours(ends: Reals, best: int) -> Reals:
    """Seventeen from the one before the best to the one after."""
    last = len(ends) - 1
    return np.linspace(ends[max(best - 1, 0)], ends[min(best + 1, last)], 17)
