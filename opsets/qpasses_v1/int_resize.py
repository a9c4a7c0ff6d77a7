"""IntResize: linear interpolation along one to three axes, as exact integer sums."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import TWICE, Integer, Integers
from opsets.declaration import PER_CHANNEL, Constant, Data, Probe, Scaling, Shift, ends
from opsets.double import accumulator_bodies
from opsets.fixed_point import Int64, saturate
from opsets.float32 import WEIGHT_SCALE, float32_bodies
from opsets.op import Attributes, Constants, Op
from opsets.portable import LAST_AXIS, portable_bodies
from opsets.rounding import NodeRounding, requantize

LARGEST_BYTE = 127
"""Coefficients that add up to no more are int8, and pairs of their products fit int16."""

LARGEST_FLOAT = 1 << 24
"""Integers up to here are exact in float32."""

_SIZES = """
    first    = Constant <value_int = 0> ()
    second   = Constant <value_int = 1> ()
    zero_1   = Constant <value = int64[1] {0}> ()
    all_else     = Constant <value = int64[1] {-1}> ()
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
"""

_BOXES = """
    wide     = Cast <to = 6> (x)                                           # 6 is INT32
    origin   = Cast <to = 6> (x_zero)
    levels   = Sub (wide, origin)
    box      = Concat <axis = 0> (all_else, x_sizes)
    boxes    = Reshape (levels, box)
"""


def _stage(result: str, source: str, axis: int, name: str, column: Sequence[int]) -> str:
    """``result``: two neighbours of ``source`` along ``axis``, times their coefficients."""
    shape = ", ".join(map(str, column))
    return f"""
    {name}_column = Constant <value = int64[{len(column)}] {{{shape}}}> ()
    {name}_low    = Gather <axis = 0> ({name}_i, first)
    {name}_high   = Gather <axis = 0> ({name}_i, second)
    {name}_low_c  = Gather <axis = 0> ({name}_c, first)
    {name}_high_c = Gather <axis = 0> ({name}_c, second)
    {name}_c_low  = Reshape ({name}_low_c, {name}_column)
    {name}_c_high = Reshape ({name}_high_c, {name}_column)
    {name}_before = Gather <axis = {axis}> ({source}, {name}_low)
    {name}_behind = Gather <axis = {axis}> ({source}, {name}_high)
    {name}_left   = Mul ({name}_before, {name}_c_low)
    {name}_right  = Mul ({name}_behind, {name}_c_high)
    {result}      = Add ({name}_left, {name}_right)
    """


_SUMS = (
    _SIZES
    + _BOXES
    + _stage("deep", "boxes", 1, "depth", [-1, 1, 1])
    + _stage("tall", "deep", 2, "height", [-1, 1])
    + _stage("mixed", "tall", 3, "width", [-1])
    + "acc = Reshape (mixed, y_shape)\n"
)


def _matrix(name: str, size: int, across: str, along: str) -> str:
    """``{name}_matrix``: the coefficients of an axis, those of one place of y ``across``."""
    return f"""
    {name}_from    = Constant <value = int64[1] {{{size}}}> ()
    {name}_to      = Constant <value = int64[1] {{{size + 1}}}> ()
    {name}_across  = Constant <value = int64[2] {{{across}}}> ()
    {name}_along   = Constant <value = int64[2] {{{along}}}> ()
    {name}_x_size  = Slice (x_sizes, {name}_from, {name}_to)
    {name}_count   = Squeeze ({name}_x_size)
    {name}_range   = Range (first, {name}_count, second)
    {name}_numbers = Cast <to = 6> ({name}_range)                          # 6 is INT32
    {name}_places  = Reshape ({name}_numbers, {name}_across)
    {name}_low     = Gather <axis = 0> ({name}_i, first)
    {name}_high    = Gather <axis = 0> ({name}_i, second)
    {name}_low_c   = Gather <axis = 0> ({name}_c, first)
    {name}_high_c  = Gather <axis = 0> ({name}_c, second)
    {name}_lows    = Reshape ({name}_low, {name}_along)
    {name}_highs   = Reshape ({name}_high, {name}_along)
    {name}_lows_c  = Reshape ({name}_low_c, {name}_along)
    {name}_highs_c = Reshape ({name}_high_c, {name}_along)
    {name}_is_low  = Equal ({name}_places, {name}_lows)
    {name}_is_high = Equal ({name}_places, {name}_highs)
    {name}_at_low  = Cast <to = 6> ({name}_is_low)
    {name}_at_high = Cast <to = 6> ({name}_is_high)
    {name}_left    = Mul ({name}_at_low, {name}_lows_c)
    {name}_right   = Mul ({name}_at_high, {name}_highs_c)
    {name}_matrix  = Add ({name}_left, {name}_right)
    """


_ONNXRUNTIME = (
    _SIZES
    + _matrix("height", 1, across="1, -1", along="-1, 1")
    + _matrix("width", 2, across="-1, 1", along="1, -1")
    + WEIGHT_SCALE
    + """
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
    RESULT    = QuantizeLinear (scaled, one, y_zero)
"""
)


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
        "x": Data("T"),
        "x_zero": Constant("T"),
        "indices": Constant("int32", (2, "sum of y_sizes")),
        "coefficients": Constant("int32", (2, "sum of y_sizes")),
        "multiplier": Constant("int32", PER_CHANNEL),
        "shift": Shift(dims=PER_CHANNEL),
        **ends("T"),
    },
    outputs={"y": Data("T")},
    attributes={
        "dims": Integer(1, 3),
        "x_sizes": Integers(1, length=3),
        "y_sizes": Integers(1, length=3),
        "rounding": TWICE,
    },
    reference=reference,
    bodies=[
        *float32_bodies(_ONNXRUNTIME, "onnxruntime_plane", also=_is_plane_of_bytes),
        *accumulator_bodies(_SUMS, LAST_AXIS),
        *portable_bodies(_SUMS, LAST_AXIS),
    ],
    evidence="thresholds",
    scaling=Scaling.RATIO,
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
