"""IntAdd: the sum of two stored tensors of different scales, rounded once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Rounding, rounding_shift, saturate
from opsets.op import Body, Op, clamps_inside, saturates_at_type_ends
from opsets.portable import bodies_of_one_rounding
from opsets.tabulated import pair_bodies

_PORTABLE = """
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
"""

FAST_SUM = """
    m_a      = Cast <to = 1> (a_multiplier)                                # 1 is FLOAT
    m_b      = Cast <to = 1> (b_multiplier)
    s        = Cast <to = 1> (shift)
    half     = Constant <value = float {0.5}> ()
    step     = Pow (half, s)
    scale_a  = Mul (m_a, step)
    scale_b  = Mul (m_b, step)
    one      = Constant <value = float {1.0}> ()
    RESULT   = com.microsoft.QLinearAdd (a, scale_a, a_zero, B, scale_b, B_ZERO, one, y_zero)
"""
"""The sum with stored B and its zero point, to RESULT."""

_ONNXRUNTIME = FAST_SUM.replace("B_ZERO", "b_zero").replace("B,", "b,")


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
        "a": "T",
        "a_zero": "T",
        "b": "T",
        "b_zero": "T",
        "a_multiplier": "int32",
        "b_multiplier": "int32",
        "shift": "int32",
        "y_zero": "T",
        "y_min": "T",
        "y_max": "T",
    },
    outputs={"y": "T"},
    attributes=("rounding",),
    reference=reference,
    bodies=[
        Body(
            "onnxruntime",
            "onnxruntime",
            _ONNXRUNTIME.replace("RESULT", "y"),
            accepts=saturates_at_type_ends,
        ),
        Body(
            "onnxruntime_clamped",
            "onnxruntime",
            _ONNXRUNTIME.replace("RESULT", "saturated") + "y = Clip (saturated, y_min, y_max)",
            accepts=clamps_inside,
        ),
        *pair_bodies(bodies_of_one_rounding(_PORTABLE, "shift")),
        *bodies_of_one_rounding(_PORTABLE, "shift"),
    ],
    evidence="exhaustive",
    laws={"commutes": _commutes},
    doc="total = (a - a_zero) * a_multiplier + (b - b_zero) * b_multiplier, exact in int64; "
    "y = clamp(round(total / 2**shift) + y_zero, y_min, y_max), with ONNX "
    "broadcasting and one rounding. onnxruntime's QLinearAdd depends on the order of its "
    "operands, so evidence covers both.",
)
