"""IntLayerNorm: a row less its mean, by its standard deviation, on stored integers."""

from collections.abc import Sequence
from itertools import pairwise
from math import isqrt, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import ONCE, SWITCH, Axis, Integer
from opsets.declaration import (
    Constant,
    Constraint,
    Data,
    Scaling,
    Shape,
    Shift,
    ends,
    keeps_shape,
)
from opsets.double import STORE_DOUBLE, overload, rounded_double
from opsets.fixed_point import ROUNDINGS, Int64, Rounding, rounding_shift, saturate
from opsets.fragments import Fragment, fragment
from opsets.op import Attributes, Body, Constants, Op, all_of
from opsets.portable import bodies_of_one_rounding, rescaled, rounds

LARGEST_DOUBLE = 1 << 52
"""Below it doubles hold every integer, and its half."""

LARGEST_RADICAND = 1 << 62

_AXES = fragment("""
axes <axis, cells, centered, root_bits, factor_bits, norm_bits> ()
    => (axes, none, one, one_in, cells, centered, twice, twice_in, all_bits, dividend,
        drop_bits) {
    axis_0    = Constant <value_int: int = @axis> ()
    first     = Constant <value_int: int = @axis> ()
    none      = Constant <value = int64 {0}> ()
    one       = Constant <value = int64 {1}> ()
    axes      = Range (first, none, one)
    cells     = Constant <value_int: int = @cells> ()
    centered  = Constant <value_int: int = @centered> ()
    root_bits = Constant <value_int: int = @root_bits> ()
    all_bits  = Constant <value_int: int = @factor_bits> ()
    n_bits    = Constant <value_int: int = @norm_bits> ()
    twice     = Add (root_bits, root_bits)
    twice_in  = Cast <to = 13> (twice)                                     # 13 is UINT64
    all_in    = Cast <to = 13> (all_bits)
    one_in    = Cast <to = 13> (one)
    factor_in = BitShift <direction = "LEFT"> (one_in, all_in)
    dividend  = Cast <to = 7> (factor_in)                                  # 7 is INT64
    above     = Sub (all_bits, root_bits)
    drop_bits = Sub (above, n_bits)
}
""")

_SUM = fragment("""
sum <dtype> (x, x_zero, cells, centered, one, axes) => (code, many, is_mean, sum) {
    # less its mean a row is the same with and without the zero point: 0 then, no kernel
    wide      = Cast <to = @dtype> (x)
    zero_x    = Cast <to = @dtype> (x_zero)
    many      = Cast <to = @dtype> (cells)
    is_mean   = Cast <to = @dtype> (centered)
    unit_x    = Cast <to = @dtype> (one)
    has_zero  = Sub (unit_x, is_mean)
    origin    = Mul (zero_x, has_zero)
    code      = Sub (wide, origin)
    sum       = ReduceSum (code, axes)
}
""")

_SQUARES = fragment("""
squares (code, axes) => (squares) {
    square    = Mul (code, code)
    squares   = ReduceSum (square, axes)
}
""")

_SQUARES_AT_ONCE = fragment("""
squares_at_once (code, axes) => (squares) {
    squares   = ReduceSumSquare (code, axes)
}
""")

_VARIANCE = fragment("""
variance (code, many, is_mean, sum, squares) => (variance, distance) {
    total     = Mul (sum, is_mean)
    spread    = Mul (squares, many)
    of_total  = Mul (total, total)
    variance  = Sub (spread, of_total)
    scaled_x  = Mul (code, many)
    distance  = Sub (scaled_x, total)
}
""")

_RADICAND = fragment("""
radicand (variance, twice_in, epsilon) => (radicand) {
    # the variance is cells**2 times that of the codes, with as many fraction bits as fit
    whole     = Cast <to = 7> (variance)
    whole_in  = Cast <to = 13> (whole)
    raised_in = BitShift <direction = "LEFT"> (whole_in, twice_in)
    raised_v  = Cast <to = 7> (raised_in)
    radicand  = Add (raised_v, epsilon)
}
""")


