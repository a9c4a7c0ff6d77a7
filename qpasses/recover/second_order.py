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

_BLOCK = 64
"""So many columns are computed with before the others hear of it."""


def least_error(quotients: Floats, moments: Floats, ends: tuple[int, int]) -> Int64:
    """[groups, rows, n] codes for weights over their scales, of ``moments`` [groups, n, n].

    No code leaves ``ends``, and none is ``REACH`` or more from its weight but for what is
    clipped.
    """
    nearest = np.clip(np.rint(quotients), *ends)
    low = np.minimum(np.maximum(np.floor(quotients - REACH) + 1, ends[0]), nearest)
    high = np.maximum(np.minimum(np.ceil(quotients + REACH) - 1, ends[1]), nearest)
    damped = _damped(moments)
    order = np.argsort(-_diagonal(damped), axis=1, kind="stable")
    columns = order[:, None, :]
    real, least, most = (
        np.take_along_axis(each, columns, axis=2) for each in (quotients, low, high)
    )
    each_group = np.arange(len(order))[:, None, None]
    sorted_moments = damped[each_group, order[:, :, None], columns]
    chosen = _one_by_one(real, sorted_moments, least, most)
    _descend(real, chosen, sorted_moments, least, most)
    made = np.empty_like(chosen)
    np.put_along_axis(made, np.broadcast_to(columns, chosen.shape), chosen, axis=2)
    is_better = _error(quotients - made, damped) < _error(quotients - nearest, damped)
    return np.where(is_better[:, :, None], made, nearest).astype(np.int64)


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


def _one_by_one(real: Floats, moments: Floats, low: Floats, high: Floats) -> Floats:
    """Each column rounded, its error over those that follow as the moments ask for."""
    factor = _inverse_factor(moments)
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
