"""IntPRelu: LeakyRelu and PRelu as two multipliers, one on each side of zero."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import ONCE
from opsets.declaration import SLOPES_BROADCAST, Constant, Data, Scaling, Shift, ends
from opsets.double import STORE_DOUBLE, overload, rounded_double
from opsets.fixed_point import ROUNDINGS, Rounding, saturate
from opsets.float32 import WEIGHT_SCALE, float32_bodies
from opsets.fragments import fragment
from opsets.op import Body, Op, all_of, of_bytes, of_words
from opsets.portable import bodies_of_one_rounding, rounds
from opsets.rounding import requantize
from opsets.tabulated import slope_bodies

_PORTABLE = fragment("""
sloped (x, x_zero, multiplier, shift, slope_multiplier, slope_shift)
    => (scaled, s) {
    wide_x   = Cast <to = 7> (x)                                           # 7 is INT64
    zero_x   = Cast <to = 7> (x_zero)
    distance = Sub (wide_x, zero_x)
    origin   = Sub (zero_x, zero_x)
    sloped   = Less (distance, origin)
    m        = Where (sloped, slope_multiplier, multiplier)
    s        = Where (sloped, slope_shift, shift)
    wide_m   = Cast <to = 7> (m)
    scaled   = Mul (distance, wide_m)
}
""")

_ONNXRUNTIME = WEIGHT_SCALE + fragment("""
both_sides (x_u8, x_zero_u8, slope_multiplier, slope_shift, scale, one, half, y_zero_u8)
    => (y_u8) {
    slope_m    = Cast <to = 1> (slope_multiplier)
    slope_s    = Cast <to = 1> (slope_shift)
    slope_step = Pow (half, slope_s)
    slope      = Mul (slope_m, slope_step)
    # one of the two is zero; onnxruntime's PRelu branches, which mixed signs slow down
    above      = Max (x_u8, x_zero_u8)
    below      = Min (x_u8, x_zero_u8)
    upper      = DequantizeLinear (above, scale, x_zero_u8)
    level      = DequantizeLinear (below, one, x_zero_u8)
    lower      = Mul (level, slope)
    real       = Add (upper, lower)
    y_u8       = QuantizeLinear (real, one, y_zero_u8)
}
""")


_IN_DOUBLE = fragment("""
in_double (x, x_zero, multiplier, shift, slope_multiplier, slope_shift) => (value) {
    # 17 bits times 31: exact; one of the two is zero
    wide_x     = Cast <to = 11> (x)                                        # 11 is DOUBLE
    zero_x     = Cast <to = 11> (x_zero)
    distance   = Sub (wide_x, zero_x)
    origin     = Sub (zero_x, zero_x)
    half_1     = Constant <value = double {0.5}> ()
    places     = Cast <to = 11> (shift)
    step       = Pow (half_1, places)
    real_m     = Cast <to = 11> (multiplier)
    scale      = Mul (real_m, step)
    slope_s    = Cast <to = 11> (slope_shift)
    slope_step = Pow (half_1, slope_s)
    slope_m    = Cast <to = 11> (slope_multiplier)
    slope      = Mul (slope_m, slope_step)
    above      = Max (distance, origin)
    below      = Min (distance, origin)
    upper      = Mul (above, scale)
    lower      = Mul (below, slope)
    value      = Add (upper, lower)
}
""")


def _in_double(rounding: Rounding) -> Body:
    stored = _IN_DOUBLE + rounded_double("value", "level", rounding) + STORE_DOUBLE
    return Body(overload(rounding), "onnxruntime", stored, all_of(of_words, rounds(rounding)))


def _of_bytes(bodies: Sequence[Body]) -> Sequence[Body]:
    return [replace(body, accepts=all_of(of_bytes, body.accepts)) for body in bodies]


def reference(
    x: NDArray[Any],
    x_zero: NDArray[Any],
    multiplier: NDArray[np.int32],
    shift: NDArray[np.int32],
    slope_multiplier: NDArray[np.int32],
    slope_shift: NDArray[np.int32],
    y_zero: NDArray[Any],
    y_min: NDArray[Any],
    y_max: NDArray[Any],
    *,
    rounding: Rounding,
) -> NDArray[Any]:
    """Stored integers shaped as ``x``, to which those of the slope broadcast.

    ``multiplier`` and ``shift`` are numbers; ``slope_multiplier`` may be negative.
    """
    level = x.astype(np.int64) - x_zero
    above = requantize(np.maximum(level, 0), multiplier, shift, rounding)
    below = requantize(np.minimum(level, 0), slope_multiplier, slope_shift, rounding)
    return saturate(above + below, y_zero, y_min, y_max).astype(y_zero.dtype)


def _zero_maps_to_zero_point(
    x: NDArray[Any], x_zero: NDArray[Any], *args: Any, **a: Any
) -> None:
    y_zero, y_min, y_max = args[4:]
    stored = reference(np.full_like(x, x_zero), x_zero, *args, **a)
    assert (stored == np.clip(y_zero, y_min, y_max)).all()


def _codes(x: NDArray[Any]) -> NDArray[Any]:
    """All codes of bytes in order, of words as many, along a new first axis."""
    limits = np.iinfo(x.dtype)
    column = np.linspace(limits.min, limits.max, 256).astype(x.dtype)
    return column.reshape(-1, *[1] * x.ndim)


def _a_slope_of_one_rescales(
    x: NDArray[Any],
    x_zero: NDArray[Any],
    multiplier: NDArray[np.int32],
    shift: NDArray[np.int32],
    *rest: Any,
    rounding: Rounding,
) -> None:
    y_zero, y_min, y_max = rest[2:]
    scale = multiplier, shift
    stored = reference(x, x_zero, *scale, *scale, *rest[2:], rounding=rounding)
    level = requantize(x.astype(np.int64) - x_zero, *scale, rounding)
    np.testing.assert_array_equal(stored, saturate(level, y_zero, y_min, y_max))


def _unit_multipliers_are_the_identity(
    x: NDArray[Any], x_zero: NDArray[Any], *args: Any, **attributes: Any
) -> None:
    one, limits = (np.array(1 << 23), np.array(23)), np.iinfo(x.dtype)
    ends = x_zero, *(np.array(end, x.dtype) for end in (limits.min, limits.max))
    np.testing.assert_array_equal(reference(x, x_zero, *one, *one, *ends, **attributes), x)


def _monotone_for_slopes_that_are_not_negative(
    x: NDArray[Any], x_zero: NDArray[Any], *args: Any, **attributes: Any
) -> None:
    multiplier, shift, slope_multiplier, *rest = args
    upward = multiplier, shift, np.abs(slope_multiplier), *rest
    stored = reference(_codes(x), x_zero, *upward, **attributes)
    assert (np.diff(stored.astype(np.int64), axis=0) >= 0).all()


INT_P_RELU = Op(
    name="IntPRelu",
    inputs={
        "x": Data("S"),
        "x_zero": Constant("S"),
        "multiplier": Constant("int32"),
        "shift": Shift(),
        "slope_multiplier": Constant("int32", (...,)),
        "slope_shift": Shift(dims=(...,)),
        **ends("S"),
    },
    outputs={"y": Data("S")},
    attributes={
        "rounding": ONCE,
    },
    reference=reference,
    bodies=[
        *map(_in_double, ROUNDINGS),
        *float32_bodies(_ONNXRUNTIME, also=of_bytes),
        *_of_bytes(
            slope_bodies(
                bodies_of_one_rounding(_PORTABLE, "s"), ("slope_multiplier", "slope_shift")
            )
        ),
        *bodies_of_one_rounding(_PORTABLE, "s"),
    ],
    evidence="exhaustive",
    scaling=Scaling.SLOPES,
    constraints=[
        SLOPES_BROADCAST,
    ],
    laws={
        "zero maps to the zero point": _zero_maps_to_zero_point,
        "a slope of one rescales": _a_slope_of_one_rescales,
        "unit multipliers are the identity": _unit_multipliers_are_the_identity,
        "monotone for slopes that are not negative": (
            _monotone_for_slopes_that_are_not_negative
        ),
    },
    formula="level = x - x_zero; y = clamp(round(level * multiplier / 2**shift) + y_zero, "
    "y_min, y_max) for level >= 0, else the same with slope_multiplier and slope_shift, one "
    "for each element of the slope, which broadcasts to x.",
    source="Source: TFLite's LeakyRelu and PRelu, with one rounding.",
)
