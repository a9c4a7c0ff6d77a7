"""How weights are rounded: the nearest codes, or such that sums of weights are kept."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64
from opsets.row_blocks import blocks

Floats: TypeAlias = NDArray[np.floating[Any]]

_CODE = 1 << 30
"""Errors are whole parts of a code, so many to one."""


def keep_sums(quotients: NDArray[np.float64], codes: Int64, low: int, high: int) -> Int64:
    """The codes [channels, inputs, ...] whose sums are those of ``quotients``.

    ``codes``: the nearest. First each kernel, then each channel as a whole is right in sum to
    half a code: while it is not, the element goes one step that was rounded farthest in the
    direction of the excess, none twice; of a channel only those that are the farthest of
    their kernel, the kernels with the largest excess first. Of equal ones the first.
    """
    channels, inputs = codes.shape[:2]
    made = codes.reshape(channels, inputs, -1).copy()
    errors = np.rint((made - quotients.reshape(made.shape)) * float(_CODE)).astype(np.int64)
    kernels, rows = made.reshape(channels * inputs, -1), made.reshape(channels, -1)
    per_kernel, per_row = errors.reshape(kernels.shape), errors.reshape(rows.shape)

    excess = per_kernel.sum(axis=1)
    _lower(kernels, per_kernel, excess, per_kernel * np.sign(excess)[:, None], (low, high))

    excess = per_row.sum(axis=1)
    size = made.shape[2]
    towards = errors * np.sign(excess)[:, None, None]
    can_go = _can_go(made, np.sign(excess)[:, None, None], low, high) & (towards > 0)
    farthest = np.where(can_go, towards, -1).argmax(axis=2)
    is_farthest = np.arange(size) == farthest[:, :, None]
    ranks = np.where(is_farthest & can_go, towards.sum(axis=2)[:, :, None], _NEVER)
    _lower(rows, per_row, excess, ranks.reshape(rows.shape), (low, high))
    return made.reshape(codes.shape)


def count_far(
    found: NDArray[Any], nearest: NDArray[Any], real: NDArray[Any], scale: Floats, axis: int
) -> int:
    """How many codes are two or more from the ``real`` weights, and not the ``nearest`` ones.

    ``scale``: one, or one for each place along ``axis``.
    """
    steps = scale.astype(np.float64).reshape([-1] + [1] * (found.ndim - 1))
    ours, codes, weights = (np.moveaxis(e, axis, 0) for e in (found, nearest, real))
    steps, far = np.broadcast_to(steps, (len(ours), *steps.shape[1:])), 0
    for part in blocks(ours):
        apart = np.abs(ours[part] - weights[part].astype(np.float64) / steps[part])
        far += int(np.count_nonzero((apart >= _FAR) & (ours[part] != codes[part])))
    return far


_FAR = 2

_NEVER = -(1 << 62)


def _can_go(codes: Int64, side: Int64, low: int, high: int) -> NDArray[np.bool_]:
    return np.asarray((codes - side >= low) & (codes - side <= high))


def _lower(
    codes: Int64, errors: Int64, excess: Int64, ranks: Int64, ends: tuple[int, int]
) -> None:
    """Step elements of rows back, the highest ranks first, till half a code is left."""
    side = np.sign(excess)
    ranks = np.where(_can_go(codes, side[:, None], *ends), ranks, _NEVER)
    left = np.flatnonzero(np.abs(excess) > _CODE // 2)
    while len(left):
        best = ranks[left].argmax(axis=1)
        has_one = ranks[left, best] != _NEVER
        left, best = left[has_one], best[has_one]
        ranks[left, best] = _NEVER
        codes[left, best] -= side[left]
        errors[left, best] -= side[left] * _CODE
        excess[left] -= side[left] * _CODE
        left = left[np.abs(excess[left]) > _CODE // 2]
