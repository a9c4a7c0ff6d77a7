"""Histograms with bins of a power of two, merged pairwise as the range grows.

Whatever the order of the values, and however they are split and merged, the counts are the
same integers: bin k at exponent e holds the values with floor(x / 2**e) = k, and
floor(floor(x / 2**e) / 2) = floor(x / 2**(e + 1)).
"""

from dataclasses import dataclass
from math import floor, frexp, ldexp
from typing import Any

import numpy as np
from numpy.typing import NDArray

BINS = 4096
"""So many bins a histogram has at most; at least half of them where the range allows."""

LEAST_EXPONENT = -126
"""Of a bin's width: 2**126, its inverse, is a float32."""

_MANTISSA_BITS = 24
"""A float32 has no more: narrower bins than its last bit would tell nothing apart."""

Counts = NDArray[np.int64]


def least_exponent(low: float, high: float) -> int:
    """The exponent of the narrowest bins that hold ``low`` to ``high``, finite float32.

    It follows from the two numbers alone and never falls when the range grows.
    """
    largest = frexp(max(-low, high))[1] if low or high else LEAST_EXPONENT
    exponent = max(LEAST_EXPONENT, largest - _MANTISSA_BITS)
    if (width := high - low) > 0:  # more than BINS - 1 bins below this one
        exponent = max(exponent, frexp(width)[1] - BINS.bit_length())
    while bin_of(high, exponent) - bin_of(low, exponent) >= BINS:
        exponent += 1
    return exponent


def bin_of(value: float, exponent: int) -> int:
    """floor(value / 2**exponent), exactly."""
    return floor(ldexp(value, -exponent))


@dataclass(frozen=True, eq=False)
class Histogram:
    """How many values lie in each bin.

    ``counts[i]`` values, int64, lie in [first + i, first + i + 1) * 2**exponent. The first and
    the last bin are not empty.
    """

    exponent: int
    first: int
    counts: Counts

    @classmethod
    def of(cls, values: NDArray[Any]) -> "Histogram":
        """The histogram of finite float32 values, at least one."""
        low, high = float(values.min()), float(values.max())
        exponent = least_exponent(low, high)
        bins = np.floor(np.ldexp(values.astype(np.float64).ravel(), -exponent))
        first = bin_of(low, exponent)
        return cls(exponent, first, np.bincount((bins - first).astype(np.int64)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Histogram):
            return NotImplemented
        same = (self.exponent, self.first) == (other.exponent, other.first)
        return same and np.array_equal(self.counts, other.counts)

    @property
    def width(self) -> float:
        """2**exponent."""
        return ldexp(1.0, self.exponent)

    @property
    def edges(self) -> NDArray[np.float64]:
        """Where the bins begin, and where the last one ends: real, one more than counts."""
        ends = self.first + np.arange(len(self.counts) + 1)
        return np.ldexp(ends.astype(np.float64), self.exponent)

    def coarsened(self, exponent: int) -> "Histogram":
        """The same values in bins of 2**exponent, which are not narrower."""
        steps = exponent - self.exponent
        if steps == 0:
            return self
        bins = (self.first + np.arange(len(self.counts))) >> steps
        starts = np.flatnonzero(np.diff(bins, prepend=bins[0] - 1))
        return Histogram(exponent, int(bins[0]), np.add.reduceat(self.counts, starts))

    def merged(self, other: "Histogram", exponent: int) -> "Histogram":
        """The values of both in bins of 2**exponent, which are not narrower than theirs."""
        one, two = self.coarsened(exponent), other.coarsened(exponent)
        first = min(one.first, two.first)
        end = max(one.first + len(one.counts), two.first + len(two.counts))
        counts = np.zeros(end - first, np.int64)
        for each in (one, two):
            start = each.first - first
            counts[start : start + len(each.counts)] += each.counts
        return Histogram(exponent, first, counts)
