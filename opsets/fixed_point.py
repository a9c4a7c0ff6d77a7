"""Fixed-point arithmetic on exact integers: the meaning of every scale in the graph."""

from fractions import Fraction
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opsets.multipliers import nearest

Int64 = NDArray[np.int64]
Rounding = Literal["half_to_even", "half_up", "half_away"]
ROUNDINGS: tuple[Rounding, ...] = get_args(Rounding)

LARGEST_SHIFT = 61  # 2**62 stays an even multiple of 2**shift: the portable shift needs that


def saturating_multiplier(scale: Fraction | float, bits: int) -> tuple[int, int]:
    """Return ``(multiplier, shift)`` with ``multiplier * 2**-shift`` nearest to ``scale``.

    ``scale`` is a real number >= 0; ``multiplier`` has ``bits`` significant bits (ties to
    even), ``shift`` is the total right shift in [1, 61]. ``Target.scale_to_multiplier``
    refuses what its shifts do not reach; here, at the ends of that range:

    - scales below ``2**(bits - 62)`` keep fewer bits, down to multiplier 0;
    - scales of ``2**(bits - 2)`` and above become that power of two: from 10 bits on, every
      nonzero accumulator saturates an eight-bit output either way.

    Raises ValueError if ``scale`` is negative, infinite or not a number.
    """
    exact = _fraction(scale)
    if exact < 0:
        raise ValueError(f"a scale is never negative, got {float(exact)!r}")
    if exact >= Fraction(2) ** (bits - 2):
        return 1 << (bits - 1), 1
    return nearest(exact, bits, LARGEST_SHIFT)


def rounding_shift(value: ArrayLike, shift: ArrayLike, rounding: Rounding) -> Int64:
    """Divide integers by ``2**shift`` (shift in [0, 62]) and round the quotient as named.

    ``value`` and ``shift`` are int64 and broadcast; ``|value| < 2**63``.
    """
    stored, places = np.asarray(value, np.int64), np.asarray(shift, np.int64)
    quotient = stored >> places  # floor, ten times as fast as a division
    remainder = stored - (quotient << places)
    divisor = np.left_shift(np.int64(1), places)
    return _rounded(stored, quotient, remainder, divisor, rounding)


def rounding_divide(value: ArrayLike, divisor: ArrayLike, rounding: Rounding) -> Int64:
    """Divide integers by positive ones and round the quotient as named.

    ``value`` and ``divisor`` are int64 and broadcast.
    """
    stored, divisor = np.asarray(value, np.int64), np.asarray(divisor, np.int64)
    quotient, remainder = np.divmod(stored, divisor)
    return _rounded(stored, quotient, remainder, divisor, rounding)


def _rounded(
    stored: Int64, quotient: Int64, remainder: Int64, divisor: Int64, rounding: Rounding
) -> Int64:
    """``quotient``, a floor, or the next one: 0 <= ``remainder`` < ``divisor``."""
    beyond_half = remainder - (divisor - remainder)
    if rounding == "half_up":
        return np.asarray(quotient + (beyond_half >= 0), np.int64)
    ties_up = quotient & 1 == 1 if rounding == "half_to_even" else stored >= 0
    up = (beyond_half > 0) | ((beyond_half == 0) & ties_up)
    return np.asarray(quotient + up, np.int64)


def saturate(
    real_levels: Int64, y_zero: ArrayLike, y_min: ArrayLike, y_max: ArrayLike
) -> Int64:
    """Add the zero point and clamp to [y_min, y_max]: the last step of every op."""
    low, high = (np.asarray(bound, np.int64) for bound in (y_min, y_max))
    return np.asarray(np.clip(real_levels + np.asarray(y_zero, np.int64), low, high), np.int64)


def _fraction(scale: Fraction | float) -> Fraction:
    try:
        return Fraction(scale)
    except (OverflowError, ValueError) as error:
        raise ValueError(f"a scale is a finite number, got {scale!r}") from error
