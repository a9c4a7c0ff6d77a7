"""Sums and means over any axes: onnxruntime itself at every step of the output."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64
from opsets.op import Body
from qpasses.evidence.thresholds import Interval, exact_thresholds, levels
from qpasses.ir.runtime import run_op

_CHUNK = 1 << 22
"""So many stored integers are summed in one run."""


def sums(count: int, zero_point: int, dtype: str) -> Interval:
    """What the sum of ``count`` stored integers, less the zero point, can reach."""
    limits = np.iinfo(np.dtype(dtype))
    ends = [(int(end) - zero_point) * count for end in (limits.min, limits.max)]
    return Interval(np.array(ends[:1], np.int64), np.array(ends[1:], np.int64))


def reduced_thresholds(given: Mapping[str, NDArray[Any]], cells: int, rounding: Any) -> Int64:
    """[1, K]: the smallest sum for each step of the output, by exact fractions."""
    scale = Fraction(int(given["multiplier"]), cells << int(given["shift"]))
    steps = levels(*(int(given[name]) for name in ("y_zero", "y_min", "y_max")))
    return np.array([exact_thresholds(scale, steps, rounding)], np.int64)


def differing_sums(
    body: Body,
    given: Mapping[str, NDArray[Any]],
    count: int,
    attributes: Mapping[str, Any],
    thresholds: Int64,
    reachable: Interval,
) -> int:
    """At how many thresholds, or one below, onnxruntime gives another code.

    ``count`` stored integers are summed along the last of the node's axes; optimized and not.
    """
    points, steps = around(thresholds, reachable, count)
    expected = int(given["y_min"]) + steps
    zero = given["x_zero"]
    rows = max(1, _CHUNK // count)
    wrong = 0
    for start in range(0, len(points), rows):
        part = points[start : start + rows]
        x = summing_to(part, count, int(zero)).astype(zero.dtype)
        x = x.reshape(_shape(len(part), count, attributes["axes"]))
        inputs = [x, *(given[name] for name in CONSTANTS)]
        for optimize in (False, True):
            found = run_op("IntReduce", body, inputs, attributes, optimize=optimize)
            wrong += int((found.reshape(-1) != expected[start : start + rows]).sum())
    return wrong


CONSTANTS = ("x_zero", "multiplier", "shift", "y_zero", "y_min", "y_max")
"""Of an average, in the order of its inputs."""


_CODES = 1 << 24
"""So many stored integers are summed, at most, for the steps of results of 16 bits."""

_LEAST, _STEPS_OF_BYTES = 256, 255


def around(thresholds: Int64, reachable: Interval, count: int) -> tuple[Int64, Int64]:
    """The reachable sums at the thresholds [1, K] and one below, and how many each is past.

    Of ``count`` codes each; of the steps of words so many as run soon, the ends among them.
    """
    chosen, most = thresholds[0], max(_LEAST, _CODES // (2 * count))
    if len(chosen) > max(most, _STEPS_OF_BYTES):
        some = np.random.default_rng(count).choice(len(chosen), most, replace=False)
        chosen = chosen[[0, *some, -1]]
    points = np.unique(np.concatenate([chosen, chosen - 1]))
    points = np.unique(np.clip(points, reachable.low[0], reachable.high[0]))
    return points, np.searchsorted(thresholds[0], points, side="right")


def multiplier_error(
    given: Mapping[str, NDArray[Any]], cells: int, real: Fraction, reachable: Interval
) -> float:
    """How far the quotient of a sum is from the real one at most, in steps of y.

    ``real`` is what a sum is to be multiplied with, ``cells`` what it is divided by.
    """
    stored = Fraction(int(given["multiplier"]), cells << int(given["shift"]))
    farthest = max(-int(reachable.low[0]), int(reachable.high[0]))
    return float(abs(stored - real) * farthest)


def summing_to(points: Int64, count: int, zero_point: int) -> Int64:
    """[P, count] codes, as equal as they can be, whose levels sum to each of ``points``."""
    base, more = np.divmod(points, count)
    return base[:, None] + (np.arange(count) < more[:, None]) + zero_point


def _shape(points: int, count: int, axes: Sequence[int]) -> list[int]:
    """A dimension in front for the points, ``count`` at the last axis that is reduced."""
    shape = [points, *[1] * max(-axis for axis in axes)]
    shape[max(axes)] = count
    return shape
