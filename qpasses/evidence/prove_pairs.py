"""All pairs of stored integers: what two-input ops compute, compared exhaustively."""

import re
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import lcm
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
    scalars = [(name, each) for name, each in inputs.items() if name not in ("a", "b")]
    rest = [(name, each.item(), each.dtype.name) for name, each in scalars]
    return _differences(op, overload, rounding, inputs["a"].dtype.name, tuple(rest))


def kernel_agrees(
    inputs: dict[str, NDArray[Any]], overload: str, rounding: str, op: str = "IntAdd"
) -> bool:
    """Whether ``kernel_differences`` finds none; most that differ do so in every form."""
    found = run_op(op, overload, list(inputs.values()), {"rounding": rounding})
    meaning = OPS[op].reference(*inputs.values(), rounding=rounding)
    agrees = np.array_equal(found, meaning)
    return agrees and kernel_differences(inputs, overload, rounding, op) == 0


@lru_cache(maxsize=4096)
def _differences(
    op: str, overload: str, rounding: str, dtype: str, rest: tuple[tuple[str, int, str], ...]
) -> int:
    """``kernel_differences`` of numbers: what proves a node is what chose them."""
    column, row = all_pairs(dtype)
    scalars = {name: np.array(value, kind) for name, value, kind in rest}
    named = {"a": column, "b": row, **scalars}
    inputs = {name: named[name] for name in OPS[op].inputs}
    meaning = OPS[op].reference(*inputs.values(), rounding=rounding)
    wrong = np.zeros(meaning.shape, bool)
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
    ratios[1] *= -1 if op in SUBTRACTING else 1
    divisor = lcm(*(ratio.denominator for ratio in ratios))
    wide = [int(ratio * divisor) for ratio in ratios]
    first, second = (
        codes.astype(np.int64) - each.zero_point
        for codes, each in zip(all_pairs(a.dtype), (a, b), strict=True)
    )
    if max(divisor, *map(abs, wide)).bit_length() < 53:
        level = half_to_even(first * wide[0] + second * wide[1], divisor)
    else:
        level = _by_estimate(first, second, ratios)
    return np.asarray(np.clip(level + y.zero_point, *bounds), np.int64)


def _by_estimate(first: Int64, second: Int64, ratios: Sequence[Fraction]) -> Int64:
    """``first * ratios[0] + second * ratios[1]``, rounded half to even, saturated far off.

    In double, whose error is below 2**-50 of the terms; exactly where a tie is as near.
    """
    terms = first * clamped_double(ratios[0]), second * clamped_double(ratios[1])
    estimate = terms[0] + terms[1]
    error = (np.abs(terms[0]) + np.abs(terms[1])) * 2.0**-50 + 2.0**-50
    level = np.clip(np.rint(estimate), -FAR_OFF, FAR_OFF).astype(np.int64)
    for place in zip(*np.nonzero(tie_distance(estimate) <= error), strict=True):
        row, column = int(first[place[0], 0]), int(second[0, place[1]])
        found = round(row * ratios[0] + column * ratios[1])
        level[place] = max(min(found, FAR_OFF), -FAR_OFF)
    return np.asarray(level)


def near_ties(
    a: Quantization, b: Quantization, y: Quantization, op: str, slack: float
) -> NDArray[np.bool_]:
    """[256, 256]: the pairs whose real sum, in steps of y, lies within ``slack`` of a tie.

    A sum that is ``slack`` off at most is rounded as the real one on all others.
    """
    column, row = all_pairs(a.dtype)
    terms = (
        (codes.astype(np.float64) - each.zero_point) * (each.scale / y.scale)
        for codes, each in ((column, a), (row, b))
    )
    combine = np.subtract if op in SUBTRACTING else np.add
    return np.asarray(tie_distance(combine(*terms)) <= slack)


def tie_distance(levels: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """How far numbers are from the nearest place between two integers."""
    return np.asarray(np.abs(levels - np.floor(levels) - 0.5))


FAR_OFF = 1 << 40
"""Beyond every code: a level is no farther from zero."""


def clamped_double(ratio: Fraction) -> float:
    """``ratio`` in double, at most 2**100 in size: all beyond that saturates."""
    return float(max(min(ratio, _HUGE), -_HUGE))


_HUGE = Fraction(2**100)


def half_to_even(total: NDArray[Any], divisor: int) -> NDArray[Any]:
    """``total / divisor``, rounded; ``total``: an array, of objects beyond 64 bits."""
    quotient = total // divisor
    remainder = total - quotient * divisor
    up = (2 * remainder > divisor) | ((2 * remainder == divisor) & (quotient % 2 == 1))
    return np.asarray(quotient + up)


def fast_overload(inputs: dict[str, NDArray[Any]]) -> str:
    """The onnxruntime body of IntAdd, IntSub or IntMul with these inputs."""
    return "onnxruntime" if saturates_at_type_ends(inputs, {}) else "onnxruntime_clamped"
