"""Roundings: the named rules by which an accumulator becomes a level, on exact integers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opsets.errors import UsageError
from opsets.fixed_point import LARGEST_SHIFT, ROUNDINGS, Int64, Rounding, rounding_shift
from opsets.kernels import float32_kernel

INT32_MAX = (1 << 31) - 1
NodeRounding = Literal[Rounding, "tflite_double", "ruy"]
LAST_STEP: Mapping[NodeRounding, Rounding] = MappingProxyType(
    {"tflite_double": "half_away", "ruy": "half_up"}
)
"""How the second of two roundings rounds."""

NODE_ROUNDINGS: Sequence[NodeRounding] = (*ROUNDINGS, *LAST_STEP)
"""What nodes with a multiplier and a shift may have as their attribute ``rounding``."""


def node_shifts(rounding: NodeRounding) -> range:
    """The shifts that a node may have, which its portable body takes.

    Half to even the body adds an even multiple of 2**shift, which 2**62 has to be.
    """
    if rounding in LAST_STEP:
        return range(63)
    return range(1, LARGEST_SHIFT + 1 if rounding == "half_to_even" else 63)


@dataclass(frozen=True)
class RoundingRule:
    """``levels(accumulator, multiplier, shift)``: int64 arrays that broadcast together.

    ``shift`` is the total right shift, negative to the left. ``formula`` is what is computed,
    ``source`` who computes it so. ``int32``: the accumulator is one, and its left shift wraps.
    """

    formula: str
    source: str
    levels: Callable[[Int64, Int64, Int64], Int64]
    int32: bool = False


def requantize(
    accumulator: ArrayLike,
    multiplier: ArrayLike,
    shift: ArrayLike,
    rounding: str,
    rest: ArrayLike | None = None,
) -> Int64:
    """``(accumulator * multiplier + rest) / 2**shift`` rounded as the rule says, before zero
    point and clamp.

    Integers that broadcast together; ``shift`` is from -62 to 62, ``rest`` is for rules that
    round once. Raises UsageError for an unknown rule, for what is no integer, for results
    that int64 does not hold, and for accumulators beyond int32 where the rule has a step of 32
    bits.
    """
    if rest is not None:
        product = np.asarray(accumulator, np.int64) * np.asarray(multiplier, np.int64)
        return requantize(product + np.asarray(rest, np.int64), 1, shift, rounding)
    if rounding not in ROUNDING_RULES:
        known = ", ".join(ROUNDING_RULES)
        raise UsageError(f"unknown rounding {rounding!r}: use one of {known}")
    rule = ROUNDING_RULES[rounding]
    acc = _integers("accumulator", accumulator, 1 << (31 if rule.int32 else 63))
    m, s = _integers("multiplier", multiplier, 1 << 31), _integers("shift", shift, 62)
    largest = _size(acc) * _size(m) << max(-int(s.min(initial=0)), 0)
    if largest >= 1 << 63 and not rule.int32:
        raise UsageError(f"requantize: products up to {largest} do not fit 64 bits")
    return np.asarray(rule.levels(acc, m, s), np.int64)


def wraps(accumulator: ArrayLike, shift: ArrayLike, rounding: str) -> NDArray[np.bool_]:
    """Where the rule shifts an accumulator to the left beyond int32, so that its result is not
    near to the product; elsewhere each rule is monotone for a multiplier that is not negative.
    """
    acc, places = np.asarray(accumulator, np.int64), np.asarray(shift, np.int64)
    if not ROUNDING_RULES[rounding].int32:
        return np.zeros(np.broadcast_shapes(acc.shape, places.shape), bool)
    return np.asarray((acc >> np.clip(places, 0, 31)) != (acc >> 63))


def right_shift(value: ArrayLike, shift: ArrayLike, mode: str) -> Int64:
    """``value / 2**shift`` rounded once; shift from -62 to 62, to the left nothing is lost.

    ``mode`` is a key of ``SHIFT_MODES``.
    """
    stored, places = (np.asarray(each, np.int64) for each in (value, shift))
    shifted = np.left_shift(stored, np.maximum(-places, 0))
    return np.asarray(SHIFT_MODES[mode](shifted, np.maximum(places, 0)), np.int64)


def doubling_high_multiply(a: ArrayLike, b: ArrayLike) -> Int64:
    """gemmlowp's SaturatingRoundingDoublingHighMul of int32: floor((a b + 2**30) / 2**31).

    Ties go up, of negatives too; the one result beyond int32 saturates.
    """
    product = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    return np.asarray(np.minimum((product + (1 << 30)) >> 31, INT32_MAX), np.int64)


def _rest(value: Int64, shift: Int64) -> Int64:
    return np.asarray(value & (np.left_shift(np.int64(1), shift) - 1), np.int64)


def _half_down(value: Int64, shift: Int64) -> Int64:
    return np.asarray(-rounding_shift(-value, shift, "half_up"))


def _toward_zero(value: Int64, shift: Int64) -> Int64:
    return np.asarray((value >> shift) + ((value < 0) & (_rest(value, shift) > 0)))


def _up(value: Int64, shift: Int64) -> Int64:
    return np.asarray((value >> shift) + (_rest(value, shift) > 0))


def _down(value: Int64, shift: Int64) -> Int64:
    return np.asarray(value >> shift)


SHIFT_MODES: Mapping[str, Callable[[Int64, Int64], Int64]] = MappingProxyType(
    {
        "half_to_even": partial(rounding_shift, rounding="half_to_even"),
        "half_up": partial(rounding_shift, rounding="half_up"),
        "half_away": partial(rounding_shift, rounding="half_away"),
        "half_down": _half_down,
        "toward_zero": _toward_zero,
        "up": _up,
        "down": _down,
    }
)
"""One rounding of a quotient by a power of two: TPU-MLIR's RightShiftRound.

