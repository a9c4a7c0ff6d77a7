"""How a random graph stores a tensor: types, scales and zero points, drawn from its range."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.bench.fuzzing.builder import Builder

Array = NDArray[Any]
SMALLEST_SCALE = 1e-35


@dataclass(frozen=True)
class Stored:
    """``scale``: float32, of one element or along ``axis``; ``zero``: of the stored type."""

    scale: Array
    zero: Array
    axis: int | None = None

    @property
    def dtype(self) -> Any:
        """Of the integers."""
        return self.zero.dtype

    def along(self, values: Array, dims: int) -> Array:
        """Scales or zero points in a shape that broadcasts to ``dims`` dimensions."""
        column = [1] * dims
        if self.axis is not None:
            column[self.axis] = -1
        return values.reshape(column)

    def codes(self, real: Array) -> Array:
        """What QuantizeLinear makes of float32 numbers."""
        ends = np.iinfo(self.dtype)
        with np.errstate(over="ignore"):
            levels = np.rint(real / self.along(self.scale, real.ndim)).astype(np.float64)
        wide = levels + self.along(self.zero.astype(np.float64), real.ndim)
        return np.asarray(np.clip(wide, ends.min, ends.max), self.dtype)


def activation(b: Builder, values: Sequence[Array], dtype: Any, channels: bool) -> Stored:
    """A scale and zero point for what ``values`` hold; rarely one for each channel."""
    axis = 1 if channels and values[0].ndim > 1 else None
    ends = _ends(values, axis)
    if np.iinfo(dtype).bits == 16 or b.chance(0.2):
        return _symmetric(b, ends, dtype, axis)
    return _spread(b, ends, dtype, axis)


def weights(b: Builder, values: Array, axis: int | None) -> Stored:
    """For a constant: int8 or uint8, symmetric or not, of one scale or of several."""
    dtype = b.one_of([np.int8, np.int8, np.int8, np.uint8])
    ends = _ends([values], axis)
    return (_symmetric if b.chance(0.65) else _spread)(b, ends, dtype, axis)


def steps_of_bias(b: Builder, x: Stored | None, w: Stored | None) -> Stored:
    """int32 in steps of the products, or rarely in others."""
    known = x is not None and w is not None and x.axis is None
    if known and x is not None and w is not None and b.chance(0.9):
        scale = (x.scale.reshape(()) * w.scale).astype(np.float32)
        if np.all(scale > SMALLEST_SCALE):
            axis = None if scale.size == 1 else 0
            return Stored(scale, np.zeros(scale.shape, np.int32), axis)
    return Stored(np.array(0.01 * (1 + b.rng.random()), np.float32), np.zeros((), np.int32))


def _ends(values: Sequence[Array], axis: int | None) -> tuple[Array, Array]:
    """Lowest and highest number, 0 among them, of all or along ``axis``."""
    rows = [
        each.reshape(1, -1)
        if axis is None
        else np.moveaxis(each, axis, 0).reshape(each.shape[axis], -1)
        for each in values
    ]
    whole = np.concatenate(rows, axis=1).astype(np.float64)
    return whole.min(1, initial=0), whole.max(1, initial=0)


def _symmetric(b: Builder, ends: tuple[Array, Array], dtype: Any, axis: int | None) -> Stored:
    bits = np.iinfo(dtype).bits
    reach = np.maximum(-ends[0], ends[1])
    middle = 0 if np.iinfo(dtype).min else 1 << (bits - 1)
    scale = _tidied(b, reach / ((1 << (bits - 1)) - 1), axis)
    return Stored(scale, np.full(scale.shape, middle, dtype), axis)


def _spread(b: Builder, ends: tuple[Array, Array], dtype: Any, axis: int | None) -> Stored:
    limits = np.iinfo(dtype)
    scale = _tidied(b, (ends[1] - ends[0]) / (limits.max - limits.min), axis)
    lowest = ends[0].reshape(scale.shape) / scale
    zero = np.clip(limits.min - np.rint(lowest), limits.min, limits.max)
    return Stored(scale, zero.astype(dtype), axis)


def _tidied(b: Builder, steps: Array, axis: int | None) -> Array:
    """Positive float32: as they are, wider or narrower, or powers of two (which make ties)."""
    kind = b.rng.random()
    steps = np.where(steps > SMALLEST_SCALE, steps, 1.0)
    if kind < 0.25:
        steps = 2.0 ** np.ceil(np.log2(steps))
    elif kind < 0.45:
        steps = steps * b.rng.uniform(0.4, 1.6)
    scale = np.clip(steps, SMALLEST_SCALE, 1e35).astype(np.float32)
    if axis is None:
        return scale.reshape(b.one_of([(), (), (1,)]))
    return scale
