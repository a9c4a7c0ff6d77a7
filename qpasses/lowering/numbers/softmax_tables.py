"""The two tables of a Softmax on stored integers, and what they are divided by."""

from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import floor

import numpy as np
from numpy.typing import NDArray

from opsets.multipliers import Pair
from opsets.qpasses_v1.table_softmax import LARGEST_NUMERATORS
from opsets.qpasses_v1.table_softmax16 import (
    FRACTION_BITS,
    LARGEST_MULTIPLIER,
)

_DIGITS = 60
"""Of the exponentials, so that every machine rounds them to the same integers."""


def largest_entry(length: int, bits: int) -> int:
    """The denominator of the largest code of a row: ``length`` of them fit ``bits`` bits."""
    return int(((1 << (bits - 1)) - 1) // length)


def softmax_tables(
    x_scale: float, y_scale: float, largest: int, itemsize: int = 1
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Denominators and numerators [256] of codes that lie 0 to 255 below those of the row.

    ``exp(-x_scale * d) * largest``, and the same divided by ``y_scale``, to the nearest
    integer: T and P of github.com/yehangyang/Activation_Function_Quantization, with the
    largest code in place of the largest of all. Numerators end at LARGEST_NUMERATORS, which
    saturates every y, of ``itemsize`` bytes, as long as the sum of a row fits 32 bits.
    """
    exponentials, most = _exponentials(x_scale), LARGEST_NUMERATORS[itemsize]
    with localcontext(Context(prec=_DIGITS)):
        real = [largest * each for each in exponentials]
        shares = [min(each / Decimal(y_scale), Decimal(most)) for each in real]
        return (
            np.array([int(each.to_integral_value()) for each in real], np.int32),
            np.array([int(each.to_integral_value()) for each in shares], np.int64),
        )


def softmax_tables16(
    x_scale: float, largest: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """``high`` and ``low`` [256] of codes that lie 0 to 65,535 below those of the row.

    ``exp(-x_scale * 256 * d) * largest`` and ``exp(-x_scale * d) * 2**FRACTION_BITS``, to the
    nearest integer: the exponential of a sum is the product of two.
    """
    with localcontext(Context(prec=_DIGITS)):
        high = [largest * each for each in _exponentials(256 * x_scale)]
        low = [(1 << FRACTION_BITS) * each for each in _exponentials(x_scale)]
        return (
            np.array([int(each.to_integral_value()) for each in high], np.int32),
            np.array([int(each.to_integral_value()) for each in low], np.int32),
        )


def share_multiplier(y_scale: float, largest: int) -> Pair | None:
    """``(multiplier, shift)`` by which shares of a row become levels: 1 / ``y_scale``.

    The nearest with as many bits as keep ``largest`` times it in double, where steps are not
    finer than that: 2**51, see TableSoftmax16. None for steps above 1, and those that no
    shift expresses.
    """
    steps = 1 / Fraction(y_scale)
    bits = min(51 - largest.bit_length(), LARGEST_MULTIPLIER.bit_length() - 1)
    shift = max(1, bits - floor(steps).bit_length())
    multiplier = round(steps * (1 << shift))
    is_expressed = steps >= 1 and multiplier <= LARGEST_MULTIPLIER
    return (multiplier, shift) if is_expressed else None


@lru_cache(maxsize=64)  # attention blocks of one scale have one table
def _exponentials(scale: float) -> tuple[Decimal, ...]:
    """exp(-scale * d) for d from 0 to 255."""
    with localcontext(Context(prec=_DIGITS)):
        return tuple((-Decimal(scale) * d).exp() for d in range(256))
