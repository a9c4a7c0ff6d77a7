"""Codes of weights that keep the sums of kernels and of output channels, without samples.

SQuant (Guo et al. 2022) has these two stages. Errors are whole numbers of 2**-30 of a code, so
that their sums have no rounding of their own.
"""

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64

_BITS = 30
_ONE, _HALF = 1 << _BITS, 1 << (_BITS - 1)


def keep_sums(quotients: NDArray[np.float64], nearest: Int64, ends: tuple[int, int]) -> Int64:
    """Codes [channels, inputs, taps] of weights over their scales, from the ``nearest`` ones.

    What each kernel, then each channel, has too much in sum is stepped back, one code at
    most: a kernel's sum of errors becomes half a code at most, by the elements that were
    rounded farthest in its direction; then that of a channel, by one element in each of the
    kernels whose sum points most that way. Of equal ones the first go, none beyond ``ends``.
    """
    codes = nearest.copy()
    errors = np.rint(np.ldexp(codes - quotients, _BITS)).astype(np.int64)
    if codes.shape[2] > 1:  # a kernel of one is off by half a code at most
        excess = errors.sum(axis=2)
        side = np.sign(excess)
        farthest = (errors * side[:, :, None]).reshape(-1, codes.shape[2])
        allowed = _allowed(codes, side, ends).reshape(farthest.shape)
        back = _largest(farthest, allowed, _steps(excess.reshape(-1)))
        _step_back(codes, errors, back.reshape(codes.shape), side)

    excess = errors.sum(axis=(1, 2))
    side = np.repeat(np.sign(excess)[:, None], codes.shape[1], axis=1)
    towards = errors * side[:, :, None]
    allowed = _allowed(codes, side, ends) & (towards > 0)
    best = np.where(allowed, towards, -_ONE).argmax(axis=2)[:, :, None]
    kernels = _largest(towards.sum(axis=2), allowed.any(axis=2), _steps(excess))
    is_best = np.arange(codes.shape[2]) == best
    _step_back(codes, errors, is_best & kernels[:, :, None], side)
    return codes


def _steps(excess: Int64) -> Int64:
    """How many whole codes are nearest to ``excess``, of two numbers the smaller."""
    return np.asarray((np.abs(excess) + _HALF - 1) >> _BITS)


def _allowed(codes: Int64, side: Int64, ends: tuple[int, int]) -> NDArray[np.bool_]:
    """Which codes can go a step against the side of their kernel."""
    moved = codes - side[:, :, None]
    return np.asarray((moved >= ends[0]) & (moved <= ends[1]))


def _largest(keys: Int64, allowed: NDArray[np.bool_], counts: Int64) -> NDArray[np.bool_]:
    """In each row of ``keys`` so many of the largest as ``counts`` says, all ``allowed``."""
    lowest = np.iinfo(np.int64).min + 1
    order = np.argsort(-np.where(allowed, keys, lowest), axis=1, kind="stable")
    found = np.zeros(keys.shape, bool)
    np.put_along_axis(found, order, np.arange(keys.shape[1]) < counts[:, None], axis=1)
    return found & allowed


def _step_back(codes: Int64, errors: Int64, chosen: NDArray[np.bool_], side: Int64) -> None:
    steps = chosen * side[:, :, None]
    codes -= steps
    errors -= steps * _ONE
