"""All pairs of stored integers: the multiplier of a product, chosen and judged on them."""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64
from qpasses.evidence.prove_pairs import (
    FAR_OFF,
    all_pairs,
    clamped_double,
    half_to_even,
    tie_distance,
)
from qpasses.ir.record import Quantization


def mul_inputs(
    a: Quantization, b: Quantization, y: Quantization, multiplier: int, shift: int
) -> dict[str, NDArray[Any]]:
    """The inputs of IntMul on all pairs, its clamp at the ends of the codes."""
    column, row = all_pairs(a.dtype)
    return {
        "a": column,
        "a_zero": a.zero,
        "b": row,
        "b_zero": b.zero,
        "multiplier": np.array(multiplier, np.int32),
        "shift": np.array(shift, np.int32),
        "y_zero": y.zero,
        "y_min": np.array(y.limits[0], y.dtype),
        "y_max": np.array(y.limits[1], y.dtype),
    }


def real_product(a: Quantization, b: Quantization, y: Quantization) -> Int64:
    """[256, 256]: the stored product of all pairs in real arithmetic, rounded half to even."""
    ratio = Fraction(a.scale) * Fraction(b.scale) / Fraction(y.scale)
    column, row = all_pairs(a.dtype)
    products = (column.astype(np.int64) - a.zero_point) * (row.astype(np.int64) - b.zero_point)
    return np.asarray(np.clip(_rounded(products, ratio) + y.zero_point, *y.limits), np.int64)


def _rounded(products: Int64, ratio: Fraction) -> Int64:
    """``products * ratio``, rounded half to even, saturated far off.

    In double, whose error is below 2**-50 of the number; exactly where a tie is as near.
    """
    estimate = products * clamped_double(ratio)
    level = np.clip(np.rint(estimate), -FAR_OFF, FAR_OFF).astype(np.int64)
    doubtful = tie_distance(estimate) <= np.abs(estimate) * 2.0**-50 + 2.0**-50
    levels, places = np.unique(products[doubtful], return_inverse=True)
    exact = half_to_even(levels.astype(object) * ratio.numerator, ratio.denominator)
    level[doubtful] = np.clip(exact, -FAR_OFF, FAR_OFF).astype(np.int64)[places]
    return np.asarray(level)


def products_near_ties(
    a: Quantization, b: Quantization, y: Quantization, slack: float
) -> NDArray[np.bool_]:
    """[256, 256]: the pairs whose real product, in steps of y, lies so near to a tie."""
    column, row = all_pairs(a.dtype)
    products = (column.astype(np.int64) - a.zero_point) * (row.astype(np.int64) - b.zero_point)
    steps = products.astype(np.float64) * np.float64(a.scale * b.scale / y.scale)
    return np.asarray(tie_distance(steps) <= slack)
