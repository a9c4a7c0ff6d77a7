"""Moments of a tensor, from its histogram: the same for any order and any split of data."""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from calibration.methods.spread import Spread
from calibration.statistics import Statistics


@dataclass(frozen=True)
class Moments:
    """Real: the mean, the standard deviation, and the mean distance from the mean.

    The mean is exact to half a bin, as if the values were uniform within each.
    """

    mean: float
    std: float
    distance: float


def moments(seen: Statistics) -> Moments:
    """Those of all values, zeros included. ValueError if there is no histogram."""
    if seen.low == seen.high:
        return Moments(seen.low, 0.0, 0.0)
    values = Spread.of(seen)
    mean = values.sum / seen.count
    at = np.array([mean])
    _, above, squares_above = values.above(at)
    _, below, squares_below = values.mirrored().above(-at)
    distances = float(above[0] + below[0]) + abs(mean) * seen.zeros
    squares = float(squares_above[0] + squares_below[0]) + mean**2 * seen.zeros
    return Moments(mean, sqrt(squares / seen.count), distances / seen.count)
