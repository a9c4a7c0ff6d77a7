"""IntLayerNorm: how far from real arithmetic, and onnxruntime itself on rows of all kinds."""

from math import inf, prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.norm_bounds import LARGEST_RADICAND
from opsets.op import Attributes, Body, Constants
from opsets.qpasses_v1 import OPS
from qpasses.evidence.thresholds import end_levels
from qpasses.ir.runtime import run_op

_CODES = 1 << 19
"""So many codes are run at most."""

_SAFE = 1 + 2.0**-40
"""Covers what these few operations in double are off."""


def norm_bound(given: Constants, attributes: Attributes) -> float:
    """How far a result is from the real one at most, in steps of y, before it is rounded.

    Real: gamma * d / sqrt(v + e) + beta, of the integers d and v of the row, which are exact,
    with factors that the stored ones are nearest to. Let n be the cells of a row, and T =
    sqrt(4**root_bits * (v + e)).

    - d is 0 where v is, and else v >= n - 1 (n, if not centered): a row of which one code
      differs by 1. So T >= t, its smallest value for d other than 0.
    - The root is T floored, of a radicand whose epsilon is off by 1/2: within 1 + 1 / (4 t)
      of T, so r = (1 + 1 / (4 t)) / t of it.
    - Where bits are left out of radicands, roots of such have 31 bits: they are within 1 of
      the root of the rest, the same quotient with t = 2**30.
    - The factor is floored: it is off by r / (1 - r) of itself for the root, and by
      root / 2**factor_bits for the floor.
    - |d| / sqrt(v) <= sqrt(n - 1) (sqrt(n)), and where gamma makes of it more than all codes
      and the bias, only the last code counts: of so much it is off by these parts, and by
      half a last bit.
    - Multiplier and bias are off by one half each; of the normal number too only so much
      counts as no multiplier makes more of than all codes and the bias.
    """
    cells, root_bits = attributes["cells"], attributes["root_bits"]
    longest = sqrt(cells - 1 if attributes["centered"] else cells)
    smallest = max(cells - 1, 1) if attributes["centered"] else cells
    least_epsilon, epsilon = (
        int(end()) for end in (given["epsilon"].min, given["epsilon"].max)
    )
    unit = 4**root_bits
    low, high = end_levels(given["x_zero"])
    reach = high - low if attributes["centered"] else 2 * max(high, -low)
    radicand = ((cells * reach) ** 2 // 4 + 1) * unit + epsilon
    largest = sqrt(radicand) + 1
    least = sqrt(smallest * unit + max(least_epsilon - 1, 0))
    if radicand >= LARGEST_RADICAND:
        largest, least = min(largest, 2.0**31), min(least, 2.0**30)
    root = (1 + 1 / (4 * least)) / least
    span = float(int(given["y_max"]) - int(given["y_min"]))
    if root >= 1:
        return span
    relative = root / (1 - root) + largest / 2.0 ** attributes["factor_bits"]
    step, last = 2.0 ** -int(given["shift"]), 2.0 ** attributes["norm_bits"]
    slopes = np.abs(given["multiplier"].astype(np.int64)) * step
    steepest = float(slopes.max(initial=0)) + step / 2
    furthest = float(np.abs(given["bias"]).max(initial=0)) * step
    beyond_all = span + furthest + 1
    largest_level = min(longest * last * steepest, beyond_all)
    flattest = float(slopes.min(initial=steepest))
    counting = min(longest * last, beyond_all / flattest if flattest else inf)
    rounded = steepest / 2 + (counting / 2 + 1 / 2) * step
    return float(min((largest_level * relative + rounded) * _SAFE, span))


def norm_rows(given: Constants, attributes: Attributes) -> NDArray[Any]:
    """[R, ..., row...]: codes anywhere, alike, of two values, one apart, rising.

    A row has the sizes of the multiplier, the first that is 1 as large as the cells need.
    """
    axis, cells, dtype = attributes["axis"], attributes["cells"], given["x_zero"].dtype
    shape, limits = list(given["multiplier"].shape), np.iinfo(dtype)
    leading, row = shape[:axis], shape[axis:]
    if prod(row) != cells:
        row[row.index(1)] = cells // prod(row)
    groups = max(8, min(96, _CODES // (cells * prod(leading))))
    count = groups * prod(leading)
    rng = np.random.default_rng([cells, attributes["root_bits"]])
    rows = rng.integers(limits.min, limits.max, (count, cells), endpoint=True)
    level = rng.integers(limits.min, limits.max, count)
    for first, kind in enumerate(("alike", "next", "apart", "ends", "rising")):
        some = slice(first, None, 8)
        still = np.repeat(level[some, None], cells, axis=1)
        if kind == "alike":
            rows[some] = still
        elif kind == "next":
            rows[some] = still + rng.integers(0, 2, still.shape)
        elif kind == "apart":
            still[:, 0] = limits.max
            rows[some] = still
        elif kind == "ends":
            rows[some] = np.where(rows[some] > level[some, None], limits.max, limits.min)
        else:
            rows[some] = np.sort(rows[some], axis=1)
    return rows.astype(dtype).reshape(groups, *leading, *row)


def differing_norms(
    body: Body, given: Constants, attributes: Attributes
) -> tuple[int, int, int]:
    """(results run, unlike the meaning, whose level is not that of float64), on such rows.

    The body runs in onnxruntime, optimized and not; float64 computes with the stored factors.
    """
    rows = norm_rows(given, attributes)
    inputs = [rows, *(given[name] for name in list(OPS["IntLayerNorm"].inputs)[1:])]
    meaning = OPS["IntLayerNorm"].reference(*inputs, **attributes)
    wrong = sum(
        int((run_op("IntLayerNorm", body, inputs, attributes, optimize=each) != meaning).sum())
        for each in (False, True)
    )
    real = _real(rows, given, attributes)
    return rows.size, wrong, int((real != meaning).sum())


def _real(rows: NDArray[Any], given: Constants, attributes: Attributes) -> NDArray[Any]:
    axes, cells = tuple(range(attributes["axis"], 0)), attributes["cells"]
    level = rows.astype(np.float64) - float(given["x_zero"])
    if attributes["centered"]:
        level = level - level.mean(axis=axes, keepdims=True)
    epsilon = given["epsilon"] / 4.0 ** attributes["root_bits"] / cells**2
    deviation = np.sqrt((level * level).mean(axis=axes, keepdims=True) + epsilon)
    normal = level / np.where(deviation > 0, deviation, 1)
    step = 2.0 ** -int(given["shift"])
    gamma = given["multiplier"] * 2.0 ** attributes["norm_bits"] * step
    steps = np.rint(normal * gamma + given["bias"] * step) + float(given["y_zero"])
    return np.asarray(np.clip(steps, float(given["y_min"]), float(given["y_max"])))
