"""Counting: extremes and histograms of tensors into a tally, by C where that was built.

C takes 0.03 ns a value for extremes and 0.35 for a histogram (one increment a cycle), numpy
0.1 and 2 to 3. Both give the same integers.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES
from math import prod
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from calibration.histogram import BINS
from calibration.tally import NO_PLACE, Tally


@dataclass(frozen=True)
class Values:
    """Float32 values in memory, contiguous, in any order; ``owner`` keeps them alive.

    Along axis 1 of ``shape`` are channels: those of ``block`` of them stand in turns.
    """

    address: int
    size: int
    owner: Any
    shape: Sequence[int] = ()
    block: int = 1

    @classmethod
    def of(cls, array: NDArray[np.float32]) -> "Values":
        """All values of a contiguous array."""
        return cls(array.ctypes.data, array.size, array, array.shape)

    @property
    def rows(self) -> tuple[int, int, int]:
        """What is in each row of each channel: [rows, channels, numbers] in all."""
        if len(self.shape) < 2:
            return 1, 1, self.size
        rows, channels, *inner = self.shape
        return rows, channels, prod(inner)

    def array(self) -> NDArray[np.float32]:
        """A flat view of them."""
        kind = ctypes.c_float * self.size
        found: NDArray[np.float32] = np.ctypeslib.as_array(kind.from_address(self.address))
        return found


class Counter(Protocol):
    """What takes tensors in."""

    def observe(self, tally: Tally, row: int, values: Values) -> None:
        """Take in ``values``: ``tally.batch`` samples of the same size."""


class NumpyCounter:
    """Counting by numpy."""

    def observe(self, tally: Tally, row: int, values: Values) -> None:
        """See Counter."""
        array = values.array() if values.size else np.empty(0, np.float32)
        samples = array.reshape(tally.batch, -1) if array.size else array.reshape(1, 0)
        slots = slice(tally.slot, tally.slot + len(samples))
        lows, highs = samples.min(1, initial=np.inf), samples.max(1, initial=-np.inf)
        tally.sample_lows[slots, row], tally.sample_highs[slots, row] = lows, highs
        tally.values[row] += array.size
        if tally.channels.get(row):
            _observe_channels(tally, row, values)
        if not array.size:
            return
        low, high = lows.min(), highs.max()  # NaN if there is one
        if not (np.isfinite(low) and np.isfinite(high)):
            tally.finite[row] = False
            return
        if tally.places[row] != NO_PLACE:
            _count(tally, row, array, float(low), float(high))
        tally.lows[row] = min(tally.lows[row], low)
        tally.highs[row] = max(tally.highs[row], high)


def _count(
    tally: Tally, row: int, array: NDArray[np.float32], low: float, high: float
) -> None:
    bottom, top = tally.window(row)
    if not bottom <= low <= high < top:
        tally.widen(row, low, high)
    bins = np.floor(np.ldexp(array.astype(np.float64), -tally.exponents[row]))
    own = (bins - tally.firsts[row]).astype(np.int64)
    tally.counts_of(row)[:] += np.bincount(own, minlength=BINS).astype(np.uint32)
    tally.zeros[row] += array.size - np.count_nonzero(array)


def _observe_channels(tally: Tally, row: int, values: Values) -> None:
    rows, channels, inner = values.rows
    lows, highs = tally.channels_of(row)
    if not rows:
        return
    if channels != tally.channels[row]:
        lows.fill(np.nan)
        return
    blocks = (rows, channels // values.block, inner, values.block)
    array = values.array().reshape(blocks) if values.size else np.empty(blocks, np.float32)
    groups = tally.groups[tally.slot + np.arange(rows) * tally.batch // rows]
    for join, found, nothing in (np.minimum, lows, np.inf), (np.maximum, highs, -np.inf):
        ends = join.reduce(array, axis=2, initial=nothing).reshape(rows, channels)
        join.at(found, groups, ends)


class CompiledCounter:
    """Counting by the C code of _counting.c, outside the interpreter's lock.

    ``library`` also makes it known to onnxruntime: the op Observe of the domain "qpasses",
    which reads a tensor and a tally's desk, and has the attributes ``row`` and ``block``.
    """

    def __init__(self, library: Path) -> None:
        self.library = library
        functions = ctypes.CDLL(str(library))
        self._observe, self._observe_channels = functions.observe, functions.observe_channels
        first = ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p
        self._observe.argtypes = (*first, ctypes.c_size_t)
        self._observe_channels.argtypes = (*first, ctypes.c_void_p, ctypes.c_int)
        self._observe.restype = self._observe_channels.restype = None

    def observe(self, tally: Tally, row: int, values: Values) -> None:
        """See Counter."""
        desk = tally.desk.ctypes.data
        self._observe(desk, row, values.address, values.size)
        if tally.channels.get(row):
            shape = (ctypes.c_int64 * 3)(*values.rows)
            self._observe_channels(desk, row, values.address, shape, values.block)


def _built() -> Path | None:
    """The compiled library beside this file, if there is one."""
    names = [f"_counting{suffix}" for suffix in EXTENSION_SUFFIXES]
    folder = Path(__file__).parent
    return next((folder / name for name in names if (folder / name).is_file()), None)


def fastest_counter() -> Counter:
    """C where it was built, else numpy."""
    library = _built()
    return NumpyCounter() if library is None else CompiledCounter(library)
