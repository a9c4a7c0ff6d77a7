"""Spread: the values of a histogram, taken as uniform within each bin."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration.histogram import BINS, Counts, Histogram, bin_of
from calibration.methods.wanted import largest
from calibration.statistics import Statistics

Reals = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Spread:
    """``counts[i]`` values, none of them zero, uniform in ``starts[i]`` to ``ends[i]``.

    In ascending order and without overlap. No piece is empty; none reaches beyond the extremes
    of the tensor, so that a single value at an extreme may be a piece without width.
    """

    starts: Reals
    ends: Reals
    counts: Reals

    @classmethod
    def of(cls, seen: Statistics) -> "Spread":
        """Of the values, at least one of them not zero."""
        return cls._of(histogram_without_zeros(seen), seen.low, seen.high)

    @classmethod
    def of_magnitudes(cls, seen: Statistics) -> "Spread":
        """Of the magnitudes, at least one of them not zero."""
        least = max(seen.low, -seen.high, 0.0)
        return cls._of(histogram_of_magnitudes(seen), least, largest(seen))

    @classmethod
    def _of(cls, histogram: Histogram, low: float, high: float) -> "Spread":
        filled = np.flatnonzero(histogram.counts)
        edges = np.clip(histogram.edges, low, high)
        counts = histogram.counts[filled].astype(np.float64)
        return cls(edges[filled], edges[filled + 1], counts)

    @property
    def middles(self) -> Reals:
        """The means of the pieces."""
        return (self.starts + self.ends) / 2

    @property
    def total(self) -> float:
        """How many values."""
        return float(self.counts.sum())

    @property
    def sum(self) -> float:
        """Of all values."""
        return float(self.counts @ self.middles)

    def mirrored(self) -> "Spread":
        """Of the values with the other sign."""
        return Spread(-self.ends[::-1], -self.starts[::-1], self.counts[::-1])

    def above(self, edges: Reals) -> tuple[Reals, Reals, Reals]:
        """For each edge over the values beyond it: how many, sum(x - edge) and its squares."""
        piece = np.searchsorted(self.ends, edges, "right")
        starts, ends, counts = (np.append(a, 0.0)[piece] for a in self._arrays)
        starts = np.where(counts > 0, np.maximum(starts, edges), edges)
        ends = np.where(counts > 0, ends, edges)
        parts = counts * self._share(piece, ends - starts)
        beyond, width = (starts + ends) / 2 - edges, ends - starts
        n, first, second = (moment[piece] for moment in self._moments())
        return (
            n + parts,
            first - edges * n + parts * beyond,
            np.maximum(second - 2 * edges * first + edges**2 * n, 0.0)
            + parts * (beyond**2 + width**2 / 12),
        )

    @property
    def _arrays(self) -> tuple[Reals, Reals, Reals]:
        return self.starts, self.ends, self.counts

    def _share(self, piece: NDArray[np.intp], kept: Reals) -> Reals:
        """How much of a piece a part of it is; all of one without width."""
        widths = np.append(self.ends - self.starts, 0.0)[piece]
        share = np.ones_like(kept)
        np.divide(kept, widths, out=share, where=widths > 0)
        return share

    def _moments(self) -> tuple[Reals, Reals, Reals]:
        """Sums of 1, x and x**2 over the pieces after each, and after the end: zero."""
        middles, widths = self.middles, self.ends - self.starts
        squares = middles**2 + widths**2 / 12
        return (
            _sums_after(self.counts),
            _sums_after(self.counts * middles),
            _sums_after(self.counts * squares),
        )


def _sums_after(terms: Reals) -> Reals:
    sums = np.zeros(len(terms) + 1)
    sums[:-2] = terms[:0:-1].cumsum()[::-1]
    return sums


def histogram_without_zeros(seen: Statistics) -> Histogram:
    """The histogram of the other values; bins at its ends may be empty."""
    histogram = histogram_of(seen)
    if not seen.zeros:
        return histogram
    counts = histogram.counts.copy()
    counts[-histogram.first] -= seen.zeros
    return Histogram(histogram.exponent, histogram.first, counts)


def histogram_of(seen: Statistics) -> Histogram:
    """The histogram of all values. ValueError if there is none."""
    if seen.histogram is None:
        raise ValueError("the statistics hold no histogram, only extremes")
    return seen.histogram


def histogram_of_magnitudes(seen: Statistics) -> Histogram:
    """The histogram of |x|, zeros left out: bin k takes what was in bins k and -k - 1."""
    histogram = histogram_without_zeros(seen)
    bins = histogram.first + np.arange(len(histogram.counts))
    bins = np.where(bins < 0, -bins - 1, bins)
    first = int(bins.min())
    counts = np.zeros(int(bins.max()) - first + 1, np.int64)
    np.add.at(counts, bins - first, histogram.counts)
    return Histogram(histogram.exponent, first, counts)


def magnitudes_from_zero(seen: Statistics) -> tuple[Counts, float]:
    """Counts of |x|, zeros left out, in at most BINS bins of one width from zero on."""
    histogram = histogram_of_magnitudes(seen)
    exponent = histogram.exponent
    while bin_of(largest(seen), exponent) >= BINS:
        exponent += 1
    histogram = histogram.coarsened(exponent)
    counts = np.concatenate([np.zeros(histogram.first, np.int64), histogram.counts])
    return counts, histogram.width
