"""TableSoftmax16: Softmax of 16-bit codes, exponentials by their high and their low bytes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import ONCE, Axis
from opsets.declaration import Constant, Data, Scaling, Shift, ends
from opsets.division import quotient
from opsets.double import STORE_DOUBLE
from opsets.fixed_point import ROUNDINGS, Rounding, rounding_divide, saturate
from opsets.fragments import fragment
from opsets.laws import order_moves_with_the_row
from opsets.op import Attributes, Body, Constants, Op, all_of
from opsets.portable import STORE, portable_overload, rounds
from opsets.qpasses_v1.table_softmax import DISTANCES

FRACTION_BITS = 22
"""Of ``low``, whose largest entry is 1: its products with int32 stay below 2**53."""

LARGEST_MULTIPLIER = (1 << 30) - 1
"""Twice a product of it with a term fits int64, as does its sum with a divisor."""

LARGEST_SHIFT = 30
"""A sum of 31 bits times 2**shift stays below 2**61."""

_PARTS = fragment("""
parts (distance) => (high_part, low_part) {
    width      = Constant <value = int32 {256}> ()
    high_part  = Div (distance, width)
    low_part   = Mod (distance, width)
}
""")

_TERMS = fragment("""
terms (high, low, high_part, low_part, axes) => (terms, cells) {
    high_in    = Gather <axis = 0> (high, high_part)
    low_in     = Gather <axis = 0> (low, low_part)
    wide_high  = Cast <to = 7> (high_in)                                   # 7 is INT64
    wide_low   = Cast <to = 7> (low_in)
    product    = Mul (wide_high, wide_low)
    half_part  = Constant <value = int64 {2097152}> ()                     # 2**21
    all_parts  = Constant <value = int64 {4194304}> ()                     # 2**22
    lifted     = Add (product, half_part)
    terms      = Div (lifted, all_parts)
    sum        = ReduceSum (terms, axes)
    least      = Constant <value = int64 {1}> ()
    has_any    = Less (least, sum)
    cells      = Where (has_any, sum, least)
}
""")

_TERMS_IN_DOUBLE = fragment("""
terms_in_double (x, high, low, high_part, low_part, axes) => (terms, total) {
    # on flat tensors GatherElements is several times as fast as Gather
    rest       = Constant <value = int64[1] {-1}> ()
    flat_high  = Reshape (high_part, rest)
    flat_low   = Reshape (low_part, rest)
    wide_high  = Cast <to = 11> (high)                                     # 11 is DOUBLE
    wide_low   = Cast <to = 11> (low)
    part       = Constant <value = double {2.384185791015625e-07}> ()      # 2**-22
    real_low   = Mul (wide_low, part)
    high_in    = GatherElements <axis = 0> (wide_high, flat_high)
    low_in     = GatherElements <axis = 0> (real_low, flat_low)
    product    = Mul (high_in, low_in)
    half       = Constant <value = double {0.5}> ()
    lifted     = Add (product, half)
    flat_term  = Floor (lifted)
    shape      = Shape (x)
    terms      = Reshape <allowzero = 1> (flat_term, shape)
    sum        = ReduceSum (terms, axes)
    unit       = Constant <value = double {1}> ()
    total      = Max (sum, unit)
}
""")

_QUOTIENT = fragment("""
quotient (terms, total, multiplier, shift) => (dividend, divisor) {
    two        = Constant <value = double {2}> ()
    real_m     = Cast <to = 11> (multiplier)                               # 11 is DOUBLE
    real_s     = Cast <to = 11> (shift)
    step       = Pow (two, real_s)
    dividend   = Mul (terms, real_m)
    divisor    = Mul (total, step)
}
""")

_NEAREST = fragment("""
nearest (dividend, divisor) => (level) {
    quotient   = Div (dividend, divisor)
    level      = Round (quotient)
}
""")

_TIES_UP = fragment("""
ties_up (dividend, divisor) => (level) {
    # (2 * dividend + divisor) / (2 * divisor) has its ties where the quotient is whole
    doubled    = Add (dividend, dividend)
    raised     = Add (doubled, divisor)
    twice      = Add (divisor, divisor)
    quotient   = Div (raised, twice)
    level      = Floor (quotient)
}
""")


def _is_exact_in_double(constants: Constants, _attributes: Attributes) -> bool:
    """Whether arithmetic in double precision gives what the integers give.

    A product of two entries is below 2**53, and so is a row's sum of up to 2**22 terms. Let N
    be a term times the multiplier, D the sum times 2**shift, a double whatever the shift. A
    quotient N / D that is no tie is 1 / (2 D) or more away from one, and its rounding error at
    most N / D * 2**-53, which is less because N is below 2**52: so Round gives the integer.
    Likewise (2 N + D) / (2 D), whose numerator is exact below 2**53, is 1 / (2 D) or more
    below the next whole number where it is not whole, and stays below it.
    """
    term, multiplier = int(constants["high"].max()), int(constants["multiplier"].max())
    return term * multiplier < 1 << 51 and int(constants["shift"].max()) < FRACTION_BITS


def _ties_go_up(_constants: Constants, attributes: Attributes) -> bool:
    """Whether ties go up: no level is negative, so away from zero is up."""
    return bool(attributes["rounding"] != "half_to_even")


_PORTABLE = DISTANCES + _PARTS + _TERMS
_DOUBLE = DISTANCES + _PARTS + _TERMS_IN_DOUBLE + _QUOTIENT

_BODIES = (
    Body(
        "onnxruntime",
        "onnxruntime",
        _DOUBLE + _NEAREST + STORE_DOUBLE,
        accepts=all_of(rounds("half_to_even"), _is_exact_in_double),
    ),
    Body(
        "onnxruntime_ties_up",
        "onnxruntime",
        _DOUBLE + _TIES_UP + STORE_DOUBLE,
        accepts=all_of(_ties_go_up, _is_exact_in_double),
    ),
    *(
        Body(
            portable_overload(rounding),
            "portable",
            _PORTABLE + quotient(rounding)(acc="terms") + STORE,
            accepts=rounds(rounding),
        )
        for rounding in ROUNDINGS
    ),
)


def terms_of(
    distance: NDArray[Any], high: NDArray[np.int32], low: NDArray[np.int32]
) -> NDArray[np.int64]:
    """The exponential of each distance, any shape, from 0 to 65,535: int64."""
    distance = np.asarray(distance, np.int64)
    product = high.astype(np.int64)[distance >> 8] * low.astype(np.int64)[distance & 255]
    return np.asarray((product + (1 << FRACTION_BITS - 1)) >> FRACTION_BITS, np.int64)


def reference(
    x: NDArray[np.int16],
    high: NDArray[np.int32],
    low: NDArray[np.int32],
    multiplier: NDArray[np.int32],
    shift: NDArray[np.int32],
    y_zero: NDArray[Any],
    y_min: NDArray[Any],
    y_max: NDArray[Any],
    *,
    axis: int,
    rounding: Rounding,
) -> NDArray[Any]:
    """Stored x, any shape; ``high`` and ``low`` have 256 entries from 0 on.

    Indexed by the two bytes of how far a code lies below the largest of its row; one
    ``multiplier`` and one ``shift``, of the scale of y.
    """
    code = np.asarray(x).astype(np.int64)
    distance = code.max(axis=axis, keepdims=True) - code
    terms = terms_of(distance, high, low)
    total = np.maximum(terms.sum(axis=axis, keepdims=True), 1)
    divisor = total << shift.astype(np.int64)
    level = rounding_divide(terms * multiplier.astype(np.int64), divisor, rounding)
    return saturate(level, y_zero, y_min, y_max).astype(y_zero.dtype)


def _a_constant_changes_nothing(x: NDArray[Any], *args: Any, **attributes: Any) -> None:
    """As far as the sum is a code, row by row."""
    limits, axis = np.iinfo(x.dtype), attributes["axis"]
    room = limits.max - x.max(axis=axis, keepdims=True, initial=limits.min).astype(np.int64)
    raised = (x + room).astype(x.dtype)
    np.testing.assert_array_equal(
        reference(x, *args, **attributes), reference(raised, *args, **attributes)
    )


TABLE_SOFTMAX16 = Op(
    name="TableSoftmax16",
    inputs={
        "x": Data("int16"),
        "high": Constant("int32", (256,), limits=range(1 << 31)),
        "low": Constant("int32", (256,), limits=range((1 << FRACTION_BITS) + 1)),
        "multiplier": Constant("int32", limits=range(LARGEST_MULTIPLIER + 1)),
        "shift": Shift(limits=range(1, LARGEST_SHIFT + 1)),
        **ends("Y"),
    },
    outputs={"y": Data("Y")},
    attributes={
        "axis": Axis(),
        "rounding": ONCE,
    },
    reference=reference,
    bodies=_BODIES,
    evidence="bounded",
    scaling=Scaling.SOFTMAX,
    laws={
        "the result is in the order of the row": order_moves_with_the_row(reference),
        "a constant added to a row changes nothing": _a_constant_changes_nothing,
    },
    formula="d = (largest x along `axis`) - x; e = floor(high[d / 256] * low[d mod 256] / "
    "2**22 + 1 / 2), d / 256 rounded down; total = sum of e along `axis`, at least 1; y = "
    "clamp(round(e * multiplier / (total * 2**shift)) + y_zero, y_min, y_max).",
)