def _newton() -> Fragment:
    """floor(sqrt(radicand)), at least 1: from a power of two above it down to it.

    The start is at most twice the root, so that its relative error is at most 1, then 1/4,
    1/40, 1/3280, 5e-8, 1e-15: six steps reach the integer, which no step leaves again.
    """
    text = """
newton (radicand, none, one, one_in) => (root) {
    is_some   = Greater (radicand, none)
    positive  = Where (is_some, radicand, one)
    rest_5    = Add (positive, none)
    length_5  = Sub (positive, positive)
    """
    for stage in reversed(range(5)):  # 32, 16, 8, 4 and 2 bits
        text += f"""
    bits_{stage}    = Constant <value = int64 {{{2 << stage}}}> ()
    bits_in_{stage} = Cast <to = 13> (bits_{stage})
    rest_in_{stage} = Cast <to = 13> (rest_{stage + 1})
    high_in_{stage} = BitShift <direction = "RIGHT"> (rest_in_{stage}, bits_in_{stage})
    high_{stage}    = Cast <to = 7> (high_in_{stage})
    is_high_{stage} = Greater (high_{stage}, none)
    rest_{stage}    = Where (is_high_{stage}, high_{stage}, rest_{stage + 1})
    longer_{stage}  = Add (length_{stage + 1}, bits_{stage})
    length_{stage}  = Where (is_high_{stage}, longer_{stage}, length_{stage + 1})
    """
    text += """
    two       = Add (one, one)
    halved    = Div (length_0, two)
    places    = Add (halved, one)
    places_in = Cast <to = 13> (places)
    start_in  = BitShift <direction = "LEFT"> (one_in, places_in)
    root_0    = Cast <to = 7> (start_in)
    """
    roots = [*(f"root_{step}" for step in range(6)), "root"]
    for step, (root, after) in enumerate(pairwise(roots)):
        text += f"""
    quotient_{step} = Div (positive, {root})
    sum_{step}      = Add ({root}, quotient_{step})
    mean_{step}     = Div (sum_{step}, two)
    falls_{step}    = Less (mean_{step}, {root})
    {after} = Where (falls_{step}, mean_{step}, {root})
    """
    return fragment(text + "}")


_SQUARE_ROOT = fragment("""
square_root (radicand, none, one) => (root) {
    # off by one at most: the square says it
    real      = Cast <to = 11> (radicand)                                  # 11 is DOUBLE
    real_root = Sqrt (real)
    near      = Cast <to = 7> (real_root)
    back      = Mul (near, near)
    is_large  = Greater (back, radicand)
    one_less  = Sub (near, one)
    at_most   = Where (is_large, one_less, near)
    one_more  = Add (at_most, one)
    next_one  = Mul (one_more, one_more)
    is_small  = Greater (next_one, radicand)
    found     = Where (is_small, at_most, one_more)
    is_some   = Greater (found, none)
    root      = Where (is_some, found, one)
}
""")

_FACTOR = fragment("""
factor (dividend, root) => (factor) {
    factor    = Div (dividend, root)
}
""")

_PRODUCT = fragment("""
product (distance, factor) => (product) {
    product   = Mul (distance, factor)
}
""")

_SCALED = fragment("""
scaled (normal, multiplier, bias) => (scaled) {
    wide_m    = Cast <to = 7> (multiplier)
    times     = Mul (normal, wide_m)
    scaled    = Add (times, bias)
}
""")

_NORMAL = (
    _PRODUCT + rescaled("product", "one", "drop_bits", "normal", "half_to_even") + _SCALED
)

