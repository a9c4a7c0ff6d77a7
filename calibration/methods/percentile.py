"""percentile: leave out the few values farthest from the others."""

from math import floor

import numpy as np

from calibration.methods.spread import Spread
from calibration.methods.wanted import Wanted, clipped, within
from calibration.statistics import Range, Statistics


def percentile(seen: Statistics, wanted: Wanted) -> Range:
    """Keep ``wanted.percentile`` percent of the values.

    Symmetric: up to that percentile of |x|. Otherwise half of the rest is cut at each end, as
    onnxruntime does, of tensors of one sign too. Within one bin of numpy.percentile's default.
    """
    kept = wanted.percentile / 100
    if wanted.symmetric:
        magnitudes = _with_zeros(Spread.of_magnitudes(seen), seen.zeros)
        return within(seen, wanted, _quantile(magnitudes, kept))
    values, cut = _with_zeros(Spread.of(seen), seen.zeros), (1 - kept) / 2
    return clipped(seen, _quantile(values, cut), _quantile(values, 1 - cut))


def _with_zeros(values: Spread, zeros: int) -> Spread:
    if not zeros:
        return values
    place = int(np.searchsorted(values.starts, 0.0))
    return Spread(
        np.insert(values.starts, place, 0.0),
        np.insert(values.ends, place, 0.0),
        np.insert(values.counts, place, float(zeros)),
    )


def _quantile(values: Spread, share: float) -> float:
    """Between the two values of the ranks next to it, linear: numpy's default."""
    rank = (values.total - 1) * share
    before = floor(rank)
    low, high = _of_rank(values, before), _of_rank(values, before + 1)
    return low + (high - low) * (rank - before)


def _of_rank(values: Spread, rank: int) -> float:
    """The value with ``rank`` values before it, within one bin; the extremes as they are."""
    if rank <= 0:
        return float(values.starts[0])
    if rank >= values.total - 1:
        return float(values.ends[-1])
    ranks = values.counts.cumsum()
    piece = int(np.searchsorted(ranks, rank, "right"))
    share = (rank + 0.5 - (ranks[piece] - values.counts[piece])) / values.counts[piece]
    start, end = values.starts[piece], values.ends[piece]
    return float(start + share * (end - start))
