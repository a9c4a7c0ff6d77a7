"""Activations of recurrent nets again, to more digits: what judges the entries of tables."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.activations import Activation

Long = NDArray[Any]
"""Of np.longdouble."""


def _sigmoid(x: Long) -> Long:
    """By the half of a number that is not beyond 1."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x < 0, small, 1) / (1 + small))


def _tanh(x: Long) -> Long:
    """By exponentials less one."""
    doubled = np.expm1(-2 * np.abs(x))
    return np.asarray(np.sign(x) * -doubled / (2 + doubled))


_REAL: Mapping[str, Callable[[Long, Any, Any], Long]] = {
    "Affine": lambda x, a, b: a * x + b,
    "Elu": lambda x, a, _b: np.where(x >= 0, x, a * (np.exp(np.minimum(x, 0)) - 1)),
    "HardSigmoid": lambda x, a, b: np.minimum(np.maximum(a * x + b, 0), 1),
    "LeakyRelu": lambda x, a, _b: np.where(x >= 0, x, a * x),
    "Relu": lambda x, _a, _b: np.where(x > 0, x, 0),
    "ScaledTanh": lambda x, a, b: a * _tanh(b * x),
    "Sigmoid": lambda x, _a, _b: _sigmoid(x),
    "Softplus": lambda x, _a, _b: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    "Softsign": lambda x, _a, _b: np.sign(x) * (1 - 1 / (1 + np.abs(x))),
    "Tanh": lambda x, _a, _b: _tanh(x),
    "ThresholdedRelu": lambda x, a, _b: np.where(x > a, x, 0),
}

LEVELS = np.arange(-(1 << 15), 1 << 15)
"""All sums of 16 bits, from the least on."""


def real_values(function: Activation, step: Fraction | float) -> Long:
    """[65536]: ``function`` of all sums in steps of ``step``, from the least on."""
    x = LEVELS.astype(np.longdouble) * np.longdouble(float(step))
    if np.isfinite(function.clip):
        x = np.minimum(np.maximum(x, -function.clip), function.clip)
    return _REAL[function.name](x, np.longdouble(function.alpha), np.longdouble(function.beta))


def in_order(table: NDArray[Any]) -> NDArray[np.int64]:
    """Entries from that of the least sum on."""
    return np.roll(table.astype(np.int64), 1 << 15)


def bits_of(values: Long, dtype: np.dtype[Any]) -> int:
    """Bits behind the point of a table: as many as fit, 15 at most."""
    most = 65535 if dtype == np.uint16 else 32768
    bits = 15
    while float(np.abs(values).max()) * 2.0**bits > most:
        bits -= 1
    return bits


def table_error(table: NDArray[Any], values: Long, bits: int) -> float:
    """By how much an entry of ``table`` is off at most, in real numbers."""
    off = np.abs(in_order(table) - values * np.longdouble(2) ** bits)
    return float(off.max()) * 2.0**-bits


def variation(values: Long, steps: int) -> float:
    """By how much the function varies within so many steps of its sums at most."""
    steps = min(max(steps, 1), len(values) - 1)
    return float(np.abs(values[steps:] - values[:-steps]).max())
