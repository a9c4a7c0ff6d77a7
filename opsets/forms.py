"""Forms: the named ways in which a target computes an op beyond one requantization.

A form has two halves: ``numbers``, the integers that stand on a node, from real scales, and
``levels``, what is computed from them on exact integers, before zero point and clamp.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from types import MappingProxyType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64
from opsets.multipliers import Pair, Scale, ScaleError, rshift_and_multiplier
from opsets.rounding import requantize

Pairs = Sequence[Pair]


class Arithmetic(Protocol):
    """The part of a target that forms need."""

    @property
    def rounding(self) -> str:
        """A key of ROUNDING_RULES."""

    def scale_to_multiplier(self, scale: Scale) -> Pair:
        """Of an accumulator."""

    def elementwise_multiplier(self, scale: Scale) -> Pair:
        """Of an operand of Add and Mul, of a pool, of a slope."""

    def real_scale(self, op: str, operands: Sequence[float], y: float) -> Scale:
        """The product of the operands' scales over that of y, as the system computes it."""


@dataclass(frozen=True)
class AddForm:
    """``numbers(a_scale, b_scale, y_scale, target)`` and ``levels(a, b, pairs, rounding,
    sign)``.

    a and b are stored integers less their zero points; with sign -1 b, once it is rounded on
    its own, is subtracted: Sub.
    """

    formula: str
    numbers: Callable[[float, float, float, Arithmetic], Pairs]
    levels: Callable[[Int64, Int64, Pairs, str, int], Int64]


@dataclass(frozen=True)
class PoolForm:
    """``numbers(scale, cells, target)``, and ``levels(sums, cells, pair, rounding)``.

    ``scale`` is x_scale / y_scale; ``sums`` are of stored integers less their zero points, in
    form ``divided`` of stored integers as they are, each over so many ``cells``, all alike.
    ``one_scale``: input and output must have the same.
    """

    formula: str
    numbers: Callable[[Scale, int, Arithmetic], Pair]
    levels: Callable[[Int64, int, Pair, str], Int64]
    one_scale: bool = False


@dataclass(frozen=True)
class Slopes:
    """Numbers of a LeakyRelu (one slope) or PRelu (one for each entry of the last axis).

    ``above`` is the pair for levels x >= 0; below zero x is multiplied by its ``codes``, then
    requantized by ``below``, one pair or one for each; a negative multiplier turns the sign of
    what its size gives.
    """

    above: Pair
    below: Pairs
    codes: Sequence[int]


@dataclass(frozen=True)
class SlopeForm:
    """``numbers(op, x_scale, y_scale, slopes, slope_scale, target)``.

    ``op`` is LeakyRelu or PRelu. The real slopes are ``slopes * slope_scale``: stored integers
    less their zero point, or real numbers with scale 1; a LeakyRelu has slopes [1] and its
    alpha as their scale. Raises ScaleError for what the target cannot express.
    """

    formula: str
    numbers: Callable[[str, float, float, Sequence[float], float, Arithmetic], Slopes]


def _one_shift(a: float, b: float, y: float, target: Arithmetic) -> Pairs:
    real = [Fraction(each) / Fraction(y) for each in (a, b)]
    larger, shift = target.elementwise_multiplier(max(real))
    smaller = min(round(min(real) * Fraction(2) ** shift), larger)
    return [(larger if each == max(real) else smaller, shift) for each in real]


def _sum_rounded(a: Int64, b: Int64, pairs: Pairs, rounding: str, sign: int) -> Int64:
    (a_multiplier, shift), (b_multiplier, _) = pairs
    return requantize(a * a_multiplier + sign * b * b_multiplier, 1, shift, rounding)


def _tflite_scales(a: float, b: float, y: float, target: Arithmetic, left: int) -> Pairs:
    twice = 2 * max(a, b)
    scales = a / twice, b / twice, twice / ((1 << left) * y)
    return [target.elementwise_multiplier(each) for each in scales]


def _lifted(a: Int64, b: Int64, pairs: Pairs, rounding: str, sign: int, left: int) -> Int64:
    *operands, y_pair = pairs
    total = _operands_rounded(a << left, b << left, operands, rounding, sign)
    return requantize(total, *y_pair, rounding)


def _shifted_by(left: int) -> AddForm:
    return AddForm(
        f"a << {left} and b << {left} are requantized by s_a / t and s_b / t, t = 2 * "
        f"max(s_a, s_b); their sum by t / (2**{left} * s_y): three roundings",
        partial(_tflite_scales, left=left),
        partial(_lifted, left=left),
    )