_IN_DOUBLE = fragment("""
in_double (drop_bits, shift, multiplier, bias) => (step_n, real_m0, real_off) {
    half_1    = Constant <value = double {0.5}> ()
    drop_real = Cast <to = 11> (drop_bits)                                 # 11 is DOUBLE
    step_n    = Pow (half_1, drop_real)
    shift_1   = Cast <to = 11> (shift)
    step_y    = Pow (half_1, shift_1)
    whole_m   = Cast <to = 11> (multiplier)
    whole_off = Cast <to = 11> (bias)
    real_m0   = Mul (whole_m, step_y)
    real_off  = Mul (whole_off, step_y)
}
""")
"""What onnxruntime folds when it loads: all these factors are powers of two."""

_REAL_FACTOR = fragment("""
real_factor (factor) => (factor_d) {
    factor_d  = Cast <to = 11> (factor)                                    # 11 is DOUBLE
}
""")

_NORMAL_IN_DOUBLE = fragment("""
normal_in_double (distance, factor_d, step_n, real_m0, real_off) => (value) {
    small_f   = Mul (factor_d, step_n)
    product   = Mul (distance, small_f)
    normal    = Round (product)
    times     = Mul (normal, real_m0)
    value     = Add (times, real_off)
}
""")

_ROOT_IN_DOUBLE = fragment("""
root_in_double (variance, twice, epsilon, all_bits) => (factor_d) {
    # below 2**52 the nearest double of a root is on its side of every integer
    unit_root = Constant <value = double {1.0}> ()
    two_root  = Constant <value = double {2.0}> ()
    twice_of  = Cast <to = 11> (twice)
    raises    = Pow (two_root, twice_of)
    real_eps  = Cast <to = 11> (epsilon)
    raised_v  = Mul (variance, raises)
    radicand  = Add (raised_v, real_eps)
    real_root = Sqrt (radicand)
    whole     = Floor (real_root)
    root      = Max (whole, unit_root)
    all_of    = Cast <to = 11> (all_bits)
    dividend_d = Pow (two_root, all_of)
    quotient  = Div (dividend_d, root)
    factor_d  = Floor (quotient)
}
""")


def fits_double(constants: Constants, attributes: Attributes) -> bool:
    """Whether no product or sum in double leaves 52 bits.

    A distance is at most sqrt(cells) times the root of the variance, so that its product with
    the factor is at most sqrt(cells) * 2**(factor_bits - root_bits), twice that where the root
    is 1 for one below 2; the multiple of the result is at most 2**norm_bits of that.
    """
    cells = attributes["cells"]
    longest = 2 * (isqrt(cells - 1) + 1)
    above = attributes["factor_bits"] - attributes["root_bits"]
    largest = int(np.abs(constants["multiplier"].astype(np.int64)).max(initial=0))
    biases = int(np.abs(constants["bias"]).max(initial=0))
    scaled = (longest << attributes["norm_bits"]) * largest + biases
    return bool(longest << above <= LARGEST_DOUBLE and scaled <= LARGEST_DOUBLE)


def root_fits_double(constants: Constants, attributes: Attributes) -> bool:
    """Whether radicands stay below 2**52, and so do quotients with them."""
    largest = _largest_radicand(constants, attributes)
    return bool(largest < LARGEST_DOUBLE) and attributes["factor_bits"] <= 52


def sums_fit_double(constants: Constants, attributes: Attributes) -> bool:
    """Whether the products of sums that the variance is the difference of stay below 2**52."""
    return _largest_product(constants, attributes) < LARGEST_DOUBLE


def fits_int64(constants: Constants, attributes: Attributes) -> bool:
    """Whether the variance of no row, with its fraction bits and epsilon, leaves 62 bits."""
    largest = _largest_radicand(constants, attributes)
    return max(largest, _largest_product(constants, attributes)) < LARGEST_RADICAND


def _largest_product(constants: Constants, attributes: Attributes) -> int:
    limits, zero = np.iinfo(constants["x_zero"].dtype), int(constants["x_zero"])
    zero = 0 if attributes["centered"] else zero
    return int((attributes["cells"] * max(limits.max - zero, zero - limits.min)) ** 2)


