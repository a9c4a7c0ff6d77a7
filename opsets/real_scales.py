"""Real scales of many channels: exact where they are asked for, near ones all at once."""

from collections.abc import Sequence
from fractions import Fraction
from typing import overload

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64

_ERROR = 2.0**-50
"""Of a near scale, relative: three doubles are rounded on the way to it."""

_SMALL, _LARGE = 2.0**-900, 2.0**900
"""What lies beyond may have come through doubles that are not normal."""


class RealScales(Sequence[Fraction]):
    """``factor * other`` for each of ``others``: the real scale of each channel.

    ``near``: float64 [C], within 2**-50 of each, relatively; NaN where doubles do not reach.
    """

    def __init__(self, factor: Fraction, others: Sequence[float | Fraction]) -> None:
        self._factor, self.others = factor, others
        rounded = _double(factor)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            near = rounded * np.asarray(others, np.float64)
        is_normal = (near > _SMALL) & (near < _LARGE) & (_SMALL < rounded < _LARGE)
        self.near: NDArray[np.float64] = np.where(is_normal, near, np.nan)

    def of(self, channels: Sequence[int]) -> "RealScales":
        """Those of ``channels``."""
        return RealScales(self._factor, [self.others[channel] for channel in channels])

    def __len__(self) -> int:
        return len(self.others)

    @overload
    def __getitem__(self, index: int) -> Fraction: ...
    @overload
    def __getitem__(self, index: slice) -> list[Fraction]: ...
    def __getitem__(self, index: int | slice) -> Fraction | list[Fraction]:
        if isinstance(index, slice):
            return [self._factor * Fraction(other) for other in self.others[index]]
        return self._factor * Fraction(self.others[index])


def near_scales(scales: Sequence[Fraction]) -> NDArray[np.float64]:
    """[C]: the scales as doubles, within 2**-50 of each; NaN where one is not that near."""
    if isinstance(scales, RealScales):
        return scales.near
    return np.array([_double(scale) for scale in scales], np.float64)


def _double(exact: Fraction) -> float:
    """The nearest double, NaN beyond the largest."""
    try:
        return float(exact)
    except OverflowError:
        return np.nan


def nearest_of(
    near: NDArray[np.float64], bits: int, largest_shift: int
) -> tuple[Int64, Int64, NDArray[np.bool_]]:
    """``multipliers.nearest`` of near scales: multipliers, shifts, and which of them are told.

    A double does not tell where the scale may lie halfway between two multipliers or at a
    power of two, nor where the shift leaves [2, ``largest_shift``].
    """
    mantissa, exponent = np.frexp(near)
    shift, scaled = bits - exponent.astype(np.int64), np.ldexp(mantissa, bits)
    whole, blur = np.rint(scaled), 2.0**bits * _ERROR
    told = (shift >= 2) & (shift <= largest_shift)
    told &= np.abs(np.abs(scaled - whole) - 0.5) > blur
    told &= (scaled > 2.0 ** (bits - 1) + blur) & (whole < 2.0**bits)
    return np.where(told, whole, 0).astype(np.int64), shift, told
