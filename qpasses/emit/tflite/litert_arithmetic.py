"""What LiteRT's reference kernels compute, derived from the float32 scales of a file.

[d] is all in double, [p] a product in float32 and then double, [f] all in float32. Measured by
running single operators against this arithmetic: docs/decisions/0057-tflite.md.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import floor

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64
from opsets.forms import ADD_FORMS, MEAN_FORMS, Pairs
from opsets.multipliers import Pair, quantize_multiplier
from opsets.rounding import NodeRounding, requantize, wraps
from opsets.target import load_target
from qpasses.emit.operations import RefusedError
from qpasses.evidence.thresholds import NEVER

ROUNDING: NodeRounding = "tflite_double"

_LARGEST_SHIFT = 62


def single(value: float) -> float:
    """As a file holds it."""
    return float(np.float32(value))


def pair(scale: float) -> Pair:
    """QuantizeMultiplier. Raises RefusedError for what it saturates."""
    multiplier, shift = quantize_multiplier(scale, 31, _LARGEST_SHIFT)
    if shift < 0:
        raise RefusedError(f"a scale of {scale:.6g}, more than LiteRT multiplies with")
    return multiplier, shift


def of_convolution(x: float, weights: Sequence[float], y: float) -> list[Pair]:
    """CONV_2D, DEPTHWISE_CONV_2D [d], of each channel."""
    return [pair(single(x) * single(w) / single(y)) for w in weights]


def of_matrices(a: float, b: float, y: float) -> Pair:
    """BATCH_MATMUL [p]."""
    return pair(float(np.float32(a) * np.float32(b)) / single(y))


def of_product(a: float, b: float, y: float) -> Pair:
    """MUL [f]."""
    return pair(float(np.float32(a) * np.float32(b) / np.float32(y)))


def of_quantize(x: float, y: float) -> Pair:
    """QUANTIZE of integers [d]."""
    return pair(single(x) / single(y))


def of_sum(a: float, b: float, y: float) -> Pairs:
    """ADD and SUB of int8 [d]."""
    scales = single(a), single(b), single(y)
    return ADD_FORMS["shift_20"].numbers(*scales, load_target("tflite"))


def sum_levels(a: Int64, b: Int64, pairs: Pairs, sign: int) -> Int64:
    """ADD, or SUB with sign -1, of levels. Raises RefusedError where sums may wrap."""
    _check_wraps(np.array([_LARGEST_SUM]), pairs[-1])
    return ADD_FORMS["shift_20"].levels(a, b, pairs, ROUNDING, sign)


def of_mean(x: float, y: float, cells: int) -> Pair:
    """MEAN, of the sum of levels [d]."""
    return MEAN_FORMS["folded"].numbers(single(x) / single(y), cells, load_target("tflite"))


def of_slopes(x: float, y: float, slope: float) -> tuple[Pair, Pair]:
    """PRELU with codes of this scale, LEAKY_RELU with it as alpha: above and below zero [f].

    The multiplier below is negative where the slope is.
    """
    multiplier, shift = pair(float(np.float32(x) * np.float32(abs(slope)) / np.float32(y)))
    above = pair(float(np.float32(x) / np.float32(y)))
    return above, (-multiplier if slope < 0 else multiplier, shift)


def slope_levels(x: Int64, codes: Int64, numbers: tuple[Pair, Pair]) -> Int64:
    """PRELU, LEAKY_RELU of levels."""
    above, (multiplier, shift) = numbers
    below = levels_of(np.minimum(x, 0) * codes, (abs(multiplier), shift))
    signed = np.sign(multiplier) * below
    return np.where(x < 0, signed, levels_of(np.maximum(x, 0), above))


def levels_of(acc: Int64, numbers: Pair) -> Int64:
    """MultiplyByQuantizedMultiplier. Raises RefusedError where it wraps."""
    _check_wraps(acc, numbers)
    return requantize(acc, *numbers, ROUNDING)


def _check_wraps(acc: Int64, numbers: Pair) -> None:
    if wraps(acc, numbers[1], ROUNDING).any():
        raise RefusedError("its sums wrap in LiteRT as they are shifted to the left")


_LARGEST_SUM = 2 * 255 << 20
"""Of two levels, shifted."""


def fully_connected_thresholds(scales: Sequence[float], steps: Int64) -> Int64:
    """[C, K]: the smallest accumulator whose product with the scale, in double, rounds to the
    step or more, ties away from zero: FULLY_CONNECTED [d].
    """
    found = np.empty((len(scales), len(steps)), np.int64)
    for channel, scale in enumerate(scales):
        for place, step in enumerate(steps.tolist()):
            found[channel, place] = _threshold(scale, step)
    return np.clip(found, -NEVER, NEVER)


def _threshold(scale: float, step: int) -> int:
    """A product in double is off by less than two accumulators: those around are tried."""
    if scale <= 0 or scale < 2.0**-40:
        return int(NEVER if step > 0 else -NEVER)
    near = floor((Fraction(step) - Fraction(1, 2)) / Fraction(scale))
    for acc in range(near - 2, near + 4):
        product = float(acc) * scale
        level = floor(abs(product) + 0.5) * (1 if product >= 0 else -1)
        if level >= step:
            return acc
    return int(NEVER)


def fully_connected_scales(x: float, weights: Sequence[float], y: float) -> list[float]:
    """[d], of each channel."""
    return [single(x) * single(w) / single(y) for w in weights]


_ACTIVATIONS = {
    "NONE": (None, None),
    "RELU": (0.0, None),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
}


def activation(scale: float, zero: int, low: int, high: int, limits: range) -> str | None:
    """The fused activation that keeps codes from ``low`` to ``high``, if there is one."""
    for name, ends in _ACTIVATIONS.items():
        codes = [None if end is None else _code(end, scale, zero) for end in ends]
        least = limits[0] if codes[0] is None else max(limits[0], codes[0])
        most = limits[-1] if codes[1] is None else min(limits[-1], codes[1])
        if (least, most) == (low, high):
            return name
    return None


def _code(real: float, scale: float, zero: int) -> int:
    """CalculateActivationRangeQuantized: a quotient in float32, ties away from zero."""
    level = float(np.float32(real) / np.float32(scale))
    return zero + (floor(level + 0.5) if level >= 0 else -floor(-level + 0.5))


RESIZE_STEPS = 1 << 10
"""RESIZE_BILINEAR's coefficients are whole numbers of so many."""


def resize_rows(
    size: int, wanted: int, *, align_corners: bool, half_pixel: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of RESIZE_BILINEAR along an axis: two places [2, wanted], and their coefficients."""
    if align_corners and wanted > 1:
        step = ((size - 1) * RESIZE_STEPS + (wanted - 1) // 2) // (wanted - 1)
    else:
        step = (size * RESIZE_STEPS + wanted // 2) // wanted
    at = np.arange(wanted, dtype=np.int64) * step
    if half_pixel:
        at = at + step // 2 - RESIZE_STEPS // 2
    floors = at // RESIZE_STEPS
    low = np.maximum(floors, 0)
    high = np.minimum((at + RESIZE_STEPS - 1) // RESIZE_STEPS, size - 1)
    part = at - RESIZE_STEPS * low
    return np.stack([low, high]), np.stack([RESIZE_STEPS - part, part])
