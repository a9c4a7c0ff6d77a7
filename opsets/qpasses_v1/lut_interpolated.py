"""LutInterpolated: a function of one 16-bit stored integer, linear between 513 knots."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import ONCE
from opsets.declaration import Constant, Data, Scaling, Shift, ends
from opsets.fixed_point import Rounding, rounding_shift, saturate
from opsets.fragments import fragment
from opsets.op import Body, Op
from opsets.portable import bodies_of_one_rounding, rounds

SEGMENT = 128
"""So many codes lie between two knots; the result has as many parts of one."""

_PORTABLE = fragment("""
interpolated (x, table) => (scaled) {
    wide     = Cast <to = 7> (x)                                           # 7 is INT64
    codes    = Constant <value = int64 {32768}> ()
    place    = Add (wide, codes)
    width    = Constant <value = int64 {128}> ()
    part     = Mod (place, width)
    place_b  = Cast <to = 13> (place)                                      # 13 is UINT64
    seven    = Constant <value = uint64 {7}> ()
    before_b = BitShift <direction = "RIGHT"> (place_b, seven)
    before   = Cast <to = 7> (before_b)
    next     = Constant <value = int64 {1}> ()
    behind   = Add (before, next)
    start_16 = Gather <axis = 0> (table, before)
    end_16   = Gather <axis = 0> (table, behind)
    start    = Cast <to = 7> (start_16)
    end      = Cast <to = 7> (end_16)
    rise     = Sub (end, start)
    climbed  = Mul (rise, part)
    begun    = Mul (start, width)
    scaled   = Add (begun, climbed)
}
""")

_ONNXRUNTIME = fragment("""
interpolated_in_float
    (x, table, shift, y_zero, y_min, y_max) => (clamped, half, one) {
    # every number here has at most 24 bits, so float32 is exact; Pow(0.5, n) is too
    minus_one = Constant <value = int64[1] {-1}> ()
    nothing   = Constant <value = int64[1] {0}> ()
    one_on    = Constant <value = int64[1] {1}> ()
    last      = Constant <value = int64[1] {512}> ()
    beyond    = Constant <value = int64[1] {513}> ()
    half      = Constant <value = float {0.5}> ()
    one       = Constant <value = float {1.0}> ()
    seven     = Constant <value = float {7.0}> ()
    width     = Constant <value = float {128.0}> ()
    middle    = Constant <value = float {256.0}> ()
    # what an entry is worth in steps of y: 128 / 2**shift
    bits      = Cast <to = 1> (shift)                                      # 1 is FLOAT
    less      = Sub (bits, seven)
    step      = Pow (half, less)
    entries   = Cast <to = 1> (table)
    values    = Mul (entries, step)
    starts    = Slice (values, nothing, last)
    ends      = Slice (values, one_on, beyond)
    rises     = Sub (ends, starts)
    # where x lies: the knot before it, and how far behind that; on flat tensors
    # GatherElements is many times as fast as Gather
    flat      = Reshape (x, minus_one)
    code      = Cast <to = 1> (flat)
    place     = Div (code, width)
    knot      = Floor (place)
    part      = Sub (place, knot)
    from_zero = Add (knot, middle)
    index     = Cast <to = 6> (from_zero)                                  # 6 is INT32
    start     = GatherElements <axis = 0> (starts, index)
    rise      = GatherElements <axis = 0> (rises, index)
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

HALF_UP = fragment("""
half_up (clamped, half) => (rounded) {
    lifted    = Add (clamped, half)
    rounded   = Floor (lifted)
}
""")

STORE = fragment("""
store (rounded, one, x, y_zero) => (y) {
    stored    = QuantizeLinear (rounded, one, y_zero)                      # half to even
    shape     = Shape (x)
    y         = Reshape <allowzero = 1> (stored, shape)
}
""")


def interpolate(x: NDArray[np.int16], table: NDArray[np.int16]) -> NDArray[np.int32]:
    """What TOSA's TABLE makes of int16: its result has seven fraction bits.

    It lies between 128 times two entries of ``table`` [513], so 24 bits hold it, and each
    step to it.
    """
    place = np.asarray(x, np.int32)
    segment, part = place >> 7, place & (SEGMENT - 1)  # by 128, in less time than a division
    entries = table.astype(np.int32)
    start, end = entries[segment + 256], entries[segment + 257]
    return np.asarray(start * SEGMENT + (end - start) * part, np.int32)


def reference(
    x: NDArray[np.int16],
    table: NDArray[np.int16],
    shift: NDArray[np.int32],
    y_zero: NDArray[Any],
    y_min: NDArray[Any],
    y_max: NDArray[Any],
    *,
    rounding: Rounding,
) -> NDArray[Any]:
    """Entry i of ``table`` [513] is for the code 128 * i - 32768; one ``shift``."""
    level = rounding_shift(interpolate(x, table), shift, rounding)
    return saturate(level, y_zero, y_min, y_max).astype(y_zero.dtype)


def _between_its_knots(
    x: NDArray[np.int16], table: NDArray[np.int16], *rest: Any, **attributes: Any
) -> None:
    knot = np.asarray(x // SEGMENT, np.int16) * np.int16(SEGMENT)
    ahead = np.minimum(knot.astype(np.int32) + SEGMENT, SEGMENT * 255).astype(np.int16)
    inner = knot != SEGMENT * 255  # behind the last knot that is a code there is no other
    ends = [reference(each, table, *rest, **attributes) for each in (knot, ahead)]
    found = reference(x, table, *rest, **attributes)
    assert (found >= np.minimum(*ends))[inner].all()
    assert (found <= np.maximum(*ends))[inner].all()


def _an_entry_at_its_knot(
    _x: NDArray[np.int16],
    table: NDArray[np.int16],
    shift: NDArray[np.int32],
    *ends: Any,
    rounding: Rounding,
) -> None:
    knots = np.arange(-32768, 32768, SEGMENT).astype(np.int16)
    level = rounding_shift(table[:-1].astype(np.int64) * SEGMENT, shift, rounding)
    found = reference(knots, table, shift, *ends, rounding=rounding)
    np.testing.assert_array_equal(found, saturate(level, *ends))


LUT_INTERPOLATED = Op(
    name="LutInterpolated",
    inputs={
        "x": Data("int16"),
        "table": Constant("int16", (513,)),
        "shift": Shift(),
        **ends("Y"),
    },
    outputs={"y": Data("Y")},
    attributes={
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
    laws={
        "an entry at its knot": _an_entry_at_its_knot,
        "between its knots": _between_its_knots,
    },
    formula="i = (x >> 7) + 256 and f = x & 127 find two entries; total = table[i] * 128 + "
    "(table[i + 1] - table[i]) * f; y = clamp(round(total / 2**shift) + y_zero, y_min, "
    "y_max).",
    source="Source: TOSA's TABLE of int16, whose result is total, with a RESCALE; with "
    "half_up and a shift of 7 also TFLite's lookup.",
)
