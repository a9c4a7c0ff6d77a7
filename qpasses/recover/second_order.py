"""Codes of weights such that the error of products is least, not that of each weight.

Of inputs with second moments H the error of a row is (w - q) H (w - q)^T. Codes are chosen one
after the other, those of the largest inputs first, and what is lost is made up for by those
that are still to choose (GPTQ, Frantar et al. 2023); then each is moved to where the error is
least while the others stay, three times over. Everything is in steps of a code. A row whose
error this does not lower keeps the nearest codes.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64

Floats = NDArray[np.float64]

REACH = 2
"""No code is farther from its weight."""

_DAMPING = 0.01
"""So much of the mean moment is added to each: what samples do not show counts little."""

_SWEEPS = 3

_AT_ONCE = 32 << 20
"""Rows of so many bytes are computed at once."""

_BLOCK = 64
"""So many columns are computed with before the others hear of it."""


def least_error(quotients: Floats, moments: Floats, ends: tuple[int, int]) -> Int64:
    """[groups, rows, n] codes for weights over their scales, of ``moments`` [groups, n, n].

    No code leaves ``ends``, and none is ``REACH`` or more from its weight but for what is
    clipped.
    """
    damped = _damped(moments)
    order = np.argsort(-_diagonal(damped), axis=1, kind="stable")
    columns, each_group = order[:, None, :], np.arange(len(order))[:, None, None]
    damped = damped[each_group, order[:, :, None], columns]
    factor = _inverse_factor(damped)
    made = np.empty(quotients.shape, np.int64)
    many = max(_AT_ONCE // quotients[:, :1].nbytes, 1)
    for start in range(0, quotients.shape[1], many):
        part = slice(start, start + many)
        real = np.take_along_axis(quotients[:, part], columns, axis=2)
        codes = _least(real, damped, factor, ends).astype(np.int64)
        np.put_along_axis(made[:, part], np.broadcast_to(columns, codes.shape), codes, axis=2)
    return made


def _least(real: Floats, moments: Floats, factor: Floats, ends: tuple[int, int]) -> Floats:
    """Codes of some rows, the largest inputs first."""
    nearest = np.clip(np.rint(real), *ends)
    low = np.minimum(np.maximum(np.floor(real - REACH) + 1, ends[0]), nearest)
    high = np.maximum(np.minimum(np.ceil(real + REACH) - 1, ends[1]), nearest)
    chosen = _one_by_one(real, factor, low, high)
    _descend(real, chosen, moments, low, high)
    is_better = _error(real - chosen, moments) < _error(real - nearest, moments)
    return np.where(is_better[:, :, None], chosen, nearest)


def _damped(moments: Floats) -> Floats:
    """``moments`` that can be inverted, also where no sample has shown anything."""
    mean = _diagonal(moments).mean(axis=1)
    damped, places = moments.copy(), np.arange(moments.shape[1])
    damped[:, places, places] += np.where(mean > 0, _DAMPING * mean, 1.0)[:, None]
    return damped


def _diagonal(matrices: Floats) -> Floats:
    return np.diagonal(matrices, axis1=1, axis2=2)


def _error(lost: Floats, moments: Floats) -> Floats:
    """[groups, rows]: the mean square of what products lose."""
    return np.asarray(((lost @ moments) * lost).sum(axis=2))


def _blocks(size: int) -> Iterator[slice]:
    for start in range(0, size, _BLOCK):
        yield slice(start, min(start + _BLOCK, size))


def _one_by_one(real: Floats, factor: Floats, low: Floats, high: Floats) -> Floats:
    """Each column rounded, its error over those that follow as ``factor`` says."""
    left, codes = real.copy(), np.empty_like(real)
    for block in _blocks(real.shape[2]):
        lost = np.empty_like(left[:, :, block])
        for place, column in enumerate(range(block.start, block.stop)):
            chosen = np.clip(
                np.rint(left[:, :, column]), low[:, :, column], high[:, :, column]
            )
            error = (left[:, :, column] - chosen) / factor[:, column, column, None]
            rest = slice(column + 1, block.stop)
            left[:, :, rest] -= error[:, :, None] * factor[:, None, column, rest]
            codes[:, :, column], lost[:, :, place] = chosen, error
        left[:, :, block.stop :] -= lost @ factor[:, block, block.stop :]
    return codes


def _inverse_factor(moments: Floats) -> Floats:
    """Upper triangular U [groups, n, n] with U^T U = ``moments``^-1.

    Of the rows and columns from the last to the first, a factor is the inverse of U.
    """
    turned = np.linalg.cholesky(moments[:, ::-1, ::-1])[:, ::-1, ::-1]
    return _inverse(np.ascontiguousarray(turned))


def _inverse(upper: Floats) -> Floats:
    """That of upper triangular matrices: a third of the work of any inverse."""
    size = upper.shape[1]
    if size <= _BLOCK:
        return np.linalg.inv(upper).astype(np.float64, copy=False)
    half = size // 2
    made = np.zeros_like(upper)
    first, last = _inverse(upper[:, :half, :half]), _inverse(upper[:, half:, half:])
    made[:, :half, :half], made[:, half:, half:] = first, last
    made[:, :half, half:] = -(first @ upper[:, :half, half:]) @ last
    return made


def _descend(real: Floats, codes: Floats, moments: Floats, low: Floats, high: Floats) -> None:
    """Move each of ``codes`` to where the error is least while the others stay."""
    slopes, bends = (real - codes) @ moments, _diagonal(moments)
    for block in [*_blocks(real.shape[2])] * _SWEEPS:
        before, inner = codes[:, :, block].copy(), slopes[:, :, block]
        for place, column in enumerate(range(block.start, block.stop)):
            step = np.rint(inner[:, :, place] / bends[:, column, None])
            moved = np.clip(codes[:, :, column] + step, low[:, :, column], high[:, :, column])
            change = moved - codes[:, :, column]
            inner -= change[:, :, None] * moments[:, None, column, block]
            codes[:, :, column] = moved
        changes = codes[:, :, block] - before
        slopes[:, :, : block.start] -= changes @ moments[:, block, : block.start]
        slopes[:, :, block.stop :] -= changes @ moments[:, block, block.stop :]