Its modes half-to-odd and half-toward-zero are not among them: it computes them as down.
"""


def _one_rounding(acc: Int64, multiplier: Int64, shift: Int64, mode: str) -> Int64:
    return right_shift(acc * multiplier, shift, mode)


def _two_roundings(acc: Int64, multiplier: Int64, shift: Int64, mode: str) -> Int64:
    moved = np.left_shift(acc, np.maximum(31 - shift, 0))
    wrapped = ((moved + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)
    return right_shift(
        doubling_high_multiply(wrapped, multiplier), np.maximum(shift - 31, 0), mode
    )


def _in_double(acc: Int64, multiplier: Int64, shift: Int64) -> Int64:
    product = acc.astype(np.float64) * multiplier.astype(np.float64)
    return np.rint(np.ldexp(product, -shift.astype(np.int32))).astype(np.int64)


def _once(mode: str, quotient: str, source: str) -> RoundingRule:
    formula = f"accumulator * multiplier / 2**shift: {quotient}"
    return RoundingRule(formula, source, partial(_one_rounding, mode=mode))


def _twice(mode: str, quotient: str, source: str) -> RoundingRule:
    formula = (
        "x = accumulator << max(31 - shift, 0), wrapped to int32; high = floor((x * multiplier"
        f" + 2**30) / 2**31), ties up; then high / 2**max(shift - 31, 0): {quotient}"
    )
    return RoundingRule(formula, source, partial(_two_roundings, mode=mode), int32=True)


ROUNDING_RULES: Mapping[str, RoundingRule] = MappingProxyType(
    {
        "half_to_even": _once("half_to_even", "the nearest, ties to even", "ONNX"),
        "half_up": _once(
            "half_up",
            "the nearest, ties up",
            "TFLITE_SINGLE_ROUNDING, TOSA SINGLE_ROUND, XNNPACK rndnu, TPU-MLIR on BM1684X",
        ),
        "half_away": _once("half_away", "the nearest, ties away from zero", "XNNPACK rndna"),
        "half_down": _once("half_down", "the nearest, ties down", "TPU-MLIR HalfDown"),
        "toward_zero": _once("toward_zero", "toward zero", "TPU-MLIR TowardsZero"),
        "up": _once("up", "up", "TPU-MLIR Up"),
        "down": _once("down", "down", "TPU-MLIR Down"),
        "tflite_double": _twice(
            "half_away",
            "the nearest, ties away from zero",
            "TFLite's reference kernels, TFLite Micro, CMSIS-NN, TOSA DOUBLE_ROUND",
        ),
        "ruy": _twice(
            "half_up", "the nearest, ties up", "TFLite's optimized kernels on x86, by ruy"
        ),
        "half_to_even_in_float32": RoundingRule(
            "float32(accumulator) * float32(multiplier / 2**shift), a product in float32; the "
            "nearest, ties to even",
            "onnxruntime, XNNPACK fp32, TOSA INEXACT_ROUND",
            float32_kernel,
        ),
        "half_to_even_in_double": RoundingRule(
            "double(accumulator) * double(multiplier) / 2**shift, a product in double; the "
            "nearest, ties to even",
            "I-ViT QuantAct",
            _in_double,
        ),
    }
)
"""Every rule by its name in a target file."""


def _integers(name: str, given: ArrayLike, most: int) -> Int64:
    """Given integers as int64. Raises UsageError for others, and beyond ``most``."""
    array = np.asarray(given)
    if array.dtype.kind not in "iu":
        raise UsageError(f"requantize: {name} must be integers, got {array.dtype}")
    low, high = int(array.min(initial=0)), int(array.max(initial=0))
    if low < -most or high > most - (name == "accumulator"):
        raise UsageError(
            f"requantize: {name} must be from {-most} to {most}, got {low} to {high}"
        )
    return array.astype(np.int64)


def _size(array: Int64) -> int:
    return max(int(array.max(initial=0)), -int(array.min(initial=0)))
