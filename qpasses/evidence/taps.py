"""The taps of an interpolation: what they add up to, and whether they are taps at all."""

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64


def total_of(given: Mapping[str, NDArray[Any]], attributes: Mapping[str, Any]) -> int:
    """What the products of coefficients add up to at most."""
    columns = _per_axis(given["coefficients"], attributes)
    return prod(int(np.abs(column).sum(axis=0).max()) for column in columns)


def taps_problem(
    given: Mapping[str, NDArray[Any]], attributes: Mapping[str, Any], cells: int
) -> str:
    """What is wrong with taps that should add up to ``cells`` everywhere, or nothing."""
    places = _per_axis(given["indices"], attributes)
    for index, size in zip(places, attributes["x_sizes"], strict=True):
        if index.min() < 0 or index.max() >= size:
            return f"reads places {index.min()} to {index.max()} of an axis of size {size}"
    for columns in _per_axis(given["coefficients"], attributes):
        if columns.min() < 0 or np.ptp(columns.sum(axis=0)):
            return "its coefficients do not add up to the same everywhere"
    found = total_of(given, attributes)
    return "" if found == cells else f"its coefficients add up to {found}, not {cells}"


def _per_axis(table: NDArray[Any], attributes: Mapping[str, Any]) -> Iterator[Int64]:
    """The columns of depth, height and width."""
    ends = np.cumsum(attributes["y_sizes"])[:-1]
    yield from np.split(table.astype(np.int64), ends, axis=1)
