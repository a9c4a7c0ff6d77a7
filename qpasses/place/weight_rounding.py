"""Rounding of weights: to the nearest code, or so that sums of weights are kept.

Errors are whole numbers of 2**-30 of a code, so that their sums have no rounding of their own.
"""

from collections.abc import Callable, Mapping
from math import prod
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64
from qpasses.ir.choices import WeightRounding

_BITS = 30
_ONE, _HALF = 1 << _BITS, 1 << (_BITS - 1)

_Rounder = Callable[[NDArray[np.float64], Int64, int, int], None]


def settle(
    quotients: NDArray[np.float64], codes: Int64, ends: tuple[int, int], how: WeightRounding
) -> Int64:
    """Codes [channels, ...] of the weights ``quotients``, of which ``codes`` are the nearest.

    ``quotients``: weights over their scales, of a Conv [channels, inputs, *kernel], of a
    matrix [channels, inputs]. No code leaves ``ends``.
    """
    kernels = quotients.reshape(*quotients.shape[:2], prod(quotients.shape[2:]))
    settled = codes.reshape(kernels.shape).copy()
    _ROUNDERS[how](kernels, settled, *ends)
    return settled.reshape(codes.shape)


def _nearest(_quotients: NDArray[np.float64], _codes: Int64, _low: int, _high: int) -> None:
    pass


def _sum_preserving(quotients: NDArray[np.float64], codes: Int64, low: int, high: int) -> None:
    """Step back what each kernel, then each channel, has too much in sum, one code at most.

    A kernel's sum of errors becomes half a code at most, by the elements that were rounded
    farthest in its direction; then that of a channel, by one element in each of the kernels
    whose sum points most that way. Of equal ones the first go. (SQuant, Guo et al. 2022, has
    these two stages.)
    """
    errors = np.rint(np.ldexp(codes - quotients, _BITS)).astype(np.int64)
    flat = errors.reshape(-1, errors.shape[2])
    sums = flat.sum(axis=1)
    allowed = _allowed(codes, np.sign(sums).reshape(errors.shape[:2]), low, high)
    back = _largest(flat * np.sign(sums)[:, None], allowed.reshape(flat.shape), _steps(sums))
    _step_back(
        codes, errors, back.reshape(codes.shape), np.sign(sums).reshape(codes.shape[:2])
    )

    sums = errors.sum(axis=(1, 2))
    side = np.repeat(np.sign(sums)[:, None], codes.shape[1], axis=1)
    towards = errors * side[:, :, None]
    allowed = _allowed(codes, side, low, high) & (towards > 0)
    best = np.where(allowed, towards, -_ONE).argmax(axis=2)[:, :, None]
    is_best = np.arange(codes.shape[2]) == best
    kernels = _largest(towards.sum(axis=2), allowed.any(axis=2), _steps(sums))
    _step_back(codes, errors, is_best & kernels[:, :, None], side)


def _steps(sums: Int64) -> Int64:
    """How many whole codes are nearest to ``sums``, of two the fewer."""
    return np.asarray((np.abs(sums) + _HALF - 1) >> _BITS)


def _allowed(codes: Int64, side: Int64, low: int, high: int) -> NDArray[np.bool_]:
    """Which codes can go a step against the side of their kernel."""
    moved = codes - side[:, :, None]
    return np.asarray((moved >= low) & (moved <= high))


def _largest(keys: Int64, allowed: NDArray[np.bool_], counts: Int64) -> NDArray[np.bool_]:
    """In each row of ``keys`` so many of the largest as ``counts`` says, all ``allowed``."""
    lowest = np.iinfo(np.int64).min
    order = np.argsort(-np.where(allowed, keys, lowest + 1), axis=1, kind="stable")
    found = np.zeros(keys.shape, bool)
    np.put_along_axis(found, order, np.arange(keys.shape[1]) < counts[:, None], axis=1)
    return found & allowed


def _step_back(codes: Int64, errors: Int64, chosen: NDArray[np.bool_], side: Int64) -> None:
    steps = chosen * side[:, :, None]
    codes -= steps
    errors -= steps * _ONE


_ROUNDERS: Mapping[WeightRounding, _Rounder] = MappingProxyType(
    {"nearest": _nearest, "sum-preserving": _sum_preserving, "second-order": _nearest}
)
"""By name, what changes the nearest codes of weights in place."""
