"""entropy: the threshold that loses the least information (KL divergence)."""

import numpy as np
from numpy.typing import NDArray

from calibration.histogram import Counts
from calibration.methods.spread import Reals, magnitudes_from_zero
from calibration.methods.wanted import Wanted, level_bits, within
from calibration.statistics import Range, Statistics

SLACK = 1e-12
"""Divergences that differ by less are equal: the least threshold is taken."""

_AT_ONCE = 1 << 13
"""So many groups at once: tables of them stay in the processor's cache."""


def entropy(seen: Statistics, wanted: Wanted) -> Range:
    """The threshold of least Kullback-Leibler divergence between |x| and |x| when stored.

    From Migacz, "8-bit Inference with TensorRT" (2017): P, the first bins with the tail folded
    into the last; Q, the same bins merged into as many groups as there are levels, each spread
    back evenly over the bins that P fills. Every edge is tried from the number of levels on.
    Zeros are left out: they are stored exactly. With no more bins than levels, nothing is cut.
    """
    counts, width = magnitudes_from_zero(seen)
    bits = level_bits(seen, wanted) - 1
    return within(seen, wanted, best_edge(counts, bits) * width)


def best_edge(counts: Counts, bits: int) -> int:
    """How many of the bins to keep for 2**bits levels."""
    if len(counts) <= 1 << bits:
        return len(counts)
    divergence = divergences(counts, bits)
    return (1 << bits) + int(np.argmax(divergence <= divergence.min() + SLACK))


def divergences(counts: Counts, bits: int) -> Reals:
    """KL(P || Q) in nats for 2**bits bins kept and more; infinite where Q lacks a bin of P.

    With n the counts of P, m that of a group and k its filled bins, N of all, S of the kept:
    (sum n ln n - sum over groups of P's count times ln(m / k)) / N + ln(S / N).
    """
    edges = np.arange(1 << bits, len(counts) + 1)
    sums, filled = _sums(counts), _sums(counts > 0)
    last = sums[-1] - sums[edges - 1]  # the bin and the tail
    own = _sums(_x_log_x(counts))[edges - 1] + _x_log_x(last)
    chunks = np.array_split(edges, (len(edges) << bits) // _AT_ONCE + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        shared = np.concatenate([_shared(sums, filled, bits, each) for each in chunks])
        share = sums[edges] / sums[-1]
        return np.where(share > 0, (own - shared) / sums[-1] + np.log(share), np.inf)


def _shared(sums: Reals, filled: Reals, bits: int, edges: NDArray[np.int64]) -> Reals:
    """The sum over the groups of each edge of P's count times ln(m / k)."""
    ends = (edges[:, None] * np.arange((1 << bits) + 1)) >> bits
    mass, bins = np.diff(sums[ends]), np.diff(filled[ends])
    tail = sums[-1] - sums[edges]
    bins[:, -1] += (filled[edges] == filled[edges - 1]) & (tail > 0)
    mean = np.log(mass / bins)
    mass[:, -1] += tail
    total: Reals = np.where(mass > 0, mass * mean, 0.0).sum(axis=1)
    return total


def _sums(terms: NDArray[np.generic]) -> Reals:
    """Of the first 0, 1, 2 ... terms."""
    return np.concatenate([[0.0], np.cumsum(terms, dtype=np.float64)])


def _x_log_x(x: NDArray[np.generic]) -> Reals:
    """x ln x, and zero at zero."""
    real = x.astype(np.float64)
    return real * np.log(np.maximum(real, 1.0))
