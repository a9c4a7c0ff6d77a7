"""Entries of tables: a function of stored integers, on all of their codes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.hard_swish import hard_swish_levels
from opsets.table_rules import USUAL, TableRules
from qpasses.ir.edges import codes, dequantize, in_rows, quantize_by, rows_of
from qpasses.ir.function import Function
from qpasses.ir.record import AnyQuantization, Quantization


def tabulate(
    function: Function, x: AnyQuantization, y: AnyQuantization, rules: TableRules = USUAL
) -> tuple[NDArray[Any], list[int]]:
    """[256] or [C, 256] of y's type, ordered by the byte of x; the codes without a result.

    Such codes of x have none in one channel at least, all of them none in any. What lies
    beyond the limits of x has an entry too. Of x in int16 there are 65,536 in place of 256.
    """
    if function.ops == ["HardSwish"] and rules.hard_swish == "int16":
        table = _hard_swish(x, y)
        if table is not None:
            return table, []
    filled, missing = results(function, x, rules, rows_of(x, y))
    return quantize_by(rules, filled, in_rows(y)), missing


def results(
    function: Function, x: AnyQuantization, rules: TableRules, channels: int = 0
) -> tuple[NDArray[np.floating[Any]], list[int]]:
    """What the function is for each code of x, [256] or [C, 256], before it is stored.

    Where it has none, that of the nearest code that has one; and these codes, in order.
    """
    stored = codes(x)
    codes_in_rows = function.inputs(stored, channels)
    real = function.computed_by(rules, dequantize(codes_in_rows, in_rows(x), rules.floats))
    rows = real.reshape(-1, stored.size)
    low, high = x.limits
    missing = np.isnan(rows).any(axis=0) & (low <= stored) & (stored <= high)
    filled = np.reshape([_filled(row, stored) for row in rows], real.shape)
    return filled, sorted(stored[missing].tolist())


def _hard_swish(x: AnyQuantization, y: AnyQuantization) -> NDArray[Any] | None:
    """[256] of y's type; None where TFLite has no arithmetic for it."""
    if not isinstance(x, Quantization) or not isinstance(y, Quantization):
        return None
    if x.zero.itemsize != 1 or y.zero.itemsize != 1:
        return None
    levels = hard_swish_levels(codes(x).astype(np.int64) - x.zero_point, x.scale, y.scale)
    if levels is None:
        return None
    return np.asarray(np.clip(levels + y.zero_point, *y.limits), y.dtype)


def _filled(
    real: NDArray[np.floating[Any]], stored: NDArray[Any]
) -> NDArray[np.floating[Any]]:
    """``real`` of each ``stored``; where it is NaN, that of the nearest that has one."""
    defined = np.flatnonzero(~np.isnan(real))
    if defined.size == real.size:
        return real
    if not defined.size:
        return np.zeros_like(real)  # of no use: it is declined
    levels = stored.astype(np.int64)
    order = defined[np.argsort(levels[defined])]
    above = np.searchsorted(levels[order], levels)
    below = order[np.maximum(above - 1, 0)]
    above = order[np.minimum(above, order.size - 1)]
    is_nearer = levels[above] - levels < levels - levels[below]
    found: NDArray[np.floating[Any]] = real[np.where(is_nearer, above, below)]
    return found
