"""GemmlowpSoftmax: TFLite's Softmax of 8 bits, gemmlowp's fixed point and Newton's steps."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import Axis
from opsets.declaration import Constant, Constraint, Data, Scaling, Shape, ends
from opsets.double import STORE_DOUBLE
from opsets.fixed_point import rounding_shift, saturate
from opsets.fragments import fragment
from opsets.gemmlowp import LARGEST_SUM, ONE_OF_SUM, SUM_BITS, reciprocal
from opsets.laws import order_moves_with_the_row
from opsets.op import Attributes, Body, Constants, Op
from opsets.portable import STORE
from opsets.rounding import doubling_high_multiply

OUTPUT_BITS = 8
"""A code of the output is 1 / 256."""

_TERMS = fragment("""
terms <axis> (x, exponentials) => (size_1, axes, term) {
    axis_0     = Constant <value_int: int = @axis> ()
    size_1     = Constant <value = int64[1] {1}> ()
    axes       = Reshape (axis_0, size_1)
    code       = Cast <to = 6> (x)                                         # 6 is INT32
    top        = ReduceMax (code, axes)
    distance   = Sub (top, code)
    entries    = Cast <to = 7> (exponentials)                              # 7 is INT64
    term       = Gather <axis = 0> (entries, distance)
}
""")

_SUM = fragment("""
sum (term, axes) => (sum) {
    # with 19 bits behind the point
    half_of_12 = Constant <value = int64 {2048}> ()
    all_of_12  = Constant <value = int64 {4096}> ()
    raised_12  = Add (term, half_of_12)
    short_term = Div (raised_12, all_of_12)
    sum        = ReduceSum (short_term, axes)
}
""")

_TOTAL = fragment("""
total (sum) => (total) {
    # from 1 to less than 512
    least      = Constant <value = int64 {524288}> ()                      # 2**19
    most       = Constant <value = int64 {268435455}> ()                   # 2**28 - 1
    is_less    = Less (sum, least)
    at_least   = Where (is_less, least, sum)
    is_more    = Greater (at_least, most)
    total      = Where (is_more, most, at_least)
}
""")

_HALF = fragment("""
half (total, size_1) => (half, places, one_in, two) {
    # half of the sum, shifted to be from 1 to 2
    one        = Constant <value = int64 {1}> ()
    one_in     = Cast <to = 13> (one)                                      # 13 is UINT64
    of_20      = Constant <value = int64 {20}> ()
    of_28      = Constant <value = int64 {28}> ()
    exponents  = Range (of_20, of_28, one)
    bits       = Cast <to = 13> (exponents)
    powers_in  = BitShift <direction = "LEFT"> (one_in, bits)
    powers     = Cast <to = 7> (powers_in)
    behind     = Constant <value = int64[1] {-1}> ()
    sum_shape  = Shape (total)
    wide_shape = Concat <axis = 0> (sum_shape, size_1)
    column     = Reshape <allowzero = 1> (total, wide_shape)
    under      = Sub (powers, one)
    passed     = Greater (column, under)
    counted    = Cast <to = 7> (passed)                                    # 7 is INT64
    places     = ReduceSum <keepdims = 0> (counted, behind)
    all_12     = Constant <value = int64 {12}> ()
    room       = Sub (all_12, places)
    room_in    = Cast <to = 13> (room)                                     # 13 is UINT64
    total_in   = Cast <to = 13> (total)
    shifted_in = BitShift <direction = "LEFT"> (total_in, room_in)
    shifted    = Cast <to = 7> (shifted_in)
    two        = Constant <value = int64 {2}> ()
    half       = Div (shifted, two)
}
""")

_START = fragment("""
start (half) => (first, unit_31, half_31, one_of_2, four, lift, lift_back) {
    # 48 / 17 - 32 / 17 * half, with 29 bits behind the point
    unit_31    = Constant <value = int64 {2147483648}> ()                  # 2**31
    half_31    = Constant <value = int64 {1073741824}> ()                  # 2**30
    one_of_2   = Constant <value = int64 {536870912}> ()                   # 2**29
    four       = Constant <value = int64 {4}> ()
    lift       = Constant <value = int64 {144115188075855872}> ()          # 2**57
    lift_back  = Constant <value = int64 {67108864}> ()                    # 2**57 >> 31
    slope      = Constant <value = int64 {1010580540}> ()                  # 32 / 17
    below_half = Constant <value = int64 {1073741823}> ()                  # ties of -p go up
    begin      = Constant <value = int64 {1515870810}> ()                  # 48 / 17
    sloped     = Mul (half, slope)
    sloped_up  = Add (sloped, below_half)
    high_slope = Div (sloped_up, unit_31)
    first      = Sub (begin, high_slope)
}
""")

_STEP = fragment("""
newton (x, half, unit_31, half_31, one_of_2, four, lift, lift_back) => (next) {
    # x + x * (1 - half * x); ONNX divides towards zero, so that what may be negative is lifted
    product_n  = Mul (half, x)
    product_up = Add (product_n, half_31)
    near_one   = Div (product_up, unit_31)
    error      = Sub (one_of_2, near_one)
    change     = Mul (x, error)
    change_up  = Add (change, half_31)
    lifted     = Add (change_up, lift)
    high       = Div (lifted, unit_31)
    high_back  = Sub (high, lift_back)
    quadruple  = Mul (high_back, four)
    next       = Add (x, quadruple)
}
""")

_SHARE = fragment("""
share (third, two) => (share) {
    doubled    = Mul (third, two)
    one_of_0   = Constant <value = int64 {2147483647}> ()                  # 2**31 - 1
    is_beyond  = Greater (doubled, one_of_0)
    share      = Where (is_beyond, one_of_0, doubled)
}
""")

_LEVEL = fragment("""
level (share, term, places, half_31, unit_31, one_in) => (level) {
    product_s  = Mul (share, term)
    product_31 = Add (product_s, half_31)
    wanted     = Div (product_31, unit_31)
    all_22     = Constant <value = int64 {22}> ()
    before     = Add (places, all_22)
    before_in  = Cast <to = 13> (before)                                   # 13 is UINT64
    half_in    = BitShift <direction = "LEFT"> (one_in, before_in)
    half_step  = Cast <to = 7> (half_in)                                   # 7 is INT64
    raised_s   = Add (wanted, half_step)
    step       = Add (half_step, half_step)
    level      = Div (raised_s, step)
}
""")

_RECIPROCAL = (
    _TOTAL
    + _HALF
    + _START
    + _STEP(x="first", next="second")
    + _STEP(x="second", next="later")
    + _STEP(x="later", next="third")
    + _SHARE
)

_LOOKED_UP = fragment("""
looked_up <axis> (x, exponentials) => (size_1, high, low, sum) {
    # on a flat tensor GatherElements is several times as fast as Gather; tables of 15 and 16
    # bits of exponentials, so that double holds products with them, and of their 19 bits
    axis_0     = Constant <value_int: int = @axis> ()
    size_1     = Constant <value = int64[1] {1}> ()
    axes       = Reshape (axis_0, size_1)
    code       = Cast <to = 6> (x)                                         # 6 is INT32
    top        = ReduceMax (code, axes)
    distance   = Sub (top, code)
    rest       = Constant <value = int64[1] {-1}> ()
    flat       = Reshape (distance, rest)
    entries    = Cast <to = 11> (exponentials)                             # 11 is DOUBLE
    by_16      = Constant <value = double {0.0000152587890625}> ()         # 2**-16
    parts      = Mul (entries, by_16)
    highs      = Floor (parts)
    all_16     = Constant <value = double {65536.0}> ()
    back       = Mul (highs, all_16)
    lows       = Sub (entries, back)
    half_of_12 = Constant <value = double {2048.0}> ()
    raised_12  = Add (entries, half_of_12)
    by_12      = Constant <value = double {0.000244140625}> ()             # 2**-12
    parts_12   = Mul (raised_12, by_12)
    shorts     = Floor (parts_12)
    flat_high  = GatherElements <axis = 0> (highs, flat)
    flat_low   = GatherElements <axis = 0> (lows, flat)
    flat_short = GatherElements <axis = 0> (shorts, flat)
    x_shape    = Shape (x)
    high       = Reshape <allowzero = 1> (flat_high, x_shape)
    low        = Reshape <allowzero = 1> (flat_low, x_shape)
    short_term = Reshape <allowzero = 1> (flat_short, x_shape)
    real_sum   = ReduceSum (short_term, axes)
    sum        = Cast <to = 7> (real_sum)                                  # 7 is INT64
}
""")

_LEVEL_IN_DOUBLE = fragment("""
level_in_double (share, places, high, low) => (level) {
    # floor(share * term / 2**31 + 1 / 2), the whole part of the high product apart: no number
    # has more than 47 bits
    real_share = Cast <to = 11> (share)                                    # 11 is DOUBLE
    product_h  = Mul (real_share, high)
    by_15      = Constant <value = double {0.000030517578125}> ()          # 2**-15
    upper      = Mul (product_h, by_15)
    whole      = Floor (upper)
    fraction   = Sub (upper, whole)
    product_l  = Mul (real_share, low)
    by_31      = Constant <value = double {0.0000000004656612873077392578125}> ()  # 2**-31
    lower      = Mul (product_l, by_31)
    both       = Add (fraction, lower)
    half_r     = Constant <value = double {0.5}> ()
    raised_b   = Add (both, half_r)
    carry      = Floor (raised_b)
    wanted     = Add (whole, carry)
    real_k     = Cast <to = 11> (places)
    all_23     = Constant <value = double {23.0}> ()
    drop       = Add (real_k, all_23)
    step       = Pow (half_r, drop)
    value      = Mul (wanted, step)
    raised_v   = Add (value, half_r)
    level      = Floor (raised_v)
}
""")

_PORTABLE = (
    _TERMS
    + _SUM
    + _RECIPROCAL.only("share", "places", "half_31", "unit_31", "one_in")
    + _LEVEL
    + STORE
)
_DOUBLES = _LOOKED_UP + _RECIPROCAL.only("share", "places") + _LEVEL_IN_DOUBLE + STORE_DOUBLE


def reference(
    x: NDArray[Any],
    exponentials: NDArray[np.int32],
    y_zero: NDArray[Any],
    y_min: NDArray[Any],
    y_max: NDArray[Any],
    *,
    axis: int,
) -> NDArray[Any]:
    """Stored x, any shape; ``exponentials`` have 31 bits behind the point."""
    code = np.asarray(x).astype(np.int64)
    terms = exponentials.astype(np.int64)[code.max(axis=axis, keepdims=True) - code]
    sums = rounding_shift(terms, SUM_BITS, "half_away").sum(axis=axis, keepdims=True)
    share, places = reciprocal(np.clip(sums, ONE_OF_SUM, LARGEST_SUM))
    wanted = doubling_high_multiply(share, terms)
    level = rounding_shift(wanted, places + (31 - OUTPUT_BITS), "half_away")
    return saturate(level, y_zero, y_min, y_max).astype(y_zero.dtype)


def _none_is_negative(constants: Constants, _attributes: Attributes, _shape: Shape) -> bool:
    return int(constants["exponentials"].min()) >= 0


GEMMLOWP_SOFTMAX = Op(
    name="GemmlowpSoftmax",
    inputs={
        "x": Data("T"),
        "exponentials": Constant("int32", (256,)),
        **ends("T"),
    },
    outputs={"y": Data("T")},
    attributes={"axis": Axis()},
    reference=reference,
    bodies=[
        Body("onnxruntime", "onnxruntime", _DOUBLES),
        Body("portable", "portable", _PORTABLE),
    ],
    evidence="bounded",
    scaling=Scaling.SOFTMAX,
    constraints=[Constraint("no exponential is negative", _none_is_negative)],
    laws={"the result is in the order of the row": order_moves_with_the_row(reference)},
    formula="e = exponentials[(largest x along `axis`) - x], 31 bits behind the point, 0 "
    "where a code is too far below; s = sum along `axis` of floor(e / 2**12 + 1/2), which has "
    "19 bits behind the point, from 1 to less than 512; k = floor(log2(s)); r = 2**k / s by "
    "three of Newton's steps from 48/17 - 32/17 * s / 2**(k + 1), each product rounded to 31 "
    "bits; y = clamp(floor(floor(r * e / 2**31 + 1/2) / 2**(23 + k) + 1/2) + y_zero, y_min, "
    "y_max).",
    source="Source: TFLite, reference/softmax.h, with gemmlowp's fixedpoint.h.",
)
