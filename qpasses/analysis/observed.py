"""What was seen of stored tensors: how far they are off, by what, which numbers they hold."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpasses.ir.record import AnyQuantization, ChannelQuantization

Array = NDArray[Any]

PARTS = ("clipping", "rounding", "weights", "multipliers")
"""Of what a node alone is off: of what it stores, the range that is too small and the nearest
codes; of how it computes, the codes of its constants, and integer arithmetic."""

_BINS = 64
"""Of the histogram: half of them inside of the range, a quarter on either side."""

_COUNTED = 1 << 16
"""So many numbers of a sample are counted in it, spread evenly."""


def _dot(a: Array, b: Array) -> float:
    """The sum of products; in float64 where float32 has not the range."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = float(np.dot(a.reshape(-1), b.reshape(-1)))
        if np.isfinite(found) or a.dtype == np.float64:
            return found
        wide = (each.reshape(-1).astype(np.float64) for each in (a, b))
        return float(np.dot(*wide))


class Likeness:
    """Signal and noise, added up over samples."""

    def __init__(self) -> None:
        self._sums = np.zeros(4)  # real^2, error^2, real * found, found^2

    def add(self, real: Array, error: Array) -> None:
        """``error``: what was found less what is ``real``, of one shape."""
        signal, noise, both = (
            _dot(*pair) for pair in ((real, real), (error, error), (real, error))
        )
        self._sums += signal, noise, signal + both, signal + 2 * both + noise

    @property
    def sqnr_db(self) -> float | None:
        """Signal over noise; at most 200 dB, None without signal."""
        return decibels(self._sums[0], self._sums[1])

    @property
    def cosine(self) -> float | None:
        """Of the angle between both; None where one is zero."""
        product = self._sums[0] * self._sums[3]
        return float(self._sums[2] / product**0.5) if product > 0 else None


def decibels(signal: float, noise: float) -> float | None:
    """``signal`` over ``noise``, at most 200; None where there is no signal, or infinite."""
    if not np.isfinite(signal + noise) or signal <= 0:
        return None
    return float(min(200.0, 10 * np.log10(signal / noise))) if noise > 0 else 200.0


@dataclass
class Alone:
    """One node on the codes nearest to float's numbers, step by step from float to integers.

    ``real``: in float; ``constants``: with constants as they are stored; ``rounded``: with the
    result as it is stored; ``found``: by integers.
    """

    real: Array
    constants: Array
    rounded: Array
    found: Array


