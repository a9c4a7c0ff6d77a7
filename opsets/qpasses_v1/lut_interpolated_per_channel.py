"""LutInterpolatedPerChannel: a function of one 16-bit stored integer per channel, by knots."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import ONCE, Axis
from opsets.declaration import Constant, Data, Scaling, Shift, ends
from opsets.fixed_point import Rounding, rounding_shift, saturate
from opsets.fragments import fragment
from opsets.op import Body, Op
from opsets.portable import bodies_of_one_rounding, rounds
from opsets.qpasses_v1.lut_interpolated import HALF_UP, SEGMENT, STORE
from opsets.qpasses_v1.lut_interpolated import reference as of_one_table
from opsets.qpasses_v1.lut_per_channel import STARTS

_PORTABLE = STARTS.having(entries=513).only("starts", "flat") + fragment("""
interpolated (x, starts, flat) => (scaled) {
    wide     = Cast <to = 7> (x)                                           # 7 is INT64
    codes    = Constant <value = int64 {32768}> ()
    place    = Add (wide, codes)
    width    = Constant <value = int64 {128}> ()
    part     = Mod (place, width)
    place_b  = Cast <to = 13> (place)                                      # 13 is UINT64
    seven    = Constant <value = uint64 {7}> ()
    knot_b   = BitShift <direction = "RIGHT"> (place_b, seven)
    knot     = Cast <to = 7> (knot_b)
    before   = Add (knot, starts)
    next     = Constant <value = int64 {1}> ()
    behind   = Add (before, next)
    start_16 = Gather <axis = 0> (flat, before)
    end_16   = Gather <axis = 0> (flat, behind)
    start    = Cast <to = 7> (start_16)
    end      = Cast <to = 7> (end_16)
    rise     = Sub (end, start)
    climbed  = Mul (rise, part)
    begun    = Mul (start, width)
    scaled   = Add (begun, climbed)
}
""")

_ONNXRUNTIME = STARTS.having(entries=513).only("minus_one", "starts", "flat") + fragment("""
interpolated_in_float
    (x, shift, y_zero, y_min, y_max, minus_one, starts, flat) => (clamped, half, one) {
    # every number here has at most 24 bits, so float32 is exact; Pow(0.5, n) is too
    half      = Constant <value = float {0.5}> ()
    one       = Constant <value = float {1.0}> ()
    seven     = Constant <value = float {7.0}> ()
    width     = Constant <value = float {128.0}> ()
    middle    = Constant <value = float {256.0}> ()
    next      = Constant <value = int64 {1}> ()
    # what an entry is worth in steps of y: 128 / 2**shift
    bits      = Cast <to = 1> (shift)                                      # 1 is FLOAT
    less      = Sub (bits, seven)
    step      = Pow (half, less)
    entries   = Cast <to = 1> (flat)
    values    = Mul (entries, step)
    # where x lies: the knot before it, and how far behind that; on flat tensors
    # GatherElements is many times as fast as Gather
    code      = Cast <to = 1> (x)
    place     = Div (code, width)
    knot      = Floor (place)
    apart     = Sub (place, knot)
    from_zero = Add (knot, middle)
    index     = Cast <to = 7> (from_zero)                                  # 7 is INT64
    moved     = Add (index, starts)
    before    = Reshape (moved, minus_one)
    behind    = Add (before, next)
    part      = Reshape (apart, minus_one)
    start     = GatherElements <axis = 0> (values, before)
    end       = GatherElements <axis = 0> (values, behind)
    rise      = Sub (end, start)
    climbed   = Mul (rise, part)
    value     = Add (start, climbed)
    # bounds are whole, so they may clamp before rounding
    zero      = Cast <to = 1> (y_zero)
    lowest    = Cast <to = 1> (y_min)
    highest   = Cast <to = 1> (y_max)
    low       = Sub (lowest, zero)
    high      = Sub (highest, zero)
    clamped   = Clip (value, low, high)
}
""")


def reference(
    x: NDArray[np.int16],
    tables: NDArray[np.int16],
    shift: NDArray[np.int32],
    y_zero: NDArray[Any],
    y_min: NDArray[Any],
    y_max: NDArray[Any],
    *,
    axis: int,
    rounding: Rounding,
) -> NDArray[Any]:
    """Entry [c, i] of ``tables`` [C, 513] is for channel c and the code 128 * i - 32768."""
    place = np.asarray(x, np.int64) + (1 << 15)
    before, part = place >> 7, place & (SEGMENT - 1)  # by 128, in less time than a division
    channels = np.arange(tables.shape[0]).reshape(-1, *[1] * (np.ndim(x) - axis - 1))
    entries = tables.astype(np.int64)
    start, end = entries[channels, before], entries[channels, before + 1]
    level = rounding_shift(start * SEGMENT + (end - start) * part, shift, rounding)
    return saturate(level, y_zero, y_min, y_max).astype(y_zero.dtype)


def _each_channel_is_one_table(
    x: NDArray[np.int16], tables: NDArray[np.int16], *rest: Any, axis: int, rounding: Rounding
) -> None:
    found = reference(x, tables, *rest, axis=axis, rounding=rounding)
    for channel, table in enumerate(tables):
        own = np.take(x, channel, axis)
        expected = of_one_table(own, table, *rest, rounding=rounding)
        np.testing.assert_array_equal(np.take(found, channel, axis), expected)


LUT_INTERPOLATED_PER_CHANNEL = Op(
    name="LutInterpolatedPerChannel",
    inputs={
        "x": Data("int16"),
        "tables": Constant("int16", ("C", 513)),
        "shift": Shift(),
        **ends("Y"),
    },
    outputs={"y": Data("Y")},
    attributes={
        "axis": Axis(from_end=False),
        "rounding": ONCE,
    },
    reference=reference,
    bodies=[
        Body(
            "onnxruntime",
            "onnxruntime",
            _ONNXRUNTIME + STORE(rounded="clamped"),
            accepts=rounds("half_to_even"),
        ),
        Body(
            "onnxruntime_half_up",
            "onnxruntime",
            _ONNXRUNTIME + HALF_UP + STORE,
            accepts=rounds("half_up"),
        ),
        *bodies_of_one_rounding(_PORTABLE, "shift"),
    ],
    evidence="exhaustive",
    scaling=Scaling.WIDE_TABLE,
    laws={"each channel is one table": _each_channel_is_one_table},
    formula="LutInterpolated, of each channel along `axis` (from 0 on) by its own row of "
    "tables: i = (x >> 7) + 256 and f = x & 127 find two entries of the row; total = "
    "row[i] * 128 + (row[i + 1] - row[i]) * f; y = clamp(round(total / 2**shift) + y_zero, "
    "y_min, y_max).",
)
