"""IntCast: whole numbers, as sizes, labels, masks and pictures are, as a stored tensor."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import TWICE, Text
from opsets.declaration import (
    WHOLE,
    Attributes,
    Constant,
    Constants,
    Data,
    Scaling,
    Shift,
    ends,
)
from opsets.double import LEVEL_IN_DOUBLE, STORE_DOUBLE, overload, rounded_double
from opsets.fixed_point import ROUNDINGS, Rounding, saturate
from opsets.fragments import fragment
from opsets.op import Body, Op, all_of
from opsets.portable import bodies_of_product, rounds
from opsets.rounding import NodeRounding, requantize

_PORTABLE = fragment("""
product (x, x_min, x_max, multiplier) => (level_x, wide_m) {
    # Clip of onnxruntime 1.31 is wrong for int64 beyond 32 bits
    wide_x   = Cast <to = 7> (x)                                           # 7 is INT64
    least_x  = Cast <to = 7> (x_min)
    most_x   = Cast <to = 7> (x_max)
    is_below = Less (wide_x, least_x)
    from_x   = Where (is_below, least_x, wide_x)
    is_above = Greater (from_x, most_x)
    level_x  = Where (is_above, most_x, from_x)
    wide_m   = Cast <to = 7> (multiplier)
}
""")

_IN_DOUBLE = fragment("""
in_double (x) => (level_x) {
    # between x_min and x_max 20 bits times 31: exact; beyond, the ends of y
    level_x  = Cast <to = 11> (x)                                          # 11 is DOUBLE
}
""")


_MOVED = fragment("""
moved (x, y_zero) => (y) {
    small_x  = Cast <to = 6> (x)                                           # 6 is INT32
    zero     = Cast <to = 6> (y_zero)
    stored   = Add (small_x, zero)
    y        = CastLike (stored, y_zero)
}
""")

_SAME = fragment("""
same (x, y_zero) => (y) {
    y        = CastLike (x, y_zero)
}
""")


def type_ends(of: str) -> tuple[int, int]:
    """The least and the greatest number of one of the types WHOLE."""
    return (0, 1) if of == "bool" else (int(np.iinfo(of).min), int(np.iinfo(of).max))


def _keeps_numbers(constants: Constants, attributes: Attributes) -> bool:
    """Whether the scale is 1, and there is a code for each number of the type of x."""
    least, most = type_ends(attributes["of"])
    x_min, x_max, y_zero, y_min, y_max = (
        int(constants[name]) for name in ("x_min", "x_max", "y_zero", "y_min", "y_max")
    )
    is_one = int(constants["multiplier"]) == 1 << int(constants["shift"])
    is_whole = x_min <= least and most <= x_max
    return is_one and is_whole and y_min <= least + y_zero and most + y_zero <= y_max


def _needs_no_clamp(constants: Constants, attributes: Attributes) -> bool:
    """Whether beyond x_min and x_max lie the ends of y or of the type of x, and products of
    what lies between are exact in double.
    """
    x_min, x_max, m, shift, y_zero, y_min, y_max = (
        int(constants[name])
        for name in ("x_min", "x_max", "multiplier", "shift", "y_zero", "y_min", "y_max")
    )
    least, most = type_ends(attributes["of"])
    is_below = x_min <= least or x_min * m <= (y_min - y_zero) << shift
    is_above = x_max >= most or x_max * m >= (y_max - y_zero) << shift
    return is_below and is_above and max(-x_min, x_max) * m < 1 << 53


def _in_double(rounding: Rounding) -> Body:
    stored = (
        _IN_DOUBLE
        + LEVEL_IN_DOUBLE
        + rounded_double("value", "level", rounding)
        + STORE_DOUBLE
    )
    accepts = all_of(rounds(rounding), _needs_no_clamp)
    return Body(overload(rounding), "onnxruntime", stored, accepts)


def _starts_from_zero(constants: Constants, _attributes: Attributes) -> bool:
    """Whether the zero point is 0."""
    return not constants["y_zero"].any()


def reference(
    x: NDArray[Any],
    x_min: NDArray[np.int32],
    x_max: NDArray[np.int32],
    multiplier: NDArray[np.int32],
    shift: NDArray[np.int32],
    y_zero: NDArray[Any],
    y_min: NDArray[Any],
    y_max: NDArray[Any],
    *,
    of: str,
    rounding: NodeRounding,
) -> NDArray[Any]:
    """Whole numbers x, any shape and of type ``of``; beyond x_min and x_max they are these."""
    level = np.clip(np.asarray(x).astype(np.int64), np.int64(x_min), np.int64(x_max))
    scaled = requantize(level, multiplier, shift, rounding)
    return saturate(scaled, y_zero, y_min, y_max).astype(y_zero.dtype)


def _monotone(x: NDArray[Any], *args: Any, **attributes: Any) -> None:
    stored = reference(np.sort(x, axis=None), *args, **attributes)
    assert (np.diff(stored.astype(np.int64)) >= 0).all()


INT_CAST = Op(
    name="IntCast",
    inputs={
        "x": Data("N"),
        "x_min": Constant("int32"),
        "x_max": Constant("int32"),
        "multiplier": Constant("int32"),
        "shift": Shift(),
        **ends("S"),
    },
    outputs={"y": Data("S")},
    attributes={
        "of": Text(WHOLE),
        "rounding": TWICE,
    },
    reference=reference,
    bodies=[
        Body("same", "onnxruntime", _SAME, all_of(_keeps_numbers, _starts_from_zero)),
        Body("moved", "onnxruntime", _MOVED, _keeps_numbers),
        *map(_in_double, ROUNDINGS),
        *bodies_of_product(_PORTABLE, "shift", ("level_x", "wide_m")),
    ],
    evidence="exhaustive",
    scaling=Scaling.RATIO,
    laws={"monotone": _monotone},
    formula="y = clamp(round(clamp(x, x_min, x_max) * multiplier / 2**shift) + y_zero, y_min, "
    "y_max) for whole numbers x of the type that `of` names, whose scale is 1.",
    source="Source: TOSA's CAST and RESCALE.",
)
