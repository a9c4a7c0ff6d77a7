"""gemmlowp's fixed point, as TFLite's Softmax of 8 bits uses it: on exact integers.

Sources: gemmlowp, fixedpoint/fixedpoint.h; TensorFlow, lite/kernels/internal/common.h
(GetReciprocal), quantization_util.cc (PreprocessSoftmaxScaling, CalculateInputRadius) and
reference/softmax.h.
"""

import numpy as np

from opsets.fixed_point import Int64, rounding_shift
from opsets.multipliers import quantize_multiplier
from opsets.rounding import doubling_high_multiply

INTEGER_BITS = 5
"""Of a difference of two codes times their scale: 26 bits behind the point."""

SUM_BITS = 12
"""Before the point of a sum of exponentials, which have 31 bits behind it, sums 19."""

ONE_OF_SUM = 1 << 31 - SUM_BITS
LARGEST_SUM = (1 << 28) - 1
POWERS_OF_SUMS = tuple(ONE_OF_SUM << each for each in range(1, 9))
"""1 in a sum, the largest sum that is divided by, and from where on one shifts farther."""

LONGEST_ROW = 511
"""Sums from 512 on shift by more than 31 places: LiteRT's reference kernel aborts there."""

NEWTON_STEPS = 3
ONE, ONE_OF_2 = (1 << 31) - 1, 1 << 29
"""1 with no bit before the point, which is a little less, and with two."""

START, SLOPE = 1515870810, 1010580540
"""48 / 17 and 32 / 17 with two bits before the point: where Newton's steps start."""

_EXP_OF_EIGHTH, _THIRD = 1895147668, 715827883
"""exp(-1 / 8) and 1 / 3 with 31 bits behind the point."""

_POWERS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
"""exp(-2**k) with 31 bits behind the point, k from -2 on."""


def softmax_exponentials(x_scale: float) -> list[int]:
    """[256]: exp(-x_scale * d) for d from 0 on, 31 bits behind the point; 0 where it is left
    out of sum and result.
    """
    real = min(x_scale * 2.0 ** (31 - INTEGER_BITS), 2.0**31 - 1)
    multiplier, right = quantize_multiplier(real, 31, 62)
    left = 31 - right
    radius = ((1 << INTEGER_BITS) - 1) * 2.0 ** (31 - INTEGER_BITS - left)
    distance = np.arange(256, dtype=np.int64)
    inside = distance <= np.floor(radius)
    scaled = doubling_high_multiply(-np.where(inside, distance, 0) << left, multiplier)
    found = np.where(inside, exp_on_negative_values(scaled), 0)
    return [int(each) for each in found]


def exp_on_negative_values(a: Int64) -> Int64:
    """exp of a <= 0, which has five bits before the point, with 31 bits behind it."""
    fraction_bits = 31 - INTEGER_BITS
    quarter = 1 << (fraction_bits - 2)
    rest = (a & (quarter - 1)) - quarter
    found = _exp_near_zero(rest << INTEGER_BITS)
    remainder = rest - a
    for place, power in enumerate(_POWERS):
        bit = remainder & (1 << (fraction_bits - 2 + place))
        found = np.where(bit != 0, doubling_high_multiply(found, power), found)
    return np.asarray(np.where(a == 0, ONE, found), np.int64)


def _exp_near_zero(a: Int64) -> Int64:
    """exp of a from -1 / 4 to 0: Taylor's series of fourth degree about -1 / 8."""
    x = a + (1 << 28)
    x2 = doubling_high_multiply(x, x)
    x3, x4 = doubling_high_multiply(x2, x), doubling_high_multiply(x2, x2)
    quarter = rounding_shift(x4, 2, "half_away")
    third = doubling_high_multiply(quarter + x3, _THIRD)
    rest = rounding_shift(third + x2, 1, "half_away")
    return _EXP_OF_EIGHTH + doubling_high_multiply(x + rest, _EXP_OF_EIGHTH)


def reciprocal(total: Int64) -> tuple[Int64, Int64]:
    """About 1 / total with 31 bits, of sums from 1 to less than 512, and by how many places
    it has to be shifted to the right.
    """
    places = np.zeros_like(total)
    for power in POWERS_OF_SUMS:
        places += total >= power
    half = total << (SUM_BITS - places) >> 1  # of a number from 1 to 2
    x = START + doubling_high_multiply(half, -SLOPE)
    for _ in range(NEWTON_STEPS):
        error = ONE_OF_2 - doubling_high_multiply(half, x)
        x = x + (doubling_high_multiply(x, error) << 2)
    return np.minimum(x << 1, ONE), places
