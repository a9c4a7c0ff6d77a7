"""Multipliers: the named rules by which a scale becomes a multiplier and a right shift."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

import numpy as np

from opsets.errors import UsageError

Scale = Fraction | float
Pair = tuple[int, int]
"""``(multiplier, shift)``: value = accumulator * multiplier / 2**shift; shift < 0 is to the
left."""


class ScaleError(UsageError, ValueError):
    """A scale that a rule cannot express: the message says by how much."""


@dataclass(frozen=True)
class MultiplierRule:
    """``derive(scale, bits, largest_shift)`` for scales >= 0, as the ``source`` system does.

    ``bits`` are the widths it takes, without the sign; ``shifts`` the least and the largest
    total right shift. ``formula`` says all of it.
    """

    formula: str
    source: str
    bits: range
    shifts: tuple[int, int]
    derive: Callable[[Scale, int, int], Pair]


def nearest(scale: Scale, bits: int, largest_shift: int) -> Pair:
    """The nearest pair whose multiplier has ``bits`` significant bits, ties to even.

    The scale is taken exactly. Beyond ``largest_shift`` the multiplier has fewer bits, down to
    0.
    """
    top, bottom = scale.as_integer_ratio()  # in integers: ten times as fast as fractions
    if top == 0:
        return 0, largest_shift
    shift = min(bits - _exponent(top, bottom), largest_shift)
    top, bottom = top << max(shift, 0), bottom << max(-shift, 0)
    multiplier, rest = divmod(top, bottom)
    multiplier += 2 * rest + multiplier % 2 > bottom  # a tie is half to even
    if multiplier == 1 << bits:  # rounded up to the next power of two
        return multiplier >> 1, shift - 1
    return multiplier, shift


def quantize_multiplier(scale: Scale, bits: int, largest_shift: int) -> Pair:
    """TFLite's QuantizeMultiplier: f, e = frexp(scale); round_half_away(f * 2**31).

    Larger shifts than 62, e below -31, give multiplier 0. Source: TFLite,
    kernels/internal/quantization_util.cc.
    """
    multiplier, exponent = _mantissa(float(scale), bits)
    if bits - exponent > largest_shift:
        return 0, bits
    return multiplier, bits - exponent


def quantize_multiplier_single(scale: Scale, bits: int, largest_shift: int) -> Pair:
    """The same as built with TFLITE_SINGLE_ROUNDING: 2**30 becomes (2**31 - 1) / 2.

    There every larger scale becomes that too, however large: no target here takes those.
    """
    pair = quantize_multiplier(scale, bits, largest_shift)
    return ((1 << 31) - 1, 1) if pair == (1 << 30, 0) else pair


def quantize_multiplier_reduced(scale: Scale, bits: int, _largest_shift: int) -> Pair:
    """The upper 16 bits of QuantizeMultiplier, rounded half up, 2**15 - 1 at most.

    So MultiplyByQuantizedMultiplier takes an int64 accumulator: (x * reduced + 2**(s - 1)) >>
    s, s = 15 - e. Source: TFLite, kernels/internal/common.cc; CMSIS-NN, REDUCE_MULTIPLIER.
    """
    multiplier, shift = quantize_multiplier(scale, 31, 62)
    return min((multiplier + (1 << 15)) >> 16, (1 << bits) - 1), shift - 16


def tosa(scale: Scale, bits: int, largest_shift: int) -> Pair:
    """MLIR's computeMultiplierAndShift for TOSA's RESCALE: shifts beyond 62 drop low bits.

    ``bits`` is 31 (scale32) or 15 (scale16). Source: LLVM, Dialect/Tosa/Utils/QuantUtils.cpp.
    """
    multiplier, exponent = _mantissa(float(scale), bits)
    shift = bits - exponent
    if shift > largest_shift:
        return multiplier >> min(31, shift - largest_shift), largest_shift
    return multiplier, shift


def get_scale_and_shift(scale: Scale, bits: int, largest_shift: int) -> Pair:
    """TPU-MLIR's search over shifts from -32 to 30 for the least error in float32.

    The first of the best with |multiplier| < 2**bits - 1: 127 for its 8 bits, INT_MAX for its
    32. Source: TPU-MLIR, lib/Support/MathUtils.cpp, like the four that follow.
    """
    return _least_error(np.float32(scale), bits, range(-32, largest_shift + 1))


def get_scale_and_shift_positive(scale: Scale, bits: int, largest_shift: int) -> Pair:
    """The same with shifts from 0 to 30."""
    return _least_error(np.float32(scale), bits, range(largest_shift + 1))


def rshift_and_multiplier(scale: Scale, bits: int, largest_shift: int) -> Pair:
    """TPU-MLIR's getRShiftAndMultiplierFromQScale: the first shift r from 0 to 62 with
    scale * 2**(r+1) >= 2**bits - 1, multiplier = trunc(scale * 2**r); (0, 0) if there is none.
    """
    real = float(scale)
    for shift in range(largest_shift + 1):
        if real * 2.0 ** (shift + 1) >= (1 << bits) - 1:
            return int(real * 2.0**shift), shift
    return 0, 0


def dyadic(scale: Scale, bits: int, _largest_shift: int) -> Pair:
    """I-BERT's and I-ViT's batch_frexp: round_half_up(f * 2**31), which may be 2**31.

    The scale is a quotient in double. Source: I-ViT, models/quantization_utils/quant_utils.py.
    """
    fraction, exponent = math.frexp(float(scale))
    return _half_away(fraction, bits), bits - exponent


def _mantissa(real: float, bits: int) -> Pair:
    """The rounded fraction, of ``bits`` bits, and the exponent, as C++ computes them."""
    fraction, exponent = math.frexp(real)
    multiplier = _half_away(fraction, bits)
    if multiplier == 1 << bits:
        return multiplier >> 1, exponent + 1
    return multiplier, exponent


def _half_away(fraction: float, bits: int) -> int:
    """round_half_away(fraction * 2**bits) of a positive double, exactly."""
    return math.floor(Fraction(fraction) * (1 << bits) + Fraction(1, 2))


def _least_error(scale: np.float32, bits: int, shifts: range) -> Pair:
    """The multiplier is rounded in double, which holds 24 bits and a half as they are."""
    real, best, least = float(scale), (0, 0), np.finfo(np.float32).max
    for shift in shifts:
        step = 2.0**shift
        multiplier = math.floor(real * step + 0.5)
        if multiplier >= (1 << bits) - 1:
            break
        error = np.float32(abs(multiplier / step - real))
        if error < least:
            best, least = (multiplier, shift), error
    return best


def _exponent(top: int, bottom: int) -> int:
    """The e with 2**(e-1) <= top / bottom < 2**e."""
    guess = top.bit_length() - bottom.bit_length()
    return guess + (top << max(-guess, 0) >= bottom << max(guess, 0))


MULTIPLIERS: Mapping[str, MultiplierRule] = MappingProxyType(
    {
        "nearest": MultiplierRule(
            "the multiplier of so many bits, and its shift, nearest to the scale as a real "
            "number, ties to even; at the largest shift fewer bits, down to 0",
            "this project; 24 bits are a float32 mantissa",
            bits=range(1, 32),
            shifts=(1, 61),
            derive=nearest,
        ),
        "quantize_multiplier": MultiplierRule(
            "f, e = frexp(double(scale)); multiplier = round_half_away(f * 2**31); shift = "
            "31 - e; 0 where e < -31",
            "TFLite QuantizeMultiplier",
            bits=range(31, 32),
            shifts=(0, 62),
            derive=quantize_multiplier,
        ),
        "quantize_multiplier_single": MultiplierRule(
            "f, e = frexp(double(scale)); multiplier = round_half_away(f * 2**31); shift = "
            "31 - e; 0 where e < -31, (2**31 - 1) / 2 for 2**30",
            "TFLite QuantizeMultiplier with TFLITE_SINGLE_ROUNDING",
            bits=range(31, 32),
            shifts=(1, 62),
            derive=quantize_multiplier_single,
        ),
        "quantize_multiplier_reduced": MultiplierRule(
            "multiplier and shift of quantize_multiplier, of that the upper 16 bits: "
            "min((multiplier + 2**15) >> 16, 2**15 - 1), shift - 16; scales below 2**7",
            "TFLite MultiplyByQuantizedMultiplier of int64, CMSIS-NN REDUCE_MULTIPLIER",
            bits=range(15, 16),
            shifts=(8, 46),
            derive=quantize_multiplier_reduced,
        ),
        "tosa": MultiplierRule(
            "f, e = frexp(double(scale)); multiplier = round_half_away(f * 2**bits); shift = "
            "bits - e; beyond shift 62 low bits are dropped",
            "MLIR computeMultiplierAndShift",
            bits=range(15, 32, 16),
            shifts=(2, 62),
            derive=tosa,
        ),
        "get_scale_and_shift": MultiplierRule(
            "n from -32 to 30, multiplier = round_half_away(float32(scale) * 2**n) < "
            "2**bits - 1: the first with the least |multiplier / 2**n - scale| in float32",
            "TPU-MLIR get_scale_and_shift",
            bits=range(1, 32),
            shifts=(-32, 30),
            derive=get_scale_and_shift,
        ),
        "get_scale_and_shift_positive": MultiplierRule(
            "n from 0 to 30, multiplier = round_half_away(float32(scale) * 2**n) < "
            "2**bits - 1: the first with the least |multiplier / 2**n - scale| in float32",
            "TPU-MLIR get_scale_and_shift_positive",
            bits=range(1, 32),
            shifts=(0, 30),
            derive=get_scale_and_shift_positive,
        ),
        "rshift_and_multiplier": MultiplierRule(
            "the first shift r from 0 to 62 with scale * 2**(r + 1) >= 2**bits - 1; "
            "multiplier = trunc(scale * 2**r)",
            "TPU-MLIR getRShiftAndMultiplierFromQScale",
            bits=range(1, 32),
            shifts=(0, 62),
            derive=rshift_and_multiplier,
        ),
        "rshift_and_multiplier_qdm": MultiplierRule(
            "f, e = frexp(double(scale)); multiplier = round_half_away(f * 2**31); shift = "
            "31 - e; scales below 1",
            "TPU-MLIR getRShiftAndMultiplierFromQScale with qdm",
            bits=range(31, 32),
            shifts=(31, 62),
            derive=quantize_multiplier,
        ),
        "dyadic": MultiplierRule(
            "f, e = frexp(double(scale)); multiplier = round_half_up(f * 2**31), up to 2**31; "
            "shift = 31 - e",
            "I-BERT and I-ViT batch_frexp",
            bits=range(31, 32),
            shifts=(-31, 62),
            derive=dyadic,
        ),
    }
)
"""Every rule by its name in a target file."""