def _each_scale(a: float, b: float, y: float, target: Arithmetic) -> Pairs:
    return [target.elementwise_multiplier(each / y) for each in (a, b)]


def _operands_rounded(a: Int64, b: Int64, pairs: Pairs, rounding: str, sign: int) -> Int64:
    return requantize(a, *pairs[0], rounding) + sign * requantize(b, *pairs[1], rounding)


ADD_FORMS: Mapping[str, AddForm] = MappingProxyType(
    {
        "one_rounding": AddForm(
            "a * multiplier_a + b * multiplier_b, both at one shift, rounded once",
            _one_shift,
            _sum_rounded,
        ),
        "shift_20": _shifted_by(20),
        "shift_15": _shifted_by(15),
        "operands_rounded": AddForm(
            "a and b are requantized by s_a / s_y and s_b / s_y, then added: two roundings",
            _each_scale,
            _operands_rounded,
        ),
    }
)


LEFT_SHIFTS: Mapping[str, int] = MappingProxyType(
    {"shift_20": 20, "shift_15": 15, "operands_rounded": 0}
)
"""How far operands are shifted to the left before each is requantized, by form."""


def _average_scale(scale: Scale, cells: int, target: Arithmetic) -> Pair:
    return target.elementwise_multiplier(scale / cells)


def _average_requantized(sums: Int64, _cells: int, pair: Pair, rounding: str) -> Int64:
    return requantize(sums, *pair, rounding)


def _check_alike(ratio: Scale) -> None:
    if ratio != 1:
        raise ScaleError(
            f"this form needs one scale for input and output, got {float(ratio):.6g} times it"
        )


def _no_scale(scale: Scale, _cells: int, _target: Arithmetic) -> Pair:
    _check_alike(scale)
    return 1, 0


