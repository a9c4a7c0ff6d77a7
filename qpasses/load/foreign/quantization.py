"""Quantization: what stored integers stand for, as a scale, a zero point and an axis."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

INTEGERS: Mapping[int, type[np.integer[Any]]] = {
    TensorProto.INT8: np.int8,
    TensorProto.UINT8: np.uint8,
    TensorProto.INT16: np.int16,
    TensorProto.UINT16: np.uint16,
    TensorProto.INT32: np.int32,
}
"""The types of stored integers that numpy has, by ONNX's numbers."""

UNPACKED: Mapping[int, type[np.integer[Any]]] = {
    TensorProto.INT4: np.int8,
    TensorProto.UINT4: np.uint8,
    TensorProto.INT2: np.int8,
    TensorProto.UINT2: np.uint8,
}
"""Types of fewer bits, and those that hold their values."""


@dataclass(frozen=True)
class Quantization:
    """real = (stored - zero_point) * scale, for all of a tensor or each slice along ``axis``.

    Both arrays have one shape, [] or [n]; the zero point is of the type that is stored.
    """

    scale: NDArray[Any]
    zero_point: NDArray[Any]
    axis: int = 0

    @property
    def per_axis(self) -> bool:
        """Whether the slices along ``axis`` have scales of their own."""
        return self.scale.ndim == 1

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """The same for the same numbers."""
        axis = self.axis if self.per_axis else None
        return same_numbers(self.scale), same_numbers(self.zero_point), axis

    def of_type(self, dtype: type[Any]) -> "Quantization":
        """The same for integers of another type."""
        return replace(self, zero_point=self.zero_point.astype(dtype))

    def real(self, stored: NDArray[Any]) -> NDArray[Any]:
        """What stored integers stand for, in the type of the scale, as DequantizeLinear."""
        wide = stored.astype(np.int32) - self._along(self.zero_point.astype(np.int32), stored)
        found: NDArray[Any] = wide.astype(self.scale.dtype) * self._along(self.scale, stored)
        return found

    def stored(self, real: NDArray[Any]) -> NDArray[Any]:
        """The integers that QuantizeLinear makes of real numbers: half to even, saturated."""
        bounds = np.iinfo(self.zero_point.dtype)
        scale = self._along(self.scale.astype(np.float32), real)
        with np.errstate(over="ignore"):
            rounded = np.rint(real.astype(np.float32) / scale).astype(np.float64)
        moved = rounded + self._along(self.zero_point.astype(np.float64), real)
        found: NDArray[Any] = np.clip(moved, bounds.min, bounds.max)
        return found.astype(self.zero_point.dtype)

    def _along(self, values: NDArray[Any], data: NDArray[Any]) -> NDArray[Any]:
        """``values`` in a shape that broadcasts along the axis of ``data``."""
        if not self.per_axis:
            return values
        shape = [1] * data.ndim
        shape[self.axis] = -1
        return values.reshape(shape)

    def opset(self) -> int:
        """The oldest opset whose QuantizeLinear and DequantizeLinear say this."""
        if self.zero_point.dtype in (np.int16, np.uint16):
            return 21
        if self.scale.dtype != np.float32:
            return 19
        return 13 if self.per_axis else 10


def per_tensor(scale: Any, zero_point: Any) -> Quantization:
    """One scale and one zero point for all."""
    return Quantization(np.asarray(scale).reshape(()), np.asarray(zero_point).reshape(()))


def same_numbers(values: NDArray[Any]) -> tuple[Any, ...]:
    """The same for arrays of the same type, shape and numbers."""
    return values.dtype.str, values.shape, values.tobytes()
