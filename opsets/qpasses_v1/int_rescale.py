"""IntRescale: a stored tensor at another scale, zero point and type."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import TWICE
from opsets.declaration import Constant, Data, Scaling, Shift, ends
from opsets.double import LEVEL_IN_DOUBLE, STORE_DOUBLE, overload, rounded_double
from opsets.fixed_point import ROUNDINGS, Rounding, saturate
from opsets.fragments import fragment
from opsets.op import Body, Op
from opsets.portable import bodies_of_product, rounds
from opsets.rounding import NodeRounding, requantize

_PORTABLE = fragment("""
product (x, x_zero, multiplier) => (level_x, wide_m) {
    wide_x   = Cast <to = 7> (x)                                           # 7 is INT64
    zero_x   = Cast <to = 7> (x_zero)
    level_x  = Sub (wide_x, zero_x)
    wide_m   = Cast <to = 7> (multiplier)
}
""")

_IN_DOUBLE = fragment("""
in_double (x, x_zero) => (level_x) {
    # 16 bits times 31: exact
    wide_x   = Cast <to = 11> (x)                                          # 11 is DOUBLE
    zero_x   = Cast <to = 11> (x_zero)
    level_x  = Sub (wide_x, zero_x)
}
""")


def _in_double(rounding: Rounding) -> Body:
    stored = (
        _IN_DOUBLE
        + LEVEL_IN_DOUBLE
        + rounded_double("value", "level", rounding)
        + STORE_DOUBLE
    )
    return Body(overload(rounding), "onnxruntime", stored, rounds(rounding))


def reference(
    x: NDArray[Any],
    x_zero: NDArray[Any],
    multiplier: NDArray[np.int32],
    shift: NDArray[np.int32],
    y_zero: NDArray[Any],
    y_min: NDArray[Any],
    y_max: NDArray[Any],
    *,
    rounding: NodeRounding,
) -> NDArray[Any]:
    """Stored x, any shape; a multiplier and a shift for all of it."""
    level = requantize(x.astype(np.int64) - x_zero, multiplier, shift, rounding)
    return saturate(level, y_zero, y_min, y_max).astype(y_zero.dtype)


def _monotone(x: NDArray[Any], *args: Any, **attributes: Any) -> None:
    stored = reference(np.sort(x, axis=None), *args, **attributes)
    assert (np.diff(stored.astype(np.int64)) >= 0).all()


INT_RESCALE = Op(
    name="IntRescale",
    inputs={
        "x": Data("S"),
        "x_zero": Constant("S"),
        "multiplier": Constant("int32"),
        "shift": Shift(),
        **ends("S"),
    },
    outputs={"y": Data("S")},
    attributes={
        "rounding": TWICE,
    },
    reference=reference,
    bodies=[
        *map(_in_double, ROUNDINGS),
        *bodies_of_product(_PORTABLE, "shift", ("level_x", "wide_m")),
    ],
    evidence="exhaustive",
    scaling=Scaling.RATIO,
    laws={"monotone": _monotone},
    formula="y = clamp(round((x - x_zero) * multiplier / 2**shift) + y_zero, y_min, y_max): "
    "16 bits of a residual stream for a node that reads 8, or what clamps make of 16.",
    source="Source: TOSA's RESCALE.",
)
