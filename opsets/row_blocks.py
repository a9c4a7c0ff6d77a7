"""Rows of large matrices, some at a time: what is computed of each needs memory for few."""

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

AT_ONCE = 1 << 22
"""So many numbers are computed with at once, or one row where it is longer."""


def blocks(values: NDArray[Any]) -> Iterator[slice]:
    """The rows of ``values``, along its first axis, in parts; one part where they are few."""
    count = max(1, AT_ONCE // max(prod(values.shape[1:]), 1))
    for start in range(0, max(len(values), 1), count):
        yield slice(start, start + count)


def rows_along(values: NDArray[Any], axis: int) -> Iterator[NDArray[Any]]:
    """[channels, n]: what belongs to each place along ``axis``, in parts of whole rows."""
    moved = np.moveaxis(values, axis, 0) if axis else values
    for part in blocks(moved):
        rows = moved[part]
        yield rows.reshape(len(rows), -1)
