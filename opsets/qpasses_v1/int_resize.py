"""IntResize: linear interpolation along one to three axes, as exact integer sums."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import TWICE, Integer, Integers
from opsets.declaration import PER_CHANNEL, Constant, Data, Probe, Scaling, Shift, ends
from opsets.double import accumulator_bodies
from opsets.either_layout import CHANNELS_LAST, in_either_layout
from opsets.fixed_point import Int64, saturate
from opsets.float32 import WEIGHT_SCALE, float32_bodies
from opsets.fragments import Fragment, fragment
from opsets.op import Attributes, Constants, Op
from opsets.portable import LAST_AXIS, portable_bodies
from opsets.rounding import NodeRounding, requantize
from opsets.word_sums import ENDS_FIT, of_codes_alone, word_bodies

LARGEST_BYTE = 127
"""Coefficients that add up to no more are int8, and pairs of their products fit int16."""

LARGEST_FLOAT = 1 << 24
"""Integers up to here are exact in float32."""

_SIZES = fragment("""
sizes <dims, x_sizes, y_sizes> (x, indices, coefficients)
    => (first, second, all_else, x_sizes, y_sizes, y_shape, depth_i, height_i, width_i,
        depth_c, height_c, width_c) {
    first    = Constant <value_int = 0> ()
    second   = Constant <value_int = 1> ()
    zero_1   = Constant <value = int64[1] {0}> ()
    all_else = Constant <value = int64[1] {-1}> ()
    dims     = Constant <value_int: int = @dims> ()
    from_end = Mul (all_else, dims)
    x_sizes  = Constant <value_ints: ints = @x_sizes> ()
    y_sizes  = Constant <value_ints: ints = @y_sizes> ()
    x_shape  = Shape (x)
    leading  = Slice (x_shape, zero_1, from_end)
    three    = Constant <value = int64[1] {3}> ()
    resized  = Slice (y_sizes, from_end, three)
    y_shape  = Concat <axis = 0> (leading, resized)
    depth_i, height_i, width_i = Split <axis = 1> (indices, y_sizes)
    depth_c, height_c, width_c = Split <axis = 1> (coefficients, y_sizes)
}
""")

_BOXES = fragment("""
boxes <wide> (x, x_zero, x_sizes, all_else) => (boxes) {
    wide     = Cast <to = @wide> (x)
    origin   = Cast <to = @wide> (x_zero)
    levels   = Sub (wide, origin)
    box      = Concat <axis = 0> (all_else, x_sizes)
    boxes    = Reshape (levels, box)
}
""")

_MIXED = fragment("""
mixed <axis, dims, column> (source, i, c, first, second) => (mixed) {
    # two neighbours along the axis, times their coefficients
    column   = Constant <value = int64[@dims] {@column}> ()
    low      = Gather <axis = 0> (i, first)
    high     = Gather <axis = 0> (i, second)
    low_c    = Gather <axis = 0> (c, first)
    high_c   = Gather <axis = 0> (c, second)
    c_low    = Reshape (low_c, column)
    c_high   = Reshape (high_c, column)
    before   = Gather <axis = @axis> (source, low)
    behind   = Gather <axis = @axis> (source, high)
    left     = Mul (before, c_low)
    right    = Mul (behind, c_high)
    mixed    = Add (left, right)
}
""")


def _mixed(axis: int, name: str, source: str, result: str) -> Fragment:
    """``result``: neighbours of ``source`` [-1, depth, height, width] along ``axis``."""
    column = [-1, *[1] * (3 - axis)]
    along = _MIXED.having(axis=axis, dims=len(column), column=", ".join(map(str, column)))
    return along(source=source, i=f"{name}_i", c=f"{name}_c", mixed=result)


_SHAPED = fragment("""
shaped (mixed, y_shape) => (acc) {
    acc      = Reshape (mixed, y_shape)
}
""")

_ALONG_AXES = (
    _mixed(1, "depth", "boxes", "deep")
    + _mixed(2, "height", "deep", "tall")
    + _mixed(3, "width", "tall", "mixed")
    + _SHAPED
)

_SUMS = _SIZES + _BOXES.having(wide=6) + _ALONG_AXES  # 6 is INT32

_WIDE_COEFFICIENTS = fragment("""
wide_coefficients (coefficients) => (wide_coefficients) {
    wide_coefficients = Cast <to = 7> (coefficients)                       # 7 is INT64
}
""")

_WORD_SUMS = (
    _WIDE_COEFFICIENTS
    + _SIZES(coefficients="wide_coefficients")
    + _BOXES.having(wide=7)
    + _ALONG_AXES
)
"""Those of words, in int64."""

_MATRIX = fragment("""
matrix <place, behind, across, along> (x_sizes, i, c, first, second)
    => (from, to, x_size, matrix) {
    # the coefficients of an axis, those of one place of y across
    from     = Constant <value = int64[1] {@place}> ()
    to       = Constant <value = int64[1] {@behind}> ()
    across   = Constant <value = int64[2] {@across}> ()
    along    = Constant <value = int64[2] {@along}> ()
    x_size   = Slice (x_sizes, from, to)
    count    = Squeeze (x_size)
    range    = Range (first, count, second)
    numbers  = Cast <to = 6> (range)                                       # 6 is INT32
    places   = Reshape (numbers, across)
    low      = Gather <axis = 0> (i, first)
    high     = Gather <axis = 0> (i, second)
    low_c    = Gather <axis = 0> (c, first)
    high_c   = Gather <axis = 0> (c, second)
    lows     = Reshape (low, along)
    highs    = Reshape (high, along)
    lows_c   = Reshape (low_c, along)
    highs_c  = Reshape (high_c, along)
    is_low   = Equal (places, lows)
    is_high  = Equal (places, highs)
    at_low   = Cast <to = 6> (is_low)
    at_high  = Cast <to = 6> (is_high)
    left     = Mul (at_low, lows_c)
    right    = Mul (at_high, highs_c)
    matrix   = Add (left, right)
}
""")

_HEIGHT_MATRIX = _MATRIX.having(place=1, behind=2, across="1, -1", along="-1, 1")(
    **{"i": "height_i", "c": "height_c", "matrix": "height_matrix"},
    **{"from": "height_from", "to": "height_to", "x_size": "height_x_size"},
)

_WIDTH_MATRIX = _MATRIX.having(place=2, behind=3, across="-1, 1", along="1, -1")(
    **{"i": "width_i", "c": "width_c", "matrix": "width_matrix"},
    **{"from": "width_from", "to": "width_to", "x_size": "width_x_size"},
)

_TWO_PRODUCTS = fragment("""
two_products
    (x, x_zero, all_else, y_sizes, y_shape, height_x_size, height_matrix, width_from,
        width_to, width_x_size, width_matrix, scale, one, y_zero) => (y) {
    # two products with constant matrices: sums below 2**24 are exact in float
    in_rows   = Concat <axis = 0> (all_else, width_x_size)
    rows      = Reshape (x, in_rows)
    wide_8    = Cast <to = 3> (width_matrix)                               # 3 is INT8
    sums      = MatMulInteger (rows, wide_8, x_zero)
    floats    = Cast <to = 1> (sums)                                       # 1 is FLOAT
    y_width   = Slice (y_sizes, width_from, width_to)
    plane     = Concat <axis = 0> (all_else, height_x_size, y_width)
    planes    = Reshape (floats, plane)
    tall      = Cast <to = 1> (height_matrix)
    mixed     = MatMul (tall, planes)
    # between the product and its scale: onnxruntime fuses them where they meet, and scales
    # parts of the sum
    real      = Reshape (mixed, y_shape)
    scaled    = Mul (real, scale)
    y         = QuantizeLinear (scaled, one, y_zero)
}
""")

_ONNXRUNTIME = _SIZES + _HEIGHT_MATRIX + _WIDTH_MATRIX + WEIGHT_SCALE + _TWO_PRODUCTS


def _is_plane_of_bytes(constants: Constants, attributes: Attributes) -> bool:
    """Whether only height and width are resized, by int8 and to sums exact in float."""
    ends = np.cumsum(attributes["y_sizes"])[:-1]
    coefficients = constants["coefficients"].astype(np.int64)
    depth, height, width = np.split(coefficients, ends, axis=1)
    largest = int(width.sum(axis=0).max())
    return (
        attributes["x_sizes"][0] == attributes["y_sizes"][0] == 1
        and depth.tolist() == [[1], [0]]
        and bool((coefficients >= 0).all())
        and largest <= LARGEST_BYTE
        and 255 * largest * int(height.sum(axis=0).max()) <= LARGEST_FLOAT
    )


@in_either_layout
def reference(
    x: NDArray[Any],
    x_zero: NDArray[Any],
    indices: NDArray[np.int32],
    coefficients: NDArray[np.int32],
    multiplier: NDArray[np.int32],
    shift: NDArray[np.int32],
    y_zero: NDArray[Any],
    y_min: NDArray[Any],
    y_max: NDArray[Any],
    *,
    dims: int,
    x_sizes: Sequence[int],
    y_sizes: Sequence[int],
    rounding: NodeRounding,
) -> NDArray[Any]:
    """Stored x [..., the last ``dims`` of x_sizes] -> stored y [..., those of y_sizes].

    ``indices`` and ``coefficients`` [2, sum(y_sizes)] hold the columns of depth, height and
    width. The multiplier, one entry, holds x_scale / y_scale over what the products of
    coefficients add up to.
    """
    acc: Int64 = np.asarray(x.astype(np.int64) - x_zero).reshape(-1, *x_sizes)
    ends = np.cumsum(y_sizes)[:-1]
    tables = (
        np.split(table.astype(np.int64), ends, axis=1) for table in (indices, coefficients)
    )
    for axis, (index, c) in enumerate(zip(*tables, strict=True), start=1):
        column = (-1, *[1] * (3 - axis))
        low, high = (np.take(acc, index[i], axis) * c[i].reshape(column) for i in (0, 1))
        acc = low + high
    acc = acc.reshape(*x.shape[: x.ndim - dims], *y_sizes[3 - dims :])
    rounded = requantize(acc, multiplier, shift, rounding)
    return saturate(rounded, y_zero, y_min, y_max).astype(y_zero.dtype)


def _neighbours_may_be_swapped(
    x: NDArray[Any],
    x_zero: NDArray[Any],
    indices: NDArray[Any],
    coefficients: NDArray[Any],
    *rest: Any,
    **attributes: Any,
) -> None:
    np.testing.assert_array_equal(
        reference(x, x_zero, indices, coefficients, *rest, **attributes),
        reference(x, x_zero, indices[::-1], coefficients[::-1], *rest, **attributes),
    )


INT_RESIZE = Op(
    name="IntResize",
    inputs={
        "x": Data("X"),
        "x_zero": Constant("X"),
        "indices": Constant("int32", (2, "sum of y_sizes")),
        "coefficients": Constant("int32", (2, "sum of y_sizes")),
        "multiplier": Constant("int32", PER_CHANNEL),
        "shift": Shift(dims=PER_CHANNEL),
        **ends("Y"),
    },
    outputs={"y": Data("Y")},
    attributes={
        "dims": Integer(1, 3),
        "x_sizes": Integers(1, length=3),
        "y_sizes": Integers(1, length=3),
        "rounding": TWICE,
        "channels_last": CHANNELS_LAST,
    },
    reference=reference,
    bodies=[
        *of_codes_alone(
            [
                *float32_bodies(_ONNXRUNTIME, "onnxruntime_plane", also=_is_plane_of_bytes),
                *accumulator_bodies(_SUMS, LAST_AXIS),
                *portable_bodies(_SUMS, LAST_AXIS),
            ]
        ),
        *word_bodies(_SUMS, _WORD_SUMS, LAST_AXIS),
    ],
    evidence="thresholds",
    evidence_of_words="bounded",
    scaling=Scaling.RATIO,
    constraints=[ENDS_FIT],
    probe=Probe.COEFFICIENTS,
    laws={"the two neighbours may be swapped": _neighbours_may_be_swapped},
    formula="x and y are seen as [-1, depth, height, width], of x_sizes and y_sizes; x has "
    "the last `dims` of these axes, the others have size 1. `indices` and `coefficients` "
    "hold two rows, a column for each place of y along an axis: the places of x it mixes and "
    "by which integers. acc = sum over the 8 corners of (x - x_zero) * the product of "
    "coefficients; y = clamp(round(acc * multiplier / 2**shift) + y_zero, y_min, y_max), the "
    "multiplier holding what the products add up to.",
    source="Source: ONNX Resize, mode linear.",
)
