"""The tally: what a run remembers of each tensor, one row each, in arrays that C fills too."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ldexp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.histogram import (
    BINS,
    LEAST_EXPONENT,
    Counts,
    Histogram,
    bin_of,
    least_exponent,
)

SLOTS = 64
"""Samples whose extremes are kept by themselves before they are summed up."""

FULL = 1 << 31
"""So many values of a tensor are counted, and as many again in one sample, before ``counts``
are emptied."""

GROUPS = 2
"""Of samples: extremes of channels are kept apart for those that are to judge."""

NO_PLACE = -1
"""Of a row whose values are not counted."""

NO_WINDOW = int(np.iinfo(np.int32).min)
"""The exponent of a row that counted nothing yet."""


@dataclass(eq=False)
class Tally:
    """Extremes and counts of ``rows`` tensors, real float32 values of any number.

    Row r counts ``counts[places[r], floor(x / 2**exponents[r]) - firsts[r]]`` if it is one of
    the rows ``counted``, else its place is -1 (uint32 [number of these, BINS]; ``stored`` is
    what was counted before they were emptied).
    ``lows`` and ``highs`` are of all values, ``sample_lows`` and ``sample_highs``, [SLOTS,
    rows], of each sample by itself: ``batch`` samples are taken in at once, into ``slot`` and
    those behind it; ``groups``, [SLOTS], says which group each is of. ``values`` and ``zeros``
    are numbers of values, zeros only if counted. ``channels``: of some rows how many there
    are; row r has those from ``channel_places[r]`` on of ``channel_lows`` and
    ``channel_highs``, [GROUPS, all of them], NaN where a tensor had another number.
    ``finite`` is false where NaN or infinity was seen: then nothing here is of use any more.
    What has no values has infinity and minus infinity.
    """

    rows: int
    counted: Sequence[int]
    channels: Mapping[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rows = self.rows
        self.exponents = np.full(rows, NO_WINDOW, np.int32)
        self.firsts = np.zeros(rows, np.int32)
        self.places = np.full(rows, NO_PLACE, np.int64)
        self._counted = np.array(self.counted, np.intp)
        self.places[self._counted] = np.arange(len(self._counted))
        self.counts = np.zeros((len(self._counted), BINS), np.uint32)
        self.stored: dict[int, Histogram] = {}
        self._stored_values = np.zeros(rows, np.int64)
        self.lows, self.highs = _nothing_yet(rows)
        self.sample_lows, self.sample_highs = _nothing_yet(SLOTS, rows)
        self.values, self.zeros = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        self.finite = np.ones(rows, np.bool_)
        counts = [self.channels.get(row, 0) for row in range(rows)]
        self.channel_counts = np.array(counts, np.int64)
        self.channel_places = np.cumsum(self.channel_counts) - self.channel_counts
        self.channel_lows, self.channel_highs = _nothing_yet(GROUPS, sum(counts))
        self.groups = np.zeros(SLOTS, np.uint8)
        arrays: Sequence[NDArray[Any]] = (
            *(self.exponents, self.firsts, self.places, self.counts),
            *(self.lows, self.highs, self.sample_lows, self.sample_highs),
            *(self.values, self.zeros, self.finite),
            *(self.channel_counts, self.channel_places),
            *(self.channel_lows, self.channel_highs, self.groups),
        )
        words = [1, rows, 0, sum(counts)]
        words += [array.ctypes.data if array.size else 0 for array in arrays]
        self.desk = np.array(words, np.int64)

    @property
    def batch(self) -> int:
        """How many samples what is taken in is of, one behind the other."""
        return int(self.desk[0])

    @property
    def slot(self) -> int:
        """Where the first of them is put."""
        return int(self.desk[2])

    def counts_of(self, row: int) -> NDArray[np.uint32]:
        """A view of the counts of ``row``, which is counted."""
        own: NDArray[np.uint32] = self.counts[self.places[row]]
        return own

    def channels_of(self, row: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Views of the extremes of the channels of ``row``: [GROUPS, channels] each."""
        start = int(self.channel_places[row])
        own = slice(start, start + self.channels.get(row, 0))
        return self.channel_lows[:, own], self.channel_highs[:, own]

    def place(self, batch: int, slot: int) -> None:
        """Set them."""
        self.desk[0], self.desk[2] = batch, slot

    def clear_samples(self) -> None:
        """Forget the extremes of the samples by themselves."""
        self.sample_lows.fill(np.inf)
        self.sample_highs.fill(-np.inf)

    def window(self, row: int) -> tuple[float, float]:
        """Real: where the window of ``row`` begins and where it ends."""
        exponent, first = int(self.exponents[row]), int(self.firsts[row])
        if exponent == NO_WINDOW:
            return 0.0, 0.0
        return ldexp(first, exponent), ldexp(first + BINS, exponent)

    def widen(self, row: int, low: float, high: float, at_least: int = LEAST_EXPONENT) -> None:
        """Make the window of ``row`` hold ``low`` to ``high`` beside what it holds.

        Its bins become 2**``at_least`` wide, or wider.
        """
        held = self.in_window(row)
        if held is not None:
            low, high = min(low, float(self.lows[row])), max(high, float(self.highs[row]))
        exponent = max(least_exponent(low, high), at_least)
        if held is not None:  # in the window of another tally, for samples beside it
            exponent = max(exponent, held.exponent)
        bottom, top = bin_of(low, exponent), bin_of(high, exponent)
        self.exponents[row] = exponent
        self.firsts[row] = bottom - (BINS - 1 - (top - bottom)) // 2
        self.counts_of(row).fill(0)
        if held is not None:
            self.add(row, held)

    def add(self, row: int, histogram: Histogram) -> None:
        """Add values that the window of ``row`` holds, from bins that are not wider."""
        fitting = histogram.coarsened(int(self.exponents[row]))
        start = fitting.first - int(self.firsts[row])
        own = self.counts_of(row)[start : start + len(fitting.counts)]
        own += fitting.counts.astype(np.uint32)

    def in_window(self, row: int) -> Histogram | None:
        """What the window of ``row`` holds; None for nothing."""
        low, high = float(self.lows[row]), float(self.highs[row])
        exponent, first = int(self.exponents[row]), int(self.firsts[row])
        if low > high or exponent == NO_WINDOW:  # or it is joined of others
            return None
        if row in self.stored:  # the extremes may be in there
            used = np.flatnonzero(self.counts_of(row))
            start, end = (int(used[0]), int(used[-1]) + 1) if used.size else (0, 0)
        else:
            start, end = bin_of(low, exponent) - first, bin_of(high, exponent) - first + 1
        if start == end:
            return None
        counts: Counts = self.counts_of(row)[start:end].astype(np.int64)
        return Histogram(exponent, first + start, counts)

    def histogram(self, row: int) -> Histogram | None:
        """All that was counted for ``row``; None for nothing."""
        return self._together(row, self.in_window(row), self.stored.get(row))

    def _together(
        self, row: int, one: Histogram | None, other: Histogram | None
    ) -> Histogram | None:
        if one is None or other is None:
            return one or other
        least = least_exponent(float(self.lows[row]), float(self.highs[row]))
        return one.merged(other, max(one.exponent, other.exponent, least))

    def make_room(self, values: int = 0) -> None:
        """Empty the counts if ``values`` more might be too many for 32 bits."""
        if not self.counted:
            return
        held = (self.values - self._stored_values)[self._counted]
        if int(held.max()) + values < FULL:
            return
        found = {row: self.histogram(row) for row in self.counted}
        self.stored = {row: held for row, held in found.items() if held is not None}
        self.counts[:] = 0
        self._stored_values[:] = self.values

    def beside(self) -> "Tally":
        """An empty one whose windows are those of this one: they need not be found again.

        This one must absorb it, or nothing of it may be used: a window may be too wide.
        """
        other = Tally(self.rows, self.counted, self.channels)
        other.exponents[:], other.firsts[:] = self.exponents, self.firsts
        return other

    def absorb(self, other: "Tally") -> None:
        """Add what ``other``, of the same tensors, holds; it is of no use afterwards."""
        if self.counted:
            self.make_room(int(other.values.max(initial=0)))
            moved = (self.exponents != other.exponents) | (self.firsts != other.firsts)
            for row in map(int, np.flatnonzero(moved)):
                held = other.in_window(row)
                other.counts_of(row).fill(0)
                if held is not None:
                    ends = float(other.lows[row]), float(other.highs[row])
                    self.widen(row, *ends, held.exponent)
                    self.add(row, held)
            self.counts += other.counts
        np.minimum(self.lows, other.lows, out=self.lows)
        np.maximum(self.highs, other.highs, out=self.highs)
        np.minimum(self.channel_lows, other.channel_lows, out=self.channel_lows)
        np.maximum(self.channel_highs, other.channel_highs, out=self.channel_highs)
        self.values += other.values
        self.zeros += other.zeros
        for row, histogram in other.stored.items():
            held = self._together(row, self.stored.get(row), histogram)
            if held is not None:
                self.stored[row] = held


def _nothing_yet(*shape: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    return np.full(shape, np.inf, np.float32), np.full(shape, -np.inf, np.float32)
