"""IntAdd: the sum of two stored tensors of different scales, rounded once."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import ONCE
from opsets.declaration import Constant, Data, Scaling, Shift, ends
from opsets.double import STORE_DOUBLE, overload, rounded_double
from opsets.fixed_point import ROUNDINGS, Rounding, rounding_shift, saturate
from opsets.float32 import CLIPPED
from opsets.fragments import Fragment, fragment
from opsets.op import (
    Body,
    Op,
    all_of,
    clamps_inside,
    of_bytes,
    of_words,
    saturates_at_type_ends,
)
from opsets.portable import bodies_of_one_rounding, rounds
from opsets.tabulated import pair_bodies

_PORTABLE = fragment("""
total (a, a_zero, b, b_zero, a_multiplier, b_multiplier) => (scaled) {
    wide_a   = Cast <to = 7> (a)                                           # 7 is INT64
    wide_b   = Cast <to = 7> (b)
    zero_a   = Cast <to = 7> (a_zero)
    zero_b   = Cast <to = 7> (b_zero)
    level_a  = Sub (wide_a, zero_a)
    level_b  = Sub (wide_b, zero_b)
    m_a      = Cast <to = 7> (a_multiplier)
    m_b      = Cast <to = 7> (b_multiplier)
    scaled_a = Mul (level_a, m_a)
    scaled_b = Mul (level_b, m_b)
    scaled   = Add (scaled_a, scaled_b)
}
""")

FAST_SUM = fragment("""
fast_sum
    (a, a_zero, b, b_zero, a_multiplier, b_multiplier, shift, y_zero) => (y) {
    m_a      = Cast <to = 1> (a_multiplier)                                # 1 is FLOAT
    m_b      = Cast <to = 1> (b_multiplier)
    s        = Cast <to = 1> (shift)
    half     = Constant <value = float {0.5}> ()
    step     = Pow (half, s)
    scale_a  = Mul (m_a, step)
    scale_b  = Mul (m_b, step)
    one      = Constant <value = float {1.0}> ()
    y        = com.microsoft.QLinearAdd (a, scale_a, a_zero, b, scale_b, b_zero, one, y_zero)
}
""")

SUM_IN_DOUBLE = fragment("""
in_double
    (a, a_zero, b, b_zero, a_multiplier, b_multiplier, shift) => (value) {
    # codes of 16 bits and multipliers of 31: double holds all these products and sums
    half     = Constant <value = double {0.5}> ()
    s        = Cast <to = 11> (shift)                                      # 11 is DOUBLE
    step     = Pow (half, s)
    m_a      = Cast <to = 11> (a_multiplier)
    m_b      = Cast <to = 11> (b_multiplier)
    scale_a  = Mul (m_a, step)
    scale_b  = Mul (m_b, step)
    real_a   = Cast <to = 11> (a)
    real_b   = Cast <to = 11> (b)
    zero_a   = Cast <to = 11> (a_zero)
    zero_b   = Cast <to = 11> (b_zero)
    from_a   = Mul (zero_a, scale_a)
    from_b   = Mul (zero_b, scale_b)
    origin   = Add (from_a, from_b)
    scaled_a = Mul (real_a, scale_a)
    scaled_b = Mul (real_b, scale_b)
    sum      = Add (scaled_a, scaled_b)
    value    = Sub (sum, origin)
}
""")


def bodies_in_double(in_double: Fragment) -> Sequence[Body]:
    """For each rounding a body of words; ``in_double`` writes the sum, a double ``value``."""
    return [
        Body(
            overload(rounding),
            "onnxruntime",
            in_double + rounded_double("value", "level", rounding) + STORE_DOUBLE,
            accepts=all_of(rounds(rounding), of_words),
        )
        for rounding in ROUNDINGS
    ]


def reference(
    a: NDArray[Any],
    a_zero: NDArray[Any],
    b: NDArray[Any],
    b_zero: NDArray[Any],
    a_multiplier: NDArray[np.int32],
    b_multiplier: NDArray[np.int32],
    shift: NDArray[np.int32],
    y_zero: NDArray[Any],
    y_min: NDArray[Any],
    y_max: NDArray[Any],
    *,
    rounding: Rounding,
) -> NDArray[Any]:
    """Stored a and b broadcast together; scalar multipliers that share one shift."""
    total = (a.astype(np.int64) - a_zero) * a_multiplier.astype(np.int64)
    total = total + (b.astype(np.int64) - b_zero) * b_multiplier.astype(np.int64)
    level = rounding_shift(total, shift, rounding)
    return saturate(level, y_zero, y_min, y_max).astype(y_zero.dtype)


def _commutes(
    a: NDArray[Any],
    a_zero: NDArray[Any],
    b: NDArray[Any],
    b_zero: NDArray[Any],
    a_multiplier: NDArray[Any],
    b_multiplier: NDArray[Any],
    *rest: Any,
    **attributes: Any,
) -> None:
    np.testing.assert_array_equal(
        reference(a, a_zero, b, b_zero, a_multiplier, b_multiplier, *rest, **attributes),
        reference(b, b_zero, a, a_zero, b_multiplier, a_multiplier, *rest, **attributes),
    )


INT_ADD = Op(
    name="IntAdd",
    inputs={
        "a": Data("S"),
        "a_zero": Constant("S"),
        "b": Data("S"),
        "b_zero": Constant("S"),
        "a_multiplier": Constant("int32"),
        "b_multiplier": Constant("int32"),
        "shift": Shift(),
        **ends("S"),
    },
    outputs={"y": Data("S")},
    attributes={
        "rounding": ONCE,
    },
    reference=reference,
    bodies=[
        Body(
            "onnxruntime",
            "onnxruntime",
            FAST_SUM,
            accepts=all_of(of_bytes, saturates_at_type_ends),
        ),
        Body(
            "onnxruntime_clamped",
            "onnxruntime",
            FAST_SUM(y="saturated") + CLIPPED,
            accepts=all_of(of_bytes, clamps_inside),
        ),
        *bodies_in_double(SUM_IN_DOUBLE),
        *pair_bodies(bodies_of_one_rounding(_PORTABLE, "shift")),
        *bodies_of_one_rounding(_PORTABLE, "shift"),
    ],
    evidence="exhaustive",
    evidence_of_words="bounded",
    scaling=Scaling.SUM,
    laws={"commutes": _commutes},
    formula="total = (a - a_zero) * a_multiplier + (b - b_zero) * b_multiplier, exact in "
    "int64; y = clamp(round(total / 2**shift) + y_zero, y_min, y_max), with ONNX "
    "broadcasting and one rounding.",
    note="onnxruntime's QLinearAdd depends on the order of its operands, so evidence covers "
    "both.",
)