def _largest_radicand(constants: Constants, attributes: Attributes) -> int:
    cells = attributes["cells"]
    limits, zero = np.iinfo(constants["x_zero"].dtype), int(constants["x_zero"])
    reach = limits.max - limits.min
    if not attributes["centered"]:
        reach = 2 * max(limits.max - zero, zero - limits.min)
    largest = (cells * reach) ** 2 // 4 + 1 << 2 * attributes["root_bits"]
    return int(largest + int(constants["epsilon"].max(initial=0)))


def _in_double(rounding: Rounding) -> Sequence[Body]:
    """All in double where the radicand fits it; else its root is made right in int64."""
    variance = _SUM.having(dtype=11) + _SQUARES_AT_ONCE + _VARIANCE  # 11 is DOUBLE
    before = _AXES + variance + _IN_DOUBLE
    behind = _NORMAL_IN_DOUBLE + rounded_double("value", "level", rounding) + STORE_DOUBLE
    exact = _RADICAND + _SQUARE_ROOT + _FACTOR + _REAL_FACTOR
    accepted = all_of(rounds(rounding), fits_double, sums_fit_double)
    return [
        Body(
            overload(rounding),
            "onnxruntime",
            before + _ROOT_IN_DOUBLE + behind,
            accepts=all_of(accepted, root_fits_double),
        ),
        Body(
            overload(rounding, "double_root"),
            "onnxruntime",
            before + exact + behind,
            accepts=accepted,
        ),
    ]


_PORTABLE = (
    _AXES
    + _SUM.having(dtype=7)  # 7 is INT64
    + _SQUARES
    + _VARIANCE
    + _RADICAND
    + _newton()
    + _FACTOR
    + _NORMAL
)


def reference(
    x: NDArray[Any],
    x_zero: NDArray[Any],
    multiplier: NDArray[np.int32],
    bias: Int64,
    shift: NDArray[np.int32],
    epsilon: Int64,
    y_zero: NDArray[Any],
    y_min: NDArray[Any],
    y_max: NDArray[Any],
    *,
    axis: int,
    cells: int,
    centered: int,
    root_bits: int,
    factor_bits: int,
    norm_bits: int,
    rounding: Rounding,
) -> NDArray[Any]:
    """Stored x, any shape; a row is what lies along ``axis`` (negative) and all behind it.

    It has ``cells`` codes. ``multiplier`` and ``bias`` broadcast to x, ``epsilon`` to rows;
    ``shift`` is a number.
    """
    axes = tuple(range(axis, 0))
    code = np.asarray(x).astype(np.int64) - x_zero
    total = code.sum(axis=axes, keepdims=True) * centered
    variance = cells * (code * code).sum(axis=axes, keepdims=True) - total * total
    radicand = (variance << root_bits * 2) + epsilon
    roots = np.array([max(isqrt(int(each)), 1) for each in radicand.flat], np.int64)
    factor = (1 << factor_bits) // roots.reshape(radicand.shape)
    drop_bits = factor_bits - root_bits - norm_bits
    product = (cells * code - total) * factor
    normal = rounding_shift(product, drop_bits, "half_to_even")
    level = rounding_shift(normal * multiplier.astype(np.int64) + bias, shift, rounding)
    return saturate(level, y_zero, y_min, y_max).astype(y_zero.dtype)


def _a_constant_changes_nothing(
    x: NDArray[Any], x_zero: NDArray[Any], *args: Any, **attributes: Any
) -> None:
    attributes["centered"] = 1
    other = np.asarray(int(x_zero) ^ 1, x_zero.dtype)
    np.testing.assert_array_equal(
        reference(x, x_zero, *args, **attributes), reference(x, other, *args, **attributes)
    )


