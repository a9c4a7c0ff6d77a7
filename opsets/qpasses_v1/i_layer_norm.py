"""ILayerNorm: I-ViT's LayerNorm, the square root by ten steps of Newton's from 2**16."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import MANY, ONCE, Integer
from opsets.declaration import Constant, Constraint, Data, Scaling, Shape, Shift, ends
from opsets.double import STORE_DOUBLE, overload, rounded_double
from opsets.fixed_point import (
    ROUNDINGS,
    Int64,
    Rounding,
    rounding_divide,
    rounding_shift,
    saturate,
)
from opsets.fragments import NOTHING, Fragment, fragment
from opsets.op import Attributes, Body, Constants, Op, all_of
from opsets.portable import bodies_of_one_rounding, rounds
from opsets.published import LARGEST

STEPS = 10

LARGEST_FACTOR = 1 << 25
"""Above the factor, halved: ten steps from 2**16 end at 64 or more."""

_CENTERED = fragment("""
centered <cells> (x, x_zero) => (two, distance, variance, root_0) {
    last       = Constant <value = int64[1] {-1}> ()
    cells      = Constant <value_int: int = @cells> ()
    none       = Constant <value = int64 {0}> ()
    one        = Constant <value = int64 {1}> ()
    two        = Constant <value = int64 {2}> ()
    wide_x     = Cast <to = 7> (x)                                         # 7 is INT64
    origin     = Cast <to = 7> (x_zero)
    code       = Sub (wide_x, origin)
    sum        = ReduceSum (code, last)
    # the mean, half to even: floor((2 * sum + cells) / (2 * cells)), one less where that is
    # odd and whole; moved up by whole means and back, as ONNX divides towards zero
    twice      = Add (cells, cells)
    lift_m     = Constant <value = int64 {65536}> ()
    lift_sum   = Mul (lift_m, cells)
    above_sum  = Add (sum, lift_sum)
    two_sums   = Add (above_sum, above_sum)
    dividend   = Add (two_sums, cells)
    nearest    = Div (dividend, twice)
    again      = Mul (nearest, twice)
    is_tie     = Equal (again, dividend)
    parity     = Mod (nearest, two)
    is_odd     = Equal (parity, one)
    goes_down  = And (is_tie, is_odd)
    down       = Cast <to = 7> (goes_down)
    mean_up    = Sub (nearest, down)
    mean       = Sub (mean_up, lift_m)
    distance   = Sub (code, mean)
    square     = Mul (distance, distance)
    variance   = ReduceSum (square, last)
    root_0     = Constant <value = int64 {65536}> ()                       # 2**16
}
""")

_IN_DOUBLE = fragment("""
in_double <cells> (x, x_zero) => (half, distance, variance, root_0) {
    last       = Constant <value = int64[1] {-1}> ()
    cells      = Constant <value_int: int = @cells> ()
    many       = Cast <to = 11> (cells)                                    # 11 is DOUBLE
    half       = Constant <value = double {0.5}> ()
    wide_x     = Cast <to = 11> (x)
    origin     = Cast <to = 11> (x_zero)
    code       = Sub (wide_x, origin)
    sum        = ReduceSum (code, last)
    ratio      = Div (sum, many)
    mean       = Round (ratio)
    distance   = Sub (code, mean)
    variance   = ReduceSumSquare (distance, last)
    root_0     = Constant <value = double {65536.0}> ()                    # 2**16
}
""")

_STEP_IN_DOUBLE = fragment("""
step_in_double (variance, root, half) => (next) {
    quotient   = Div (variance, root)
    whole      = Floor (quotient)
    sum        = Add (root, whole)
    mean       = Mul (sum, half)
    next       = Floor (mean)
}
""")

_NORMAL_IN_DOUBLE = fragment("""
normal_in_double
    (distance, root, half, bias, multiplier, shift) => (value) {
    largest    = Constant <value = double {2147483647.0}> ()               # 2**31 - 1
    quotient   = Div (largest, root)
    factor_n   = Floor (quotient)
    product    = Mul (distance, factor_n)
    halved     = Mul (product, half)
    normal     = Floor (halved)
    wide_bias  = Cast <to = 11> (bias)
    output     = Add (normal, wide_bias)
    real_m     = Cast <to = 11> (multiplier)
    real_s     = Cast <to = 11> (shift)
    step       = Pow (half, real_s)
    scale      = Mul (real_m, step)
    value      = Mul (output, scale)
}
""")

_STEP = fragment("""
step (variance, root, two) => (next) {
    quotient   = Div (variance, root)
    sum        = Add (root, quotient)
    next       = Div (sum, two)
}
""")

_NORMAL = fragment("""
normal (distance, root, two, bias, multiplier) => (scaled) {
    largest    = Constant <value = int64 {2147483647}> ()                  # 2**31 - 1
    factor_n   = Div (largest, root)
    product    = Mul (distance, factor_n)
    lift_p     = Constant <value = int64 {4611686018427387904}> ()         # 2**62
    above_p    = Add (product, lift_p)
    halves     = Div (above_p, two)
    half_lift  = Div (lift_p, two)
    normal     = Sub (halves, half_lift)
    output     = Add (normal, bias)
    wide_m     = Cast <to = 7> (multiplier)
    scaled     = Mul (output, wide_m)
}
""")


def _steps(step: Fragment) -> Fragment:
    """From ``root_0`` to ``root``."""
    roots = [*(f"root_{each}" for each in range(STEPS)), "root"]
    steps = (step(root=root, next=after) for root, after in pairwise(roots))
    return sum(steps, NOTHING).only("root")


def fits_double(constants: Constants, attributes: Attributes) -> bool:
    """Whether no product or sum leaves 52 bits: whole numbers, and the floor of a quotient of
    two of them, which is 1 / divisor or more below the next.
    """
    limits, zero = np.iinfo(constants["x_zero"].dtype), int(constants["x_zero"])
    farthest = max(limits.max - zero, zero - limits.min) + 1
    normal = (limits.max - limits.min + 1) * LARGEST_FACTOR
    bias = int(np.abs(constants["bias"]).max(initial=0))
    multiplier = int(np.abs(constants["multiplier"].astype(np.int64)).max(initial=0))
    squares = attributes["cells"] * (2 * farthest) ** 2
    return bool(max(squares, (normal + bias) * multiplier) < 1 << 52)


def _in_double(rounding: Rounding) -> Body:
    value = _IN_DOUBLE + _steps(_STEP_IN_DOUBLE) + _NORMAL_IN_DOUBLE
    stored = value + rounded_double("value", "level", rounding) + STORE_DOUBLE
    fits = all_of(rounds(rounding), fits_double)
    return Body(overload(rounding), "onnxruntime", stored, fits)


def reference(
    x: NDArray[Any],
    x_zero: NDArray[Any],
    bias: Int64,
    multiplier: NDArray[np.int32],
    shift: NDArray[np.int32],
    y_zero: NDArray[Any],
    y_min: NDArray[Any],
    y_max: NDArray[Any],
    *,
    cells: int,
    rounding: Rounding,
) -> NDArray[Any]:
    """Stored x [..., cells]; ``bias``, ``multiplier`` and ``shift`` [cells]."""
    code = np.asarray(x).astype(np.int64) - x_zero
    _mean, _root, _factor, normal = normalize(code, cells)
    level = rounding_shift((normal + bias) * multiplier.astype(np.int64), shift, rounding)
    return saturate(level, y_zero, y_min, y_max).astype(y_zero.dtype)


def normalize(code: Int64, cells: int) -> tuple[Int64, Int64, Int64, Int64]:
    """I-ViT's mean, root of the sum of squares and factor of each row, and the normal codes.

    These have the scale sqrt(cells) / 2**30. The root is not near to it below about 10**6.
    """
    mean = rounding_divide(code.sum(axis=-1, keepdims=True), cells, "half_to_even")
    distance = code - mean
    variance = (distance * distance).sum(axis=-1, keepdims=True)
    root = np.full_like(variance, 1 << 16)
    for _ in range(STEPS):
        root = (root + variance // root) >> 1
    factor = LARGEST // root
    return mean, root, factor, np.asarray(distance * factor >> 1)


def _a_constant_changes_nothing(
    x: NDArray[Any], x_zero: NDArray[Any], *args: Any, **attributes: Any
) -> None:
    other = np.asarray(int(x_zero) ^ 2, x_zero.dtype)  # an even step: the mean rounds alike
    np.testing.assert_array_equal(
        reference(x, x_zero, *args, **attributes), reference(x, other, *args, **attributes)
    )


def _rows_have_cells(_constants: Constants, attributes: Attributes, shape: Shape) -> bool:
    last = shape[-1] if shape else None
    return last is None or isinstance(last, str) or last == attributes["cells"]


I_LAYER_NORM = Op(
    name="ILayerNorm",
    inputs={
        "x": Data("S"),
        "x_zero": Constant("S"),
        "bias": Constant("int64", ("cells",)),
        "multiplier": Constant("int32", ("cells",)),
        "shift": Shift(dims=("cells",)),
        **ends("T"),
    },
    outputs={"y": Data("T")},
    attributes={
        "cells": Integer(1, MANY // 255**2 - 1),
        "rounding": ONCE,
    },
    reference=reference,
    bodies=[
        *map(_in_double, ROUNDINGS),
        *bodies_of_one_rounding(_CENTERED + _steps(_STEP) + _NORMAL, "shift"),
    ],
    evidence="bounded",
    scaling=Scaling.ALGORITHM,
    constraints=[
        Constraint("the last axis of x has `cells` places", _rows_have_cells),
    ],
    laws={"an even constant added to all codes changes nothing": _a_constant_changes_nothing},
    formula="Over each row along the last axis: d = c - round(mean of c), half to even, c = x "
    "- x_zero; v = sum of d**2; k = 2**16, then ten times floor((k + floor(v / k)) / 2); p = "
    "floor(d * floor((2**31 - 1) / k) / 2) + bias; y = clamp(round(p * multiplier / "
    "2**shift) + y_zero, y_min, y_max), multipliers of either sign.",
    source="Source: I-ViT, IntLayerNorm.",
)
