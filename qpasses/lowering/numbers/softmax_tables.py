"""The two tables of a Softmax on stored integers."""

from decimal import Context, Decimal, localcontext
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from opsets.qpasses_v1.table_softmax import LARGEST_NUMERATORS

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


@lru_cache(maxsize=64)  # attention blocks of one scale have one table
def _exponentials(scale: float) -> tuple[Decimal, ...]:
    """exp(-scale * d) for d from 0 to 255."""
    with localcontext(Context(prec=_DIGITS)):
        return tuple((-Decimal(scale) * d).exp() for d in range(256))
