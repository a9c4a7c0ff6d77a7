"""IntCodedPRelu: LeakyRelu and PRelu whose slopes are integers of a common multiplier."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import IN_DOUBLE_TOO
from opsets.declaration import SLOPES_BROADCAST, Constant, Data, Scaling, Shift, ends
from opsets.fixed_point import saturate
from opsets.fragments import fragment
from opsets.op import Attributes, Body, Condition, Constants, Guard, Op
from opsets.portable import STORE, portable_overload, rescaled
from opsets.rounding import NODE_ROUNDINGS, NodeRounding, requantize
from opsets.tabulated import slope_bodies

_PORTABLE = fragment("""
sloped
    (x, x_zero, multiplier, shift, slope_codes, slope_multiplier, slope_shift)
    => (origin, is_below, is_turned, value, m, s) {
    wide_x    = Cast <to = 7> (x)                                          # 7 is INT64
    zero_x    = Cast <to = 7> (x_zero)
    distance  = Sub (wide_x, zero_x)
    origin    = Sub (zero_x, zero_x)
    is_below  = Less (distance, origin)
    codes     = Cast <to = 7> (slope_codes)
    product   = Mul (distance, codes)
    value     = Where (is_below, product, distance)
    wide_m    = Cast <to = 7> (slope_multiplier)
    turned    = Sub (origin, wide_m)
    is_turned = Less (wide_m, origin)
    size      = Where (is_turned, turned, wide_m)
    above     = Cast <to = 7> (multiplier)
    m         = Where (is_below, size, above)
    s         = Where (is_below, slope_shift, shift)
}
""")

_TURNED = fragment("""
turned (quotient, origin, is_below, is_turned) => (level) {
    opposite  = Sub (origin, quotient)
    is_other  = And (is_below, is_turned)
    level     = Where (is_other, opposite, quotient)
}
""")


def _rounds(rounding: NodeRounding) -> Guard:
    """Products have less than 53 bits, so that those in double are exact."""

    def accepts(_constants: Constants, attributes: Attributes) -> bool:
        given = attributes["rounding"]
        exact = given == "half_to_even_in_double" and rounding == "half_to_even"
        return bool(exact or given == rounding)

    return Condition(f"the rounding is {rounding}", accepts)


_BODIES = [
    Body(
        portable_overload(rounding),
        "portable",
        _PORTABLE + rescaled("value", "m", "s", "quotient", rounding) + _TURNED + STORE,
        accepts=_rounds(rounding),
    )
    for rounding in NODE_ROUNDINGS
]

_SLOPES = "slope_codes", "slope_multiplier", "slope_shift"


def reference(
    x: NDArray[Any],
    x_zero: NDArray[Any],
    multiplier: NDArray[np.int32],
    shift: NDArray[np.int32],
    slope_codes: NDArray[np.int32],
    slope_multiplier: NDArray[np.int32],
    slope_shift: NDArray[np.int32],
    y_zero: NDArray[Any],
    y_min: NDArray[Any],
    y_max: NDArray[Any],
    *,
    rounding: str,
) -> NDArray[Any]:
    """Stored integers shaped as ``x``, to which those of the slope broadcast.

    ``multiplier`` and ``shift`` are numbers; codes are from -255 to 255.
    """
    level = x.astype(np.int64) - x_zero
    above = requantize(np.maximum(level, 0), multiplier, shift, rounding)
    product = np.minimum(level, 0) * slope_codes.astype(np.int64)
    size = np.abs(slope_multiplier.astype(np.int64))
    below = np.sign(slope_multiplier) * requantize(product, size, slope_shift, rounding)
    found = np.where(level < 0, below, above)
    return saturate(found, y_zero, y_min, y_max).astype(y_zero.dtype)


def _zero_maps_to_zero_point(
    x: NDArray[Any], x_zero: NDArray[Any], *args: Any, rounding: str
) -> None:
    stored = reference(np.full_like(x, x_zero), x_zero, *args, rounding=rounding)
    y_zero, y_min, y_max = args[5:]
    assert (stored == np.clip(y_zero, y_min, y_max)).all()


def _codes_of_zero_are_a_relu(
    x: NDArray[Any],
    x_zero: NDArray[Any],
    multiplier: NDArray[np.int32],
    shift: NDArray[np.int32],
    slope_codes: NDArray[np.int32],
    slope_multiplier: NDArray[np.int32],
    slope_shift: NDArray[np.int32],
    *ends: NDArray[Any],
    rounding: str,
) -> None:
    below = np.zeros_like(slope_codes), slope_multiplier, slope_shift
    found = reference(x, x_zero, multiplier, shift, *below, *ends, rounding=rounding)
    level = np.maximum(x.astype(np.int64) - x_zero, 0)
    expected = saturate(requantize(level, multiplier, shift, rounding), *ends)
    np.testing.assert_array_equal(found, expected)


INT_CODED_P_RELU = Op(
    name="IntCodedPRelu",
    inputs={
        "x": Data("T"),
        "x_zero": Constant("T"),
        "multiplier": Constant("int32"),
        "shift": Shift(),
        "slope_codes": Constant("int32", (...,)),
        "slope_multiplier": Constant("int32", (...,)),
        "slope_shift": Shift(dims=(...,)),
        **ends("T"),
    },
    outputs={"y": Data("T")},
    attributes={
        "rounding": IN_DOUBLE_TOO,
    },
    reference=reference,
    bodies=[*slope_bodies(_BODIES, _SLOPES), *_BODIES],
    evidence="exhaustive",
    scaling=Scaling.SLOPES,
    constraints=[
        SLOPES_BROADCAST,
    ],
    laws={
        "zero maps to the zero point": _zero_maps_to_zero_point,
        "codes of zero are a Relu": _codes_of_zero_are_a_relu,
    },
    formula="R(v, m, s) = v * m / 2**s, rounded as named; level = x - x_zero; y = clamp(r + "
    "y_zero, y_min, y_max), r = R(level, multiplier, shift) for level >= 0, else R(level * "
    "slope_codes, |slope_multiplier|, slope_shift) with the sign of slope_multiplier. What "
    "the slope has broadcasts to x.",
    source="Sources: TFLite's and TPU-MLIR's LeakyRelu and PRelu.",
)
