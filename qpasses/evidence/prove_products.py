"""All pairs of stored integers: the multiplier of a product, chosen and judged on them."""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64
from qpasses.evidence.prove_pairs import all_pairs, half_to_even
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
    levels, places = np.unique(products, return_inverse=True)
    rounded = half_to_even(levels.astype(object) * ratio.numerator, ratio.denominator)
    stored = np.clip(rounded + y.zero_point, *y.limits).astype(np.int64)
    return np.asarray(stored[places].reshape(products.shape))
