"""IntReduce: sums and means over any axes, whose sizes may be known at run time only."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import SWITCH, TWICE, Axes, Integer
from opsets.declaration import Constant, Data, Scaling, Shift, ends
from opsets.division import DIVIDED_IN_DOUBLE, divided, fits_double
from opsets.fixed_point import ROUNDINGS, Rounding, rounding_divide, saturate
from opsets.fragments import fragment
from opsets.op import Attributes, Body, Constants, Op, all_of, reads_bytes, reads_words
from opsets.portable import bodies_of_product, portable_overload, rounds
from opsets.rounding import NodeRounding, requantize

_AXES = fragment("""
axes <axes> (x) => (axes, x_shape, count) {
    axes     = Constant <value_ints: ints = @axes> ()
    x_shape  = Shape (x)
    extents  = Gather <axis = 0> (x_shape, axes)
    count    = ReduceProd <keepdims = 0> (extents)
}
""")

_SUM = fragment("""
sum <keepdims, type> (x, x_zero, axes) => (acc) {
    wide     = Cast <to = @type> (x)
    origin   = Cast <to = @type> (x_zero)
    levels   = Sub (wide, origin)
    acc      = ReduceSum <keepdims: int = @keepdims> (levels, axes)
}
""")

_INT32_SUM, _INT64_SUM = (_SUM.having(type=each) for each in (6, 7))
"""Of bytes, and of words, of which 65,536 leave int32."""

_MATRIX_SUM = fragment("""
matrix_sum <keepdims> (x, x_zero, axes, x_shape, count) => (acc) {
    # the last axes in one, times a column of ones: four times as fast as ReduceSum
    rest     = Constant <value = int64[1] {-1}> ()
    one_1    = Constant <value = int64[1] {1}> ()
    zero_1   = Constant <value = int64[1] {0}> ()
    inner    = Reshape (count, one_1)
    in_rows  = Concat <axis = 0> (rest, inner)
    rows     = Reshape (x, in_rows)
    on_end   = Concat <axis = 0> (inner, one_1)
    ones     = ConstantOfShape <value = int8[1] {1}> (on_end)
    sums     = MatMulInteger (rows, ones, x_zero)
    number   = Shape (axes)
    behind   = Neg (number)
    leading  = Slice (x_shape, zero_1, behind)
    keep     = Constant <value_int: int = @keepdims> ()
    kept     = Mul (number, keep)
    singles  = ConstantOfShape <value = int64[1] {1}> (kept)
    y_shape  = Concat <axis = 0> (leading, singles)
    acc      = Reshape (sums, y_shape)
}
""")

_DOUBLE_SUM = fragment("""
double_sum <keepdims> (x, x_zero, axes, count) => (acc) {
    # double holds every sum
    wide     = Cast <to = 11> (x)                                          # 11 is DOUBLE
    total    = ReduceSum <keepdims: int = @keepdims> (wide, axes)
    many     = Cast <to = 11> (count)
    origin   = Cast <to = 11> (x_zero)
    offset   = Mul (many, origin)
    acc      = Sub (total, offset)
}
""")

_CELLS = fragment("""
cells <mean> (count) => (cells) {
    one      = Constant <value = int64 {1}> ()
    mean     = Constant <value_int: int = @mean> ()
    is_mean  = Equal (mean, one)
    some     = Max (count, one)
    cells    = Where (is_mean, some, one)
}
""")

_WIDE = fragment("""
wide (acc, multiplier) => (wide_acc, wide_m) {
    wide_acc = Cast <to = 7> (acc)                                         # 7 is INT64
    wide_m   = Cast <to = 7> (multiplier)
}
""")

DIVIDES, FOLDED = 1, 2
"""Values of ``mean``: divided by its cells, or 1 / cells is in the multiplier; 0 is a sum."""

LARGEST_SUM = 1 << 31
MOST_CELLS = {1: LARGEST_SUM // 255, 2: LARGEST_SUM // 65535}
"""The sum of so many codes fits int32, by the bytes of a code."""

DOUBLE_MULTIPLIER = 1 << 22
DOUBLE_SHIFTS = 42, 20
"""Of a sum and of a mean: up to there arithmetic in double is exact, whatever the size."""


def _is_exact_in_double(constants: Constants, attributes: Attributes) -> bool:
    """Whether double holds every product and quotient, of any size."""
    read, written = (constants[f"{end}_zero"].dtype.itemsize for end in "xy")
    cells = MOST_CELLS[read] if attributes["mean"] == DIVIDES else 1
    multiplier, shift = int(constants["multiplier"]), int(constants["shift"])
    return fits_double(multiplier, shift, LARGEST_SUM, cells, written)


def _reduces_the_last(_constants: Constants, attributes: Attributes) -> bool:
    """Whether the axes, counted from the end, are the last ones."""
    axes = sorted(attributes["axes"])
    return axes == list(range(-len(axes), 0))


def _has_a_multiplier(_constants: Constants, attributes: Attributes) -> bool:
    """Whether nothing is divided by a number of cells."""
    return bool(attributes["mean"] != DIVIDES)


def _bodies() -> Sequence[Body]:
    found = [
        Body(
            "onnxruntime_double",
            "onnxruntime",
            _AXES + _DOUBLE_SUM + _CELLS + DIVIDED_IN_DOUBLE,
            accepts=all_of(rounds("half_to_even"), _is_exact_in_double),
        )
    ]
    for rounding in ROUNDINGS:
        name = portable_overload(rounding)
        after = _CELLS + divided(rounding)
        found += [
            Body(
                f"onnxruntime{name.removeprefix('portable')}",
                "onnxruntime",
                _AXES + _MATRIX_SUM + after,
                accepts=all_of(rounds(rounding), _reduces_the_last, reads_bytes),
            ),
            Body(
                name,
                "portable",
                _AXES + _INT32_SUM + after,
                accepts=all_of(rounds(rounding), reads_bytes),
            ),
            Body(
                name.replace("portable", "portable_words", 1),
                "portable",
                _AXES + _INT64_SUM + after,
                accepts=all_of(rounds(rounding), reads_words),
            ),
        ]
    twice = bodies_of_product(_AXES + _INT32_SUM + _WIDE, "shift", ("wide_acc", "wide_m"))[
        len(ROUNDINGS) :
    ]
    return [
        *found,
        *(replace(each, accepts=all_of(each.accepts, _has_a_multiplier)) for each in twice),
    ]


def reference(
    x: NDArray[Any],
    x_zero: NDArray[Any],
    multiplier: NDArray[np.int32],
    shift: NDArray[np.int32],
    y_zero: NDArray[Any],
    y_min: NDArray[Any],
    y_max: NDArray[Any],
    *,
    axes: Sequence[int],
    keepdims: int,
    mean: int,
    rounding: NodeRounding,
) -> NDArray[Any]:
    """Stored x, any shape; ``axes`` are negative. One multiplier and one shift.

    Two steps round only what is not divided: ``mean`` is 0 or 2.
    """
    level = np.asarray(x).astype(np.int64) - x_zero
    acc = level.sum(axis=tuple(axes), keepdims=bool(keepdims))
    if mean == DIVIDES:
        cells = max(prod(np.shape(x)[axis] for axis in axes), 1)
        divided_by = cells << int(shift)
        rounded = rounding_divide(acc * int(multiplier), divided_by, cast(Rounding, rounding))
    else:
        rounded = requantize(acc, multiplier, shift, rounding)
    return saturate(rounded, y_zero, y_min, y_max).astype(y_zero.dtype)


def _order_is_irrelevant(
    x: NDArray[Any], *args: Any, axes: Sequence[int], **attributes: Any
) -> None:
    turned = np.ascontiguousarray(np.flip(x, axis=tuple(axes)))
    np.testing.assert_array_equal(
        reference(x, *args, axes=axes, **attributes),
        reference(turned, *args, axes=axes, **attributes),
    )


INT_REDUCE = Op(
    name="IntReduce",
    inputs={
        "x": Data("S"),
        "x_zero": Constant("S"),
        "multiplier": Constant("int32"),
        "shift": Shift(),
        **ends("Y"),
    },
    outputs={"y": Data("Y")},
    attributes={
        "axes": Axes(),
        "keepdims": SWITCH,
        "mean": Integer(0, FOLDED),
        "rounding": TWICE,
    },
    reference=reference,
    bodies=_bodies(),
    evidence="thresholds",
    evidence_of_words="bounded",
    scaling=Scaling.RATIO,
    laws={"the order along the axes is irrelevant": _order_is_irrelevant},
    formula="acc = sum over `axes` (counted from the end) of (x - x_zero); cells = their "
    "sizes multiplied if `mean` is 1, else 1: of a sum (0), or of a mean whose multiplier "
    "holds 1 / cells (2); y = clamp(round(acc * multiplier / (cells * 2**shift)) + y_zero, "
    "y_min, y_max).",
)