def _a_constant_row_gives_the_bias(
    x: NDArray[Any], x_zero: NDArray[Any], *args: Any, **attributes: Any
) -> None:
    attributes["centered"] = 1
    _multiplier, bias, shift, _epsilon, *ends = args
    still = np.full_like(x, x.flat[0] if x.size else x_zero)
    level = rounding_shift(bias, shift, attributes["rounding"])
    expected = np.broadcast_to(saturate(level, *ends), x.shape)
    np.testing.assert_array_equal(reference(still, x_zero, *args, **attributes), expected)


def _factors_are_of_rows(constants: Constants, attributes: Attributes, shape: Shape) -> bool:
    """One factor for each place of a row, or one for several; rows of x have ``cells``."""
    multiplier, axis, cells = constants["multiplier"], attributes["axis"], attributes["cells"]
    if multiplier.ndim < -axis or multiplier.size == 0:
        return False
    places = multiplier.shape[axis:]
    if cells % prod(places) or (1 not in places and prod(places) != cells):
        return False
    known = [] if shape is None else [size for size in shape[axis:] if isinstance(size, int)]
    is_row = len(known) < -axis or prod(known) == cells
    return is_row and (shape is None or keeps_shape(shape, multiplier))


def _factors_have_offsets(
    constants: Constants, _attributes: Attributes, _shape: Shape
) -> bool:
    return constants["bias"].shape == constants["multiplier"].shape


def _epsilons_are_of_rows(constants: Constants, attributes: Attributes, _shape: Shape) -> bool:
    """One for all rows, or one for each of those that have factors of their own."""
    epsilon, axis = constants["epsilon"], attributes["axis"]
    places = constants["multiplier"].shape
    return epsilon.shape in ((), (*places[:axis], *[1] * -axis))


def _bits_are_left(_constants: Constants, attributes: Attributes, _shape: Shape) -> bool:
    root, factor, norm = (attributes[f"{name}_bits"] for name in ("root", "factor", "norm"))
    return bool(norm < factor - root)


INT_LAYER_NORM = Op(
    name="IntLayerNorm",
    inputs={
        "x": Data("S"),
        "x_zero": Constant("S"),
        "multiplier": Constant("int32", (...,)),
        "bias": Constant("int64", (...,)),
        "shift": Shift(),
        "epsilon": Constant("int64", (...,), limits=range(1 << 62)),
        **ends("Y"),
    },
    outputs={"y": Data("Y")},
    attributes={
        "axis": Axis(),
        "cells": Integer(1),
        "centered": SWITCH,
        "root_bits": Integer(0, 31),
        "factor_bits": Integer(0, 62),
        "norm_bits": Integer(1),
        "rounding": ONCE,
    },
    reference=reference,
    bodies=[
        *(body for rounding in ROUNDINGS for body in _in_double(rounding)),
        *bodies_of_one_rounding(_PORTABLE, "shift"),
    ],
    evidence="bounded",
    scaling=Scaling.NORM,
    constraints=[
        Constraint("factors broadcast to x and to rows of `cells`", _factors_are_of_rows),
        Constraint("bias has the shape of multiplier", _factors_have_offsets),
        Constraint("epsilon is one number, or one for each row of it", _epsilons_are_of_rows),
        Constraint("norm_bits < factor_bits - root_bits", _bits_are_left),
    ],
    laws={
        "a constant added to all codes changes nothing": _a_constant_changes_nothing,
        "a constant row gives the bias": _a_constant_row_gives_the_bias,
    },
    formula="Over each row of n = `cells` codes, along `axis` and all behind it: d = n * (x - "
    "x_zero) - t, v = n * sum of (x - x_zero)**2 - t**2, t = sum of (x - x_zero) if "
    "`centered`, else 0; root = floor(sqrt(v * 4**root_bits + epsilon)), at least 1; normal "
    "= round(d * floor(2**factor_bits / root) / 2**(factor_bits - root_bits - norm_bits)), "
    "half to even; y = clamp(round((normal * multiplier + bias) / 2**shift) + y_zero, y_min, "
    "y_max). Of LayerNormalization, InstanceNormalization and, not centered, "
    "RMSNormalization.",
)
