"""Operators of one tensor whose reference kernel looks up, or computes, a table of 256 codes.

What a graph has as a table is said by one of them where all of its entries are the operator's.
Kernels compute functions in float32 and round ties away from zero: an entry so near a tie that
a C library may decide it is nobody's.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64
from opsets.hard_swish import hard_swish_levels
from qpasses.emit.operations import RefusedError
from qpasses.emit.tflite import litert_arithmetic as runtime
from qpasses.emit.tflite.flatbuffer import Scales

_CODES = np.arange(-128, 128, dtype=np.int64)

_ULPS = 4
"""float32 is off by less steps of its last bit; EXP by as many more as its argument is."""

_LARGE = 1 << 30


@dataclass(frozen=True)
class Native:
    """An operator, and the bounds its codes are then held to."""

    name: str
    version: int
    options: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    low: int = -128
    high: int = 127


def native_of(
    table: NDArray[np.int8], x: Scales, y: Scales, by: runtime.Runtime
) -> Native | None:
    """The runtime's operator that gives ``table``, from the code -128 on, if there is one."""
    entries = table.astype(np.int64)
    low, high = int(entries.min()), int(entries.max())
    for made, levels in _tried(x, y, low, by):
        if levels is None:
            continue
        codes = np.clip(levels + y.zero, made.low, made.high)
        if np.array_equal(codes, entries):
            return made
        if np.array_equal(np.clip(codes, low, high), entries):
            return replace(made, low=low, high=high)
    return None


def _tried(
    x: Scales, y: Scales, low: int, by: runtime.Runtime
) -> Iterator[tuple[Native, Int64 | None]]:
    """Operators, and what they give: levels, None where that is not certain."""
    levels = _CODES - x.zero
    with suppress(RefusedError):
        above = by.pair("Relu", (x.scale,), y.scale)
        if low == y.zero:
            yield Native("RELU", 2), np.maximum(runtime.levels_of(levels, above), 0)
        pair = by.pair("Quantize", (x.scale,), y.scale)
        yield Native("QUANTIZE", 2), runtime.levels_of(levels, pair)
    functions = _FUNCTIONS if by.tabulates_functions else ()
    for name, version, options, numbers, scale, zero, function in functions:
        if (scale, zero) in ((None, None), (y.scale, y.zero)):
            given = levels * x.scale
            real = np.array([function(float(each)) for each in given]) / y.scale
            steps = _ULPS + np.abs(given) * (name == "EXP")
            with np.errstate(over="ignore"):
                near = np.abs(real) * steps * np.finfo(np.float32).eps
            yield Native(name, version, options, numbers), _certain(real, near)
    if x.scale / 128 <= y.scale:
        yield Native("HARD_SWISH", 1), hard_swish_levels(levels, x.scale, y.scale)


def _certain(levels: NDArray[np.float64], near: NDArray[np.float64]) -> Int64 | None:
    """Rounded, if none is so near a tie, or so large that C++ does not say what becomes."""
    apart = np.abs(levels - np.floor(levels) - 0.5)
    if (np.abs(levels) > _LARGE).any() or (apart < near).any():
        return None
    return np.asarray(np.rint(levels), np.int64)


def _logistic(real: float) -> float:
    return 1 / (1 + math.exp(-real)) if real > -700 else 0.0


def _gelu(real: float) -> float:
    return 0.5 * real * math.erfc(-real * math.sqrt(0.5))


def _gelu_by_tanh(real: float) -> float:
    inner = math.sqrt(2 / math.pi) * (real + 0.044715 * real**3)
    return 0.5 * real * (1 + math.tanh(inner))


def _exp(real: float) -> float:
    return math.exp(min(real, 700.0))


_Function = tuple[
    str, int, str, Mapping[str, Any], float | None, int | None, Callable[[float], float]
]

_FUNCTIONS: tuple[_Function, ...] = (
    ("LOGISTIC", 2, "", {}, 1 / 256, -128, _logistic),
    ("TANH", 2, "", {}, None, None, math.tanh),
    ("EXP", 2, "ExpOptions", {}, None, None, _exp),
    ("GELU", 2, "GeluOptions", {"approximate": False}, None, None, _gelu),
    ("GELU", 2, "GeluOptions", {"approximate": True}, None, None, _gelu_by_tanh),
)
"""Name, version, options; the output's scale and zero point, where the kernel has one alone;
what is tabulated."""