def _divided(sums: Int64, cells: int, _pair: Pair, _rounding: str) -> Int64:
    return np.asarray(np.sign(sums) * ((np.abs(sums) + cells // 2) // cells), np.int64)


def reciprocal_scale(cells: int) -> Pair:
    """TOSA's multiplier and shift for 1 / cells, cells > 0."""
    places = (cells - 1).bit_length()
    return (((1 << 30) + 1) << places) // cells, 30 + places


def _reciprocal(scale: Scale, cells: int, _target: Arithmetic) -> Pair:
    _check_alike(scale)
    return reciprocal_scale(cells)


def _times_reciprocal(sums: Int64, _cells: int, pair: Pair, _rounding: str) -> Int64:
    return requantize(sums, *pair, "half_up")


POOL_FORMS: Mapping[str, PoolForm] = MappingProxyType(
    {
        "requantized": PoolForm(
            "the sum, requantized by s_x / (s_y * cells)", _average_scale, _average_requantized
        ),
        "divided": PoolForm(
            "the sum of codes, zero points left in, divided by its cells, ties away from zero;"
            " input and output of one scale",
            _no_scale,
            _divided,
            one_scale=True,
        ),
        "reciprocal": PoolForm(
            "the sum * (((2**30 + 1) << k) // cells) / 2**(30 + k), k = ceil(log2(cells)); "
            "ties up, input and output of one scale",
            _reciprocal,
            _times_reciprocal,
            one_scale=True,
        ),
    }
)


def _mean_scale(scale: Scale, cells: int, target: Arithmetic) -> Pair:
    return target.scale_to_multiplier(scale / cells)


def _folded(scale: Scale, cells: int, target: Arithmetic) -> Pair:
    multiplier, shift = target.scale_to_multiplier(scale)
    leading = 64 - cells.bit_length()
    places = min(63 - leading, 32, 31 + (31 - shift))
    return (multiplier << places) // cells, shift + places


MEAN_FORMS: Mapping[str, PoolForm] = MappingProxyType(
    {
        "requantized": PoolForm(
            "the sum, requantized by s_x / (s_y * cells)", _mean_scale, _average_requantized
        ),
        "folded": PoolForm(
            "multiplier and shift of s_x / s_y; k = min(floor(log2(cells)), 32, 62 - shift); "
            "the sum, requantized by (multiplier << k) // cells and shift + k",
            _folded,
            _average_requantized,
        ),
    }
)


def sloped(x: Int64, numbers: Slopes, rounding: str) -> Int64:
    """LeakyRelu or PRelu of levels x, in each form."""
    multiplier, shift = np.transpose(numbers.below)
    products = np.minimum(x, 0) * np.asarray(numbers.codes)
    below = np.sign(multiplier) * requantize(products, np.abs(multiplier), shift, rounding)
    return np.where(x < 0, below, requantize(np.maximum(x, 0), *numbers.above, rounding))


def _signed(scale: Scale, target: Arithmetic) -> Pair:
    multiplier, shift = target.elementwise_multiplier(-scale if scale < 0 else scale)
    return (-multiplier if scale < 0 else multiplier), shift


def _multipliers(
    op: str,
    x: float,
    y: float,
    slopes: Sequence[float],
    slope_scale: float,
    target: Arithmetic,
) -> Slopes:
    real = [target.real_scale(op, (x, slope_scale * each), y) for each in slopes]
    above = target.elementwise_multiplier(target.real_scale(op, (x,), y))
    return Slopes(above, [_signed(each, target) for each in real], [1] * len(slopes))


def _quantized(
    op: str,
    x: float,
    y: float,
    slopes: Sequence[float],
    slope_scale: float,
    target: Arithmetic,
) -> Slopes:
    below = [_signed(target.real_scale(op, (x, slope_scale), y), target)]
    above = target.elementwise_multiplier(target.real_scale(op, (x,), y))
    return Slopes(above, below, [int(each) for each in slopes])


def _common_shift(
    _op: str,
    x: float,
    y: float,
    slopes: Sequence[float],
    slope_scale: float,
    target: Arithmetic,
) -> Slopes:
    _check_alike(x / y)
    if len(slopes) == 1:
        code, shift = _signed(slopes[0] * slope_scale, target)
        return Slopes((1, 0), [(1, shift)], [code])
    real = [each * slope_scale for each in slopes]
    largest = max(map(abs, real))
    if largest > 127:
        raise ScaleError(f"no 8-bit code holds the slope {largest:.6g}: 127 is the largest")
    _, shift = rshift_and_multiplier(largest, 7, 62)
    return Slopes((1, 0), [(1, shift)], [math.trunc(each * 2.0**shift) for each in real])


SLOPE_FORMS: Mapping[str, SlopeForm] = MappingProxyType(
    {
        "multipliers": SlopeForm(
            "x requantized by s_x / s_y where x >= 0, else by s_x * slope / s_y, a multiplier "
            "for each slope",
            _multipliers,
        ),
        "quantized": SlopeForm(
            "x requantized by s_x / s_y where x >= 0, else x * code by s_x * s_slope / s_y; "
            "the code of a LeakyRelu is 1 and s_slope its alpha",
            _quantized,
        ),
        "common_shift": SlopeForm(
            "x where x >= 0, input and output of one scale; else x * code / 2**r rounded, "
            "where code = trunc(slope * 2**r) and r is the first from 0 on with max |slope| * "
            "2**(r + 1) >= 127; code and r of a LeakyRelu are the 8-bit multiplier of alpha",
            _common_shift,
        ),
    }
)


@dataclass(frozen=True)
class GemmForm:
    """``levels(sums, scale, target)``: what Gemm makes of int32 sums, before zero point and
    clamp; ``scale`` is the real one of the sums.
    """

    formula: str
    source: str
    levels: Callable[[Int64, Scale, Arithmetic], Int64]


def _gemm_requantized(sums: Int64, scale: Scale, target: Arithmetic) -> Int64:
    return requantize(sums, *target.scale_to_multiplier(scale), target.rounding)


def scaled_in_double(sums: Int64, scale: float | NDArray[np.float64]) -> Int64:
    """Sums times their scale in double, the nearest integers, ties away from zero."""
    products = np.abs(sums.astype(np.float64) * scale)
    whole = np.floor(products)
    return np.asarray(np.sign(sums) * (whole + (products - whole >= 1 / 2)), np.int64)


def _gemm_scaled(sums: Int64, scale: Scale, _target: Arithmetic) -> Int64:
    return scaled_in_double(sums, float(scale))


GEMM_FORMS: Mapping[str, GemmForm] = MappingProxyType(
    {
        "requantized": GemmForm(
            "as other products", "TFLite Micro, CMSIS-NN, TPU-MLIR, TOSA", _gemm_requantized
        ),
        "scaled": GemmForm(
            "double(sum) * double(scale), the nearest integer, ties away from zero: no "
            "multiplier of 31 bits",
            "LiteRT 2.3.0's reference FULLY_CONNECTED, told apart in its interpreter",
            _gemm_scaled,
        ),
    }
)
