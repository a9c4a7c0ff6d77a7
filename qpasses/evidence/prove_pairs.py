"""All pairs of stored integers: what two-input ops compute, compared exhaustively."""

import re
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64
from opsets.op import saturates_at_type_ends
from opsets.qpasses_v1 import OPS
from qpasses.ir.record import Quantization
from qpasses.ir.runtime import run_op

PAIRS = 1 << 16

SUBTRACTING = frozenset({"IntSub", "IntRescaledSub"})
"""Ops whose operands have one order only."""


@lru_cache(maxsize=2)
def all_pairs(dtype: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """The 256 codes as a column and as a row: broadcast they are all pairs."""
    info = np.iinfo(np.dtype(dtype))
    if info.bits != 8:
        raise ValueError(f"all pairs of {dtype}")
    codes = np.arange(info.min, info.max + 1).astype(dtype)
    return codes[:, None], codes[None, :]


def add_inputs(
    a: Quantization,
    b: Quantization,
    y: Quantization,
    bounds: tuple[int, int],
    a_multiplier: int,
    b_multiplier: int,
    shift: int,
) -> dict[str, NDArray[Any]]:
    """The inputs of IntAdd or IntSub on all pairs."""
    column, row = all_pairs(a.dtype)
    return {
        "a": column,
        "a_zero": a.zero,
        "b": row,
        "b_zero": b.zero,
        "a_multiplier": np.array(a_multiplier, np.int32),
        "b_multiplier": np.array(b_multiplier, np.int32),
        "shift": np.array(shift, np.int32),
        "y_zero": y.zero,
        "y_min": np.array(bounds[0], y.dtype),
        "y_max": np.array(bounds[1], y.dtype),
    }


def kernel_differences(
    inputs: dict[str, NDArray[Any]], overload: str, rounding: str, op: str = "IntAdd"
) -> int:
    """On how many of the 65,536 pairs the body differs from the meaning, in any of six forms.

    onnxruntime's QLinearAdd and QLinearMul have code of their own for two tensors of one
    shape, for a scalar first and a scalar second operand, and may swap the operands: both
    orders of all three. The operands of IntSub have one order only.
    """
    meaning = OPS[op].reference(*inputs.values(), rounding=rounding)
    wrong = np.zeros(meaning.shape, bool)
    column, row = inputs["a"], inputs["b"]
    full = np.broadcast_arrays(column, row)
    for a, b in (full, (column, row), (column.T, row.T)):
        shown = meaning if a.shape[0] == 256 else meaning.T
        for swap in (False, True) if op not in SUBTRACTING else (False,):
            operands = {**inputs, "a": a, "b": b}
            if swap:
                operands |= {_SWAPPED.sub(_other, name): v for name, v in operands.items()}
            found = run_op(op, overload, list(operands.values()), {"rounding": rounding})
            differs = found != shown
            wrong |= differs if shown is meaning else differs.T
    return int(wrong.sum())


_SWAPPED = re.compile("^[ab](?=_|$)")


def _other(operand: re.Match[str]) -> str:
    return {"a": "b", "b": "a"}[operand[0]]


def real_sum(
    a: Quantization,
    b: Quantization,
    y: Quantization,
    bounds: tuple[int, int],
    op: str = "IntAdd",
) -> Int64:
    """[256, 256]: the stored sum or difference in real arithmetic, on all pairs."""
    ratios = [Fraction(each.scale) / Fraction(y.scale) for each in (a, b)]
    divisor = int(np.lcm.reduce([ratio.denominator for ratio in ratios], dtype=object))
    wide = [int(ratio * divisor) for ratio in ratios]
    column, row = all_pairs(a.dtype)
    exact = np.int64 if max([divisor, *wide]).bit_length() < 53 else object
    total = (column.astype(exact) - a.zero_point) * wide[0]
    sign = -1 if op in SUBTRACTING else 1
    total = total + (row.astype(exact) - b.zero_point) * (sign * wide[1])
    level = half_to_even(total, divisor)
    return np.asarray(np.clip(level + y.zero_point, *bounds), np.int64)


def half_to_even(total: NDArray[Any], divisor: int) -> NDArray[Any]:
    """``total / divisor``, rounded; ``total``: an array, of objects beyond 64 bits."""
    quotient, remainder = total // divisor, total % divisor
    up = (2 * remainder > divisor) | ((2 * remainder == divisor) & (quotient % 2 == 1))
    return np.asarray(quotient + up)


def fast_overload(inputs: dict[str, NDArray[Any]]) -> str:
    """The onnxruntime body of IntAdd, IntSub or IntMul with these inputs."""
    return "onnxruntime" if saturates_at_type_ends(inputs, {}) else "onnxruntime_clamped"