class Observed:
    """A stored tensor on samples. ``channel_axis``: where its channels lie, if it has any."""

    def __init__(self, how: AnyQuantization, channel_axis: int | None) -> None:
        self.how, self.axis = how, channel_axis
        self.cumulative, self.local = Likeness(), Likeness()
        self.parts, self.noise = np.zeros(len(PARTS)), 0.0
        self.extremes: list[tuple[float, float]] = []
        self.clipped = self.seen = 0
        self.counts = np.zeros(_BINS, np.int64)
        self.shape: list[int] = []
        self.channels: _Channels | None = None

    def add(self, real: Array, found: Array) -> None:
        """One sample: float's numbers, and those of the integer graph."""
        if real.size:
            self.shape = [*real.shape]
            self.cumulative.add(real, found - real)
            self._count(real)

    def _limits(self, rank: int) -> tuple[Array, Array]:
        """The smallest and the largest number that can be stored, to broadcast."""
        zeros, factors = self.how.zeros(rank), self.how.factors(rank)
        low, high = ((end - zeros) * factors for end in self.how.limits)
        return np.asarray(low, np.float32), np.asarray(high, np.float32)

    def _count(self, real: Array) -> None:
        low, high = self._limits(real.ndim)
        self.extremes.append((float(real.min()), float(real.max())))
        half = np.asarray(self.how.factors(real.ndim), np.float32) / 2
        self.clipped += int(np.count_nonzero((real < low - half) | (real > high + half)))
        self.seen += real.size
        step = max(1, real.size // _COUNTED)
        begin, width = self._bins()
        shown = real.reshape(-1)[::step].astype(np.float64)
        places = np.nan_to_num(np.floor((shown - begin) / width))
        places = np.clip(places, 0, _BINS - 1).astype(np.int64)
        self.counts += np.bincount(places, minlength=_BINS)

    def _bins(self) -> tuple[float, float]:
        """Where the histogram begins, and how wide a bin is."""
        low, high = (float(end) for end in self.range)
        width = (high - low) / (_BINS // 2)
        return low - width * (_BINS // 4), width

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest number that can be stored, in any channel."""
        low, high = self._limits(1 + (self.axis or 0))
        return float(low.min()), float(high.max())

    @property
    def edges(self) -> list[float]:
        """Of the histogram; its first and last bin hold what lies beyond them too."""
        begin, width = self._bins()
        return [begin + width * place for place in range(_BINS + 1)]

    def take_apart(self, alone: Alone) -> None:
        """One sample: what the node that writes it is off by itself."""
        if not alone.real.size:
            return
        clipped = np.clip(alone.constants, *self._limits(alone.real.ndim))
        error = alone.found - alone.real
        self.local.add(alone.real, error)
        noise = _dot(error, error)
        weights, clipping, rounding = (
            _dot(after - before, error)
            for before, after in pairwise(
                (alone.real, alone.constants, clipped, alone.rounded)
            )
        )
        rest = noise - weights - clipping - rounding
        self.parts += clipping, rounding, weights, rest
        self.noise += noise
        if self.axis is not None:
            count = alone.real.shape[self.axis]
            if self.channels is None:
                self.channels = _Channels(count)
            if self.channels.count == count:
                self.channels.add(alone.real, error, self.axis)
            else:  # a free size, and no channels
                self.axis = self.channels = None

    @property
    def split(self) -> dict[str, float] | None:
        """The shares of ``PARTS`` in the noise of the node alone; together they are 1.

        Each is how much of its error lies along the whole one: it may be negative.
        """
        if not 0 < self.noise < np.inf:
            return None
        return dict(zip(PARTS, (self.parts / self.noise).tolist(), strict=True))


@dataclass
class _Channels:
    """The smallest and the largest number, signal and noise of each channel."""

    count: int
    low: Array = field(init=False)
    high: Array = field(init=False)
    signal: Array = field(init=False)
    noise: Array = field(init=False)

    def __post_init__(self) -> None:
        self.low, self.high = np.full(self.count, np.inf), np.full(self.count, -np.inf)
        self.signal, self.noise = np.zeros(self.count), np.zeros(self.count)

    def add(self, real: Array, error: Array, axis: int) -> None:
        others = tuple(k for k in range(real.ndim) if k != axis % real.ndim)
        self.low = np.minimum(self.low, real.min(axis=others))
        self.high = np.maximum(self.high, real.max(axis=others))
        self.signal += np.square(real, dtype=np.float64).sum(axis=others)
        self.noise += np.square(error, dtype=np.float64).sum(axis=others)

    @property
    def sqnr_db(self) -> list[float | None]:
        return [decibels(*pair) for pair in zip(self.signal, self.noise, strict=True)]


def channel_axis(how: AnyQuantization, op: str, rank: int) -> int | None:
    """Where the channels of a tensor that ``op`` writes lie, as far as is known."""
    if isinstance(how, ChannelQuantization):
        return how.axis
    if rank < 2:
        return None
    if op.startswith("IntConv"):
        return 1
    return 1 if rank > 3 and op not in _OF_ROWS else rank - 1


_OF_ROWS = frozenset(
    {
        *("IntGemm", "IntMatMul", "IntLayerNorm", "ILayerNorm", "TableSoftmax"),
        *("TableSoftmax16", "GemmlowpSoftmax", "IntLogSoftmax", "Shiftmax", "IBertSoftmax"),
    }
)
"""What is computed along the last axis."""
