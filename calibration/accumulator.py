"""The accumulator: what a run remembers, one row a tensor, all rows updated together."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from calibration.counting import Counter, Extremes, Values, Windows
from calibration.histogram import BINS, Histogram, bin_of, least_exponent
from calibration.statistics import Statistics

_EXPONENTS = 280
"""A float32 is m * 2**(k - 173), m a whole number below 2**24, with k in 0..279."""

_BIAS = 173


class Sums:
    """Exact sums of float32 numbers, one a row: whole numbers by exponent, never rounded."""

    def __init__(self, rows: int) -> None:
        self._mantissas = np.zeros((rows, _EXPONENTS), np.int64)
        self._rows = np.arange(rows)

    def add(self, values: NDArray[np.float32]) -> None:
        """Add finite values, [..., rows], to the rows."""
        mantissas, exponents = np.frexp(values)
        whole = np.ldexp(mantissas, 24).astype(np.int64)
        places = (np.broadcast_to(self._rows, values.shape), exponents + (_BIAS - 24))
        np.add.at(self._mantissas, places, whole)

    def absorb(self, other: "Sums") -> None:
        """Add the sums of other rows."""
        self._mantissas += other._mantissas

    def of(self, row: int) -> Fraction:
        """The sum of a row."""
        found = self._mantissas[row]
        terms = ((int(found[k]), int(k) - _BIAS) for k in np.flatnonzero(found))
        return sum((Fraction(m) * Fraction(2) ** k for m, k in terms), Fraction(0))


class Accumulator:
    """Statistics in the making of ``names``.

    ``joined`` gives some of them as others (not of ``joined``) that hold the same values
    together, like the inputs of a Concat: these are never counted themselves. A window of BINS
    bins of 2**exponent, from ``first`` on, is kept for each row.
    """

    def __init__(
        self,
        names: Sequence[str],
        joined: Mapping[str, Sequence[str]],
        counter: Counter,
        histograms: bool,
    ) -> None:
        self._names, self._joined, self._counter = names, joined, counter
        self._row = {name: row for row, name in enumerate(names)}
        self._parts = [
            (self._row[name], [self._row[part] for part in parts])
            for name, parts in joined.items()
        ]
        rows = len(names)
        self._low, self._high = _nothing_yet(rows)
        self._sample_low, self._sample_high = _nothing_yet(1, rows)
        self._values = np.zeros(rows, np.int64)
        self._zeros = np.zeros(rows, np.int64)
        self._samples = np.zeros(rows, np.int64)
        self._low_sums, self._high_sums = Sums(rows), Sums(rows)
        self._counts = np.zeros((rows, BINS), np.int64) if histograms else None
        self._exponents = np.zeros(rows, np.int32)
        self._firsts = np.zeros(rows, np.int32)
        self._edges = np.zeros((2, rows))  # of the windows, real: empty ones to begin with

    def begin(self, batch: int) -> None:
        """What comes until ``end_sample`` is of so many samples, one behind the other."""
        self._sample_low, self._sample_high = _nothing_yet(batch, len(self._names))

    def take(self, names: Sequence[str], values: Sequence[Values]) -> None:
        """Take in tensors of the samples at hand; of one, if ``begin`` said nothing else.

        Raises FloatingPointError, its argument the name, for one with NaN or infinity.
        """
        rows, batch = np.array([self._row[name] for name in names]), len(self._sample_low)
        pieces = values
        if batch > 1:
            pieces = [piece for each in values for piece in each.split(batch)]
        if self._counts is None or batch > 1:
            seen = self._counter.extremes(pieces)
        if self._counts is not None:
            counted = self._count(rows, values)
            seen = counted if batch == 1 else seen
        if not seen.finite.all():
            raise FloatingPointError(names[int(np.argmin(seen.finite)) // batch])
        self._sample_low[:, rows] = seen.lows.reshape(-1, batch).T
        self._sample_high[:, rows] = seen.highs.reshape(-1, batch).T
        self._values[rows] += [each.size for each in values]

    def _count(self, rows: NDArray[np.intp], values: Sequence[Values]) -> Extremes:
        """Count, again where a window was too small; all is counted if it is finite."""
        assert self._counts is not None
        windows = Windows(
            self._exponents[rows],
            self._firsts[rows],
            self._edges[:, rows],
            [self._counts[row] for row in rows],
        )
        seen = self._counter.count(values, windows)
        self._zeros[rows] += seen.zeros
        again = [int(k) for k in np.flatnonzero(~seen.fits)]
        if again and seen.finite.all():
            for k in again:
                self._widen(int(rows[k]), float(seen.lows[k]), float(seen.highs[k]))
            self._count(rows[again], [values[k] for k in again])
        return seen

    def end_sample(self) -> None:
        """Close the samples at hand: their extremes join those of the others."""
        low, high = self._sample_low, self._sample_high
        for row, parts in self._parts:
            low[:, row], high[:, row] = low[:, parts].min(axis=1), high[:, parts].max(axis=1)
        filled = low <= high
        np.minimum(self._low, low.min(axis=0), out=self._low)
        np.maximum(self._high, high.max(axis=0), out=self._high)
        self._samples += filled.sum(axis=0)
        self._low_sums.add(np.where(filled, low, np.float32(0)))
        self._high_sums.add(np.where(filled, high, np.float32(0)))
        self.begin(1)

    def _widen(self, row: int, low: float, high: float) -> None:
        """Make the window of ``row`` hold ``low`` to ``high`` beside what it holds."""
        assert self._counts is not None
        held = self._histogram(row)
        if held is not None:
            low, high = min(low, float(self._low[row])), max(high, float(self._high[row]))
        exponent = least_exponent(low, high)
        if held is not None:  # in the window of another accumulator, for samples beside it
            exponent = max(exponent, held.exponent)
        bottom, top = bin_of(low, exponent), bin_of(high, exponent)
        first = bottom - (BINS - 1 - (top - bottom)) // 2
        self._exponents[row], self._firsts[row] = exponent, first
        self._edges[:, row] = np.ldexp([first, first + BINS], exponent)
        self._counts[row] = 0
        if held is not None:
            self._add(row, held)

    def _add(self, row: int, histogram: Histogram) -> None:
        """Add values that the window of ``row`` holds, from bins that are not wider."""
        assert self._counts is not None
        fitting = histogram.coarsened(int(self._exponents[row]))
        start = fitting.first - int(self._firsts[row])
        self._counts[row, start : start + len(fitting.counts)] += fitting.counts

    def beside(self) -> "Accumulator":
        """An empty one whose windows are those of this one: they need not be found again.

        This one must absorb it, or nothing of it may be used: a window may be too wide.
        """
        other = Accumulator(self._names, self._joined, self._counter, self._counts is not None)
        other._exponents[:], other._firsts[:] = self._exponents, self._firsts
        other._edges[:] = self._edges
        return other

    def absorb(self, other: "Accumulator") -> None:
        """Add what ``other``, of the same tensors, holds; it is of no use afterwards."""
        if self._counts is not None and other._counts is not None:
            moved = (self._exponents != other._exponents) | (self._firsts != other._firsts)
            for row in map(int, np.flatnonzero(moved)):
                held = other._histogram(row)
                other._counts[row] = 0
                if held is not None:
                    self._widen(row, float(other._low[row]), float(other._high[row]))
                    self._add(row, held)
            self._counts += other._counts
        np.minimum(self._low, other._low, out=self._low)
        np.maximum(self._high, other._high, out=self._high)
        for name in ("_values", "_zeros", "_samples"):
            getattr(self, name)[:] += getattr(other, name)
        self._low_sums.absorb(other._low_sums)
        self._high_sums.absorb(other._high_sums)

    def statistics(self) -> dict[str, Statistics]:
        """Of each tensor that held values, by name."""
        return {
            name: self._of(row)
            for row, name in enumerate(self._names)
            if self._low[row] <= self._high[row]
        }

    def _of(self, row: int) -> Statistics:
        low, high = float(self._low[row]), float(self._high[row])
        parts = [self._row[p] for p in self._joined.get(self._names[row], ())] or [row]
        histogram = None
        if self._counts is not None:
            exponent = least_exponent(low, high)
            first, *others = filter(None, map(self._histogram, parts))
            histogram = first.coarsened(exponent)
            for other in others:
                histogram = histogram.merged(other, exponent)
        return Statistics(
            low,
            high,
            int(self._values[parts].sum()),
            int(self._zeros[parts].sum()),
            int(self._samples[row]),
            self._low_sums.of(row),
            self._high_sums.of(row),
            histogram,
        )

    def _histogram(self, row: int) -> Histogram | None:
        """What was counted for ``row``; None for nothing."""
        assert self._counts is not None
        used = np.flatnonzero(self._counts[row])
        if not used.size:
            return None
        start, end = int(used[0]), int(used[-1]) + 1
        counts = self._counts[row, start:end].copy()
        return Histogram(int(self._exponents[row]), int(self._firsts[row]) + start, counts)


def _nothing_yet(*shape: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The extremes of no values."""
    return np.full(shape, np.inf, np.float32), np.full(shape, -np.inf, np.float32)
