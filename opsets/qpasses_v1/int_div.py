"""IntDiv: the quotient of two stored tensors, rounded once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import ONCE
from opsets.declaration import Constant, Data, Scaling, Shift, ends
from opsets.division import fits_double, quotient
from opsets.double import overload
from opsets.fixed_point import ROUNDINGS, Rounding, rounding_divide, saturate
from opsets.fragments import fragment
from opsets.op import Attributes, Body, Constants, Op, all_of
from opsets.portable import STORE, portable_overload, rounds
from opsets.word_products import BYTES_ALIKE, furthest, largest_multiplier, value_in_double

LARGEST_SHIFT = 46
"""Twice a level of b times 2**shift fits int64."""

LARGEST_SHIFT_IN_DOUBLE = 21
"""Up to here double rounds every quotient as integers do, of words too: ``fits_double``."""

BEYOND = 1 << 17
"""A level that saturates, wherever the zero point is."""

_LEVELS = fragment("""
levels (a, a_zero, b, b_zero) => (level_a, level_b, nothing) {
    wide_a   = Cast <to = 7> (a)                                           # 7 is INT64
    wide_b   = Cast <to = 7> (b)
    zero_a   = Cast <to = 7> (a_zero)
    zero_b   = Cast <to = 7> (b_zero)
    level_a  = Sub (wide_a, zero_a)
    level_b  = Sub (wide_b, zero_b)
    nothing  = Constant <value = int64 {0}> ()
}
""")

_SIGNED = fragment("""
signed (level_a, level_b, nothing) => (acc, cells, by_nothing) {
    # ONNX divides toward zero: the sign goes to the numerator, and by 0 nothing is divided
    opposite   = Neg (level_a)
    below      = Less (level_b, nothing)
    acc        = Where (below, opposite, level_a)
    by_nothing = Equal (level_b, nothing)
    one        = Constant <value = int64 {1}> ()
    size       = Abs (level_b)
    cells      = Where (by_nothing, one, size)
}
""")

_BY_NOTHING = fragment("""
by_nothing (level_a, by_nothing, finite) => (level) {
    far      = Constant <value = int64 {131072}> ()                        # 2**17
    infinite = Mul (level_a, far)
    level    = Where (by_nothing, infinite, finite)
}
""")

_IN_DOUBLE = fragment("""
in_double (a, a_zero, b, b_zero, multiplier, shift) => (value) {
    # numerator and denominator are exact: see opsets/division.py
    wide_a   = Cast <to = 11> (a)                                          # 11 is DOUBLE
    wide_b   = Cast <to = 11> (b)
    zero_a   = Cast <to = 11> (a_zero)
    zero_b   = Cast <to = 11> (b_zero)
    level_a  = Sub (wide_a, zero_a)
    level_b  = Sub (wide_b, zero_b)
    half_1   = Constant <value = double {0.5}> ()
    real_s   = Cast <to = 11> (shift)
    real_m   = Cast <to = 11> (multiplier)
    step     = Pow (half_1, real_s)
    scale    = Mul (real_m, step)
    product  = Mul (level_a, scale)
    nothing  = Sub (half_1, half_1)
    is_none  = Equal (level_b, nothing)
    divisor  = Where (is_none, half_1, level_b)
    finite   = Div (product, divisor)
    far      = Constant <value = double {131072.0}> ()                     # 2**17
    infinite = Mul (level_a, far)
    value    = Where (is_none, infinite, finite)
}
""")


def _fits_double(constants: Constants, _attributes: Attributes) -> bool:
    """Whether double rounds every quotient as integers do."""
    m, shift = largest_multiplier(constants), int(constants["shift"].reshape(()))
    reach, most = (furthest(constants[name]) for name in ("a_zero", "b_zero"))
    return fits_double(m, shift, reach, most, constants["y_zero"].itemsize)


def _in_double(rounding: Rounding) -> Body:
    statements = _IN_DOUBLE + value_in_double(rounding)
    accepts = all_of(rounds(rounding), _fits_double)
    return Body(overload(rounding), "onnxruntime", statements, accepts)


def _portable(rounding: Rounding) -> Body:
    finite = _LEVELS + _SIGNED + quotient(rounding)(level="finite")
    statements = finite + _BY_NOTHING + STORE
    return Body(portable_overload(rounding), "portable", statements, rounds(rounding))


def reference(
    a: NDArray[Any],
    a_zero: NDArray[Any],
    b: NDArray[Any],
    b_zero: NDArray[Any],
    multiplier: NDArray[np.int32],
    shift: NDArray[np.int32],
    y_zero: NDArray[Any],
    y_min: NDArray[Any],
    y_max: NDArray[Any],
    *,
    rounding: Rounding,
) -> NDArray[Any]:
    """Stored a and b broadcast together; one multiplier and one shift."""
    level_a, level_b = a.astype(np.int64) - a_zero, b.astype(np.int64) - b_zero
    numerator = level_a * np.sign(level_b) * multiplier.astype(np.int64)
    divisor = np.maximum(np.abs(level_b), 1) << shift.astype(np.int64)
    level = rounding_divide(numerator, divisor, rounding)
    level = np.where(level_b == 0, np.sign(level_a) * BEYOND, level)
    return saturate(level, y_zero, y_min, y_max).astype(y_zero.dtype)


def _monotone(
    a: NDArray[Any], a_zero: NDArray[Any], b: NDArray[Any], *args: Any, **attributes: Any
) -> None:
    """In a, upwards or downwards as the sign of b says."""
    b_zero, rows = args[0], np.sort(a, axis=None)[:, None]
    stored = reference(rows, a_zero, b.reshape(1, -1), *args, **attributes).astype(np.int64)
    signs = np.where(b.reshape(-1).astype(np.int64) < b_zero, -1, 1)
    assert (np.diff(stored, axis=0) * signs >= 0).all()


INT_DIV = Op(
    name="IntDiv",
    inputs={
        "a": Data("S"),
        "a_zero": Constant("S"),
        "b": Data("S"),
        "b_zero": Constant("S"),
        "multiplier": Constant("int32", limits=range(1 << 31)),
        "shift": Shift(limits=range(1, LARGEST_SHIFT + 1)),
        **ends("S"),
    },
    outputs={"y": Data("S")},
    attributes={
        "rounding": ONCE,
    },
    reference=reference,
    bodies=[*map(_in_double, ROUNDINGS), *map(_portable, ROUNDINGS)],
    evidence="bounded",
    scaling=Scaling.QUOTIENT,
    constraints=[BYTES_ALIKE],
    laws={"monotone in a": _monotone},
    formula="y = clamp(round((a - a_zero) * multiplier / ((b - b_zero) * 2**shift)) + y_zero, "
    "y_min, y_max), exact on integers, with ONNX broadcasting and one rounding. Where b is "
    "b_zero: y_max for a above a_zero, y_min for a below it, and for a_zero the code of 0.",
    note="What a divisor is rounded to counts: one that is stored as 0 divides as 0.",
)
