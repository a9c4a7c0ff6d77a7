"""tpumlir-kl and tpumlir-octav: thresholds by the rules of the TPU-MLIR compiler."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.methods.spread import Spread
from calibration.methods.wanted import Wanted, largest, within
from calibration.statistics import Range, Statistics

BINS = 2048
GROUPS = 128
OCTAV_STEPS = 20
_TINY = 1e-30
_NEARLY_ZERO = 1e-6
"""A least value this close to zero makes a tensor unsigned; OCTAV stops at such a change."""


def tpumlir_kl(seen: Statistics, wanted: Wanted) -> Range:
    """KL divergence as TPU-MLIR's calibration has it: for 128 levels, whatever the bits.

    There the first sample fixes the bins, so that the order of the samples matters; here the
    bins follow from the largest magnitude of all of them. Its divergence jumps where the last
    bin kept is empty, so that near ties may fall otherwise than for ``kl_of`` raw values.
    """
    magnitudes, absmax = Spread.of_magnitudes(seen), largest(seen)
    return within(
        seen, wanted, min(_kl_of_counts(_rebinned(magnitudes, absmax), absmax), absmax)
    )


def tpumlir_octav(seen: Statistics, wanted: Wanted) -> Range:
    """OCTAV as TPU-MLIR's ``mse`` has it: at most 20 steps, zeros counted as rounded."""

    def above(threshold: float) -> tuple[float, float]:
        count, beyond, _ = (float(x[0]) for x in magnitudes.above(np.array([threshold])))
        return count, beyond + threshold * count

    magnitudes = Spread.of_magnitudes(seen)
    mean = magnitudes.sum / magnitudes.total
    rounding = _rounding(seen.low, wanted.bits)
    return within(seen, wanted, _octav(above, mean, seen.count, rounding))


def kl_of(values: NDArray[Any]) -> float:
    """TPU-MLIR's KL threshold of real values, not all zero, before the clip to the largest."""
    magnitudes = np.abs(values.astype(np.float64).ravel())
    absmax = float(magnitudes.max())
    filled = magnitudes[magnitudes > 0]
    bins = np.floor(filled / (absmax / (BINS - 1)) + 0.5).astype(np.int64)
    return _kl_of_counts(np.bincount(bins, minlength=BINS), absmax)


def octav_of(values: NDArray[Any], bits: int) -> float:
    """TPU-MLIR's OCTAV threshold of real values, not all zero."""

    def above(threshold: float) -> tuple[float, float]:
        kept = magnitudes[magnitudes > threshold]
        return float(len(kept)), float(kept.sum())

    magnitudes = np.abs(values.astype(np.float64).ravel())
    mean = float(magnitudes.sum() / np.count_nonzero(magnitudes))
    rounding = _rounding(float(values.min()), bits)
    return _octav(above, mean, len(magnitudes), rounding)


def _rebinned(magnitudes: Spread, absmax: float) -> NDArray[np.int64]:
    """The counts in TPU-MLIR's bins, whole numbers: bin k is centred at k absmax / 2047."""
    places = np.stack([magnitudes.starts, magnitudes.ends]).ravel("F")
    sums = magnitudes.counts.cumsum()
    reached = np.stack([sums - magnitudes.counts, sums]).ravel("F")
    edges = (np.arange(1, BINS) - 0.5) * (absmax / (BINS - 1))
    below = np.floor(np.interp(edges, places, reached) + 0.5)
    counts: NDArray[np.int64] = np.diff(below, prepend=0.0, append=sums[-1]).astype(np.int64)
    return counts


def _kl_of_counts(counts: NDArray[np.int64], absmax: float) -> float:
    """The best of sixteen thresholds: after every 128 bins."""
    kept = range(GROUPS, BINS + 1, GROUPS)
    best = int(np.argmin([_divergence(counts, bins) for bins in kept]))
    return absmax / (BINS - 1) * kept[best]


def _divergence(counts: NDArray[np.int64], kept: int) -> float:
    """sum P (log(P + 1e-30) - log(Q + 1e-30)), Q zero in the bins that are empty."""
    total, inside = counts.sum(), counts[:kept]
    p = inside / total
    p[-1] += counts[kept:].sum() / total
    groups = inside.reshape(GROUPS, -1)
    filled = np.maximum(np.count_nonzero(groups, axis=1), 1)
    means = groups.sum(axis=1) / filled / max(inside.sum(), 1)
    q = np.where(groups > 0, means[:, None], 0.0).ravel()
    return float((p * (np.log10(p + _TINY) - np.log10(q + _TINY))).sum())


def _rounding(least: float, bits: int) -> float:
    """4**-b / (3 u): u is 4 for a tensor whose least value is about zero, else 1."""
    return 4.0**-bits / 3 / (4 if abs(least) < _NEARLY_ZERO else 1)


def _octav(
    above: Callable[[float], tuple[float, float]], mean: float, count: int, rounding: float
) -> float:
    """s <- sum |x| [|x| > s] / (rounding * #(|x| <= s) + #(|x| > s)) from the mean on.

    ``above``: how many magnitudes are above a threshold, and their sum.
    """
    threshold = mean
    for _ in range(OCTAV_STEPS):
        larger, total = above(threshold)
        following = total / (rounding * (count - larger) + larger)
        if abs(following - threshold) < _NEARLY_ZERO:
            break
        threshold = following
    return threshold
