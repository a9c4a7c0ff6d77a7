"""The accumulator: statistics in the making, a tally and exact sums."""

from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from calibration.channel_extremes import ChannelExtremes, Extremes
from calibration.counting import Counter, Values
from calibration.histogram import least_exponent
from calibration.statistics import Statistics
from calibration.tally import NO_PLACE, SLOTS, Tally

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
        used = np.flatnonzero(found)
        pairs = zip(found[used].tolist(), used.tolist(), strict=True)
        return Fraction(sum(mantissa << k for mantissa, k in pairs), 1 << _BIAS)


class Accumulator:
    """Statistics in the making of ``names``.

    ``joined`` gives some of them as others (not of ``joined``) that hold the same values
    together, like the inputs of a Concat: these are never counted themselves. ``histograms``:
    the names that get one; so do those whose values are counted for these. ``channels``: of
    the names that get extremes for each channel (not of ``joined``) how many they have.
    """

    def __init__(
        self,
        names: Sequence[str],
        joined: Mapping[str, Sequence[str]],
        counter: Counter,
        histograms: Collection[str],
        channels: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._names, self._joined, self._counter = names, joined, counter
        self._channels = channels
        self._row = {name: row for row, name in enumerate(names)}
        self._parts = [
            (self._row[name], [self._row[part] for part in parts])
            for name, parts in joined.items()
        ]
        rows = len(names)
        parts = [self._parts_of(row) for name, row in self._row.items() if name in histograms]
        counted = sorted({part for each in parts for part in each})
        self.tally = Tally(rows, counted, {self._row[name]: c for name, c in channels.items()})
        self._samples = np.zeros(rows, np.int64)
        self._low_sums, self._high_sums = Sums(rows), Sums(rows)

    def begin(self, batch: int, held_back: Sequence[bool] = (False,)) -> None:
        """What comes until ``end_sample`` is of so many samples, one behind the other.

        ``held_back``: whether each is, of which extremes of channels are kept apart.
        """
        if self.tally.slot + batch > SLOTS:
            self._settle()
        self.tally.place(batch, self.tally.slot)
        self.tally.groups[self.tally.slot :][:batch] = held_back

    def take(self, names: Sequence[str], values: Sequence[Values]) -> None:
        """Take in tensors of the samples at hand; of one, if ``begin`` said nothing else."""
        for name, each in zip(names, values, strict=True):
            self._counter.observe(self.tally, self._row[name], each)

    def end_sample(self) -> None:
        """Close the samples at hand: their extremes join those of the others.

        Raises FloatingPointError, its argument the name, for a tensor with NaN or infinity;
        the accumulator is of no use then.
        """
        tally = self.tally
        if not tally.finite.all():
            raise FloatingPointError(self._names[int(np.argmin(tally.finite))])
        tally.make_room()
        tally.place(1, tally.slot + tally.batch)
        self.begin(1)

    def _settle(self) -> None:
        """Sum up the extremes of the samples that are kept by themselves."""
        tally = self.tally
        low, high = tally.sample_lows[: tally.slot], tally.sample_highs[: tally.slot]
        for row, parts in self._parts:
            low[:, row], high[:, row] = low[:, parts].min(axis=1), high[:, parts].max(axis=1)
            tally.lows[row] = tally.lows[parts].min()
            tally.highs[row] = tally.highs[parts].max()
        filled = low <= high
        self._samples += filled.sum(axis=0)
        self._low_sums.add(np.where(filled, low, np.float32(0)))
        self._high_sums.add(np.where(filled, high, np.float32(0)))
        tally.clear_samples()
        tally.place(1, 0)

    def beside(self) -> "Accumulator":
        """An empty one for samples that may have to be dropped; see Tally.beside."""
        other = Accumulator(self._names, self._joined, self._counter, (), self._channels)
        other.tally = self.tally.beside()
        return other

    def absorb(self, other: "Accumulator") -> None:
        """Add what ``other``, of the same tensors, holds; it is of no use afterwards."""
        other._settle()
        self.tally.absorb(other.tally)
        self._samples += other._samples
        self._low_sums.absorb(other._low_sums)
        self._high_sums.absorb(other._high_sums)

    def statistics(self) -> dict[str, Statistics]:
        """Of each tensor that held values, by name."""
        self._settle()
        return {
            name: self._of(row)
            for row, name in enumerate(self._names)
            if self.tally.lows[row] <= self.tally.highs[row]
        }

    def _parts_of(self, row: int) -> list[int]:
        """The rows whose values are those of ``row``."""
        return [self._row[part] for part in self._joined.get(self._names[row], ())] or [row]

    def _of(self, row: int) -> Statistics:
        tally = self.tally
        low, high = float(tally.lows[row]), float(tally.highs[row])
        parts = self._parts_of(row)
        counted = (tally.places[parts] != NO_PLACE).all()
        histogram = None
        if counted:
            exponent = least_exponent(low, high)
            first, *others = filter(None, map(tally.histogram, parts))
            histogram = first.coarsened(exponent)
            for other in others:
                histogram = histogram.merged(other, exponent)
        return Statistics(
            low,
            high,
            int(tally.values[parts].sum()),
            int(tally.zeros[parts].sum()) if counted else 0,
            int(self._samples[row]),
            self._low_sums.of(row),
            self._high_sums.of(row),
            histogram,
            self._channels_of(row),
        )

    def _channels_of(self, row: int) -> ChannelExtremes | None:
        if not self.tally.channels.get(row):
            return None
        groups = zip(*self.tally.channels_of(row), strict=True)
        return ChannelExtremes(*(Extremes(low.copy(), high.copy()) for low, high in groups))
