"""Models of what a runtime's kernel computes between the accumulator and the zero point.

A model is what a proof reasons about; ``qpasses verify`` runs the real kernel against it.
Every model is monotone in the accumulator, which is what the threshold proof needs.
"""

from collections.abc import Callable

import numpy as np

from opsets.fixed_point import Int64, Rounding

Kernel = Callable[..., Int64]
"""(accumulator, multiplier, shift), broadcast together -> rounded levels, int64.

Of nodes with rests of biases a fourth array, which is added to the products.
"""


def float32_kernel(accumulator: Int64, multiplier: Int64, shift: Int64) -> Int64:
    """``rint(float32(acc) * float32(multiplier * 2**-shift))``, half to even.

    What onnxruntime's QLinearConv, QLinearMatMul and QGemm compute (MlasRequantizeOutput).
    Monotone: conversion, multiplication by a positive number and rint each are.
    """
    scale = np.ldexp(multiplier.astype(np.float32), -shift.astype(np.int32))
    product = accumulator.astype(np.float32) * scale.astype(np.float32)
    return np.asarray(np.rint(product).astype(np.int64))


def _uint64_half_to_even(accumulator: Int64, multiplier: Int64, shift: Int64) -> Int64:
    return _uint64_shift(accumulator * multiplier, shift, "half_to_even")


def _uint64_half_up(accumulator: Int64, multiplier: Int64, shift: Int64) -> Int64:
    return _uint64_shift(accumulator * multiplier, shift, "half_up")


def _uint64_half_away(accumulator: Int64, multiplier: Int64, shift: Int64) -> Int64:
    return _uint64_shift(accumulator * multiplier, shift, "half_away")


PORTABLE_KERNELS: dict[Rounding, Kernel] = {
    "half_to_even": _uint64_half_to_even,
    "half_up": _uint64_half_up,
    "half_away": _uint64_half_away,
}
"""What the portable body of RoundingShift computes, step by step as its ONNX text does."""


_NONE = np.int64(0)


def rested_kernel(
    accumulator: Int64, multiplier: Int64, shift: Int64, rest: Int64 | np.int64 = _NONE
) -> Int64:
    """What the portable body computes for accumulators with a rest."""
    return _uint64_shift(accumulator * multiplier + rest, shift, "half_to_even")


def rested_double_kernel(
    accumulator: Int64, multiplier: Int64, shift: Int64, rest: Int64 | np.int64 = _NONE
) -> Int64:
    """The same in double. Monotone: each product, the sum and rint are."""
    places = -shift.astype(np.int32)
    product = accumulator.astype(np.float64) * np.ldexp(multiplier.astype(np.float64), places)
    lifted = product + np.ldexp(rest.astype(np.float64), places)
    return np.asarray(np.rint(lifted).astype(np.int64))


RESTED = rested_kernel, rested_double_kernel
"""Those that take a rest; others do without, whatever a node says."""


def two_step_kernel(last: Rounding) -> Kernel:
    """What the portable body of two roundings computes, the second as ``last`` says.

    Monotone where the left shift of the accumulator, 31 - shift, stays in int32.
    """

    def rounded(accumulator: Int64, multiplier: Int64, shift: Int64) -> Int64:
        left = np.maximum(31 - shift, 0)
        narrow = (accumulator * np.left_shift(np.int64(1), left)).astype(np.int32)
        lifted = narrow * multiplier + np.int64((1 << 62) + (1 << 30))
        step = (lifted.astype(np.uint64) >> np.uint64(31)).astype(np.int64) - (1 << 31)
        return _uint64_shift(2 * step, np.maximum(shift - 31, 0) + 1, last)

    return rounded


def _uint64_shift(value: Int64, shift: Int64, rounding: Rounding) -> Int64:
    offset = np.int64(1 << 62)
    moved = (value + offset).astype(np.uint64)
    bits = shift.astype(np.uint64)
    quotient = moved >> bits
    half = np.uint64(1) << (bits - np.uint64(1))
    remainder = moved & ((half << np.uint64(1)) - np.uint64(1))
    below = {
        "half_to_even": np.uint64(1) - (quotient & np.uint64(1)),
        "half_up": np.uint64(0),
        "half_away": (value < 0).astype(np.uint64),
    }[rounding]
    carry = (remainder + half - below) >> bits
    back = offset >> shift
    return np.asarray(quotient.astype(np.int64) + carry.astype(np.int64) - back)
