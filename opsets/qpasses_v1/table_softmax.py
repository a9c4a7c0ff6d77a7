"""TableSoftmax: Softmax along one axis by two tables of exponentials and one division."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import ONCE, SWITCH, Axis
from opsets.declaration import Constant, Constraint, Data, Scaling, Shape, ends
from opsets.double import STORE_DOUBLE
from opsets.fixed_point import ROUNDINGS, Rounding, rounding_divide, saturate
from opsets.fragments import fragment
from opsets.laws import order_moves_with_the_row
from opsets.op import Attributes, Body, Constants, Op, all_of
from opsets.portable import STORE, portable_overload, rounds

LARGEST_NUMERATORS = {1: 1 << 40, 2: 1 << 48}
"""By the bytes of an output: an accumulator of 32 bits and as many as that."""

DISTANCES = fragment("""
index <axis> (x) => (axes, code, distance) {
    axis_0    = Constant <value_int: int = @axis> ()
    size_1    = Constant <value = int64[1] {1}> ()
    axes      = Reshape (axis_0, size_1)
    code      = Cast <to = 6> (x)                                          # 6 is INT32
    top       = ReduceMax (code, axes)
    distance  = Sub (top, code)
}
""")
"""Statements that tell how far each code lies below the largest of its row."""

_CHOICE = fragment("""
choice <published> (code, distance) => (one, published, as_is, index) {
    one       = Constant <value = int64 {1}> ()
    published = Constant <value_int: int = @published> ()
    as_is     = Equal (published, one)
    index     = Where (as_is, code, distance)
}
""")

_SHARES = fragment("""
shares (index, axes, denominators, numerators, one, as_is) => (dividend, divisor) {
    entries   = Cast <to = 7> (denominators)                               # 7 is INT64
    terms     = Gather <axis = 0> (entries, index)
    shares    = Gather <axis = 0> (numerators, index)
    sum       = ReduceSum (terms, axes)
    none      = Sub (one, one)
    is_none   = Equal (sum, none)
    total     = Where (is_none, one, sum)
    # (2 * share + total) / (2 * total) has its ties where the quotient is whole
    half      = Where (as_is, none, total)
    divisor   = Add (total, total)
    doubled   = Add (shares, shares)
    dividend  = Add (doubled, half)
}
""")

_PORTABLE = DISTANCES + _CHOICE + _SHARES

_TIES_UP = fragment("""
ties_up (dividend, divisor) => (level) {
    level     = Div (dividend, divisor)
}
""")

_TIES_TO_EVEN = fragment("""
ties_to_even (dividend, divisor, one, published) => (level) {
    quotient  = Div (dividend, divisor)
    two       = Add (one, one)
    back      = Mul (quotient, divisor)
    is_tie    = Equal (back, dividend)
    odd       = Mod (quotient, two)
    is_odd    = Equal (odd, one)
    goes_down = And (is_tie, is_odd)
    down      = Cast <to = 7> (goes_down)
    rounds    = Sub (one, published)
    less      = Mul (down, rounds)
    level     = Sub (quotient, less)
}
""")

_LOOK_UP = fragment("""
look_up (x, index, axes, denominators, numerators) => (shares, unit, total) {
    # on a flat tensor GatherElements is several times as fast as Gather
    rest      = Constant <value = int64[1] {-1}> ()
    flat      = Reshape (index, rest)
    entries   = Cast <to = 11> (denominators)                              # 11 is DOUBLE
    wide      = Cast <to = 11> (numerators)
    flat_term = GatherElements <axis = 0> (entries, flat)
    flat_part = GatherElements <axis = 0> (wide, flat)
    shape     = Shape (x)
    terms     = Reshape <allowzero = 1> (flat_term, shape)
    shares    = Reshape <allowzero = 1> (flat_part, shape)
    sum       = ReduceSum (terms, axes)
    unit      = Constant <value = double {1}> ()
    total     = Max (sum, unit)
}
""")

_NEAREST = fragment("""
nearest (shares, total) => (level) {
    quotient  = Div (shares, total)
    level     = Round (quotient)
}
""")

_FLOOR = fragment("""
floor (shares, total, unit, as_is) => (level) {
    nothing   = Sub (unit, unit)
    half      = Where (as_is, nothing, total)
    divisor   = Add (total, total)
    doubled   = Add (shares, shares)
    dividend  = Add (doubled, half)
    quotient  = Div (dividend, divisor)
    level     = Floor (quotient)
}
""")


def _is_exact_in_double(constants: Constants, _attributes: Attributes) -> bool:
    """Whether arithmetic in double precision gives what the integers give.

    The sum S of up to 2**21 entries of int32 and the numerator N are whole numbers below
    2**53, as are the dividend 2 N + S and the divisor 2 S. A quotient N / S that is no tie is
    1 / (2 S) or more away from one, and its rounding error at most N / S * 2**-53, which is
    less because N is below 2**52: so Round gives the integer, to even where N / S is a tie.
    Likewise (2 N + S) / (2 S), where it is not whole, is 1 / (2 S) or more below the next
    whole number, and stays below it.
    """
    numerators, itemsize = constants["numerators"], constants["y_zero"].dtype.itemsize
    largest = LARGEST_NUMERATORS[itemsize]
    is_within = 0 <= int(numerators.min()) <= int(numerators.max()) <= largest
    return is_within and int(constants["denominators"].min()) >= 0


def _subtracts(_constants: Constants, attributes: Attributes) -> bool:
    """Whether codes are subtracted from the largest of their row."""
    return not attributes["published"]


def _floors(constants: Constants, attributes: Attributes) -> bool:
    """Whether the quotient is truncated, or has its ties up."""
    ties_up = attributes["rounding"] != "half_to_even"
    return ties_up or not _subtracts(constants, attributes)


_BODIES = (
    Body(
        "onnxruntime",
        "onnxruntime",
        DISTANCES + _LOOK_UP(index="distance") + _NEAREST + STORE_DOUBLE,
        accepts=all_of(rounds("half_to_even"), _subtracts, _is_exact_in_double),
    ),
    Body(
        "onnxruntime_floor",
        "onnxruntime",
        DISTANCES + _CHOICE + _LOOK_UP + _FLOOR + STORE_DOUBLE,
        accepts=all_of(_floors, _is_exact_in_double),
    ),
    *(
        Body(
            portable_overload(rounding),
            "portable",
            _PORTABLE + (_TIES_TO_EVEN if rounding == "half_to_even" else _TIES_UP) + STORE,
            accepts=rounds(rounding),
        )
        for rounding in ROUNDINGS
    ),
)


def reference(
    x: NDArray[Any],
    denominators: NDArray[np.int32],
    numerators: NDArray[np.int64],
    y_zero: NDArray[Any],
    y_min: NDArray[Any],
    y_max: NDArray[Any],
    *,
    axis: int,
    published: int,
    rounding: Rounding,
) -> NDArray[Any]:
    """Stored x, any shape; both tables have 256 entries from 0 on.

    ``denominators`` and ``numerators`` are indexed by how far a code lies below the largest
    of its row. If ``published`` is 1, by the byte of the code itself, and the quotient is
    truncated: github.com/yehangyang/Activation_Function_Quantization.
    """
    code = np.asarray(x).astype(np.int64)
    index = code if published else code.max(axis=axis, keepdims=True) - code
    terms = denominators.astype(np.int64)[index]
    total = np.maximum(terms.sum(axis=axis, keepdims=True), 1)
    shares = numerators[index]
    level = shares // total if published else rounding_divide(shares, total, rounding)
    return saturate(level, y_zero, y_min, y_max).astype(y_zero.dtype)


def _a_constant_changes_nothing(x: NDArray[Any], *args: Any, **attributes: Any) -> None:
    """As far as the sum is a code, row by row; and only with the largest subtracted."""
    attributes["published"] = 0
    limits, axis = np.iinfo(x.dtype), attributes["axis"]
    room = limits.max - x.max(axis=axis, keepdims=True, initial=limits.min).astype(np.int64)
    raised = (x + room).astype(x.dtype)
    np.testing.assert_array_equal(
        reference(x, *args, **attributes), reference(raised, *args, **attributes)
    )


def _has_a_record(_constants: Constants, attributes: Attributes, _shape: Shape) -> bool:
    return not attributes["published"]


TABLE_SOFTMAX = Op(
    name="TableSoftmax",
    inputs={
        "x": Data("T"),
        "denominators": Constant("int32", (256,)),
        "numerators": Constant("int64", (256,)),
        **ends("Y"),
    },
    outputs={"y": Data("Y")},
    attributes={
        "axis": Axis(),
        "published": SWITCH,
        "rounding": ONCE,
    },
    reference=reference,
    bodies=_BODIES,
    evidence="bounded",
    scaling=Scaling.SOFTMAX,
    constraints=[Constraint("`published` is 0: records know no other tables", _has_a_record)],
    laws={
        "the result is in the order of the row": order_moves_with_the_row(reference),
        "a constant added to a row changes nothing": _a_constant_changes_nothing,
    },
    formula="d = (largest x along `axis`) - x; total = sum of denominators[d] along `axis`, "
    "at least 1; y = clamp(round(numerators[d] / total) + y_zero, y_min, y_max). If "
    "`published` is 1, d = byte of x, and the quotient is truncated.",
)
