"""IntSub: the difference of two stored tensors of different scales, rounded once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import ONCE
from opsets.declaration import Constant, Data, Scaling, Shift, ends
from opsets.fixed_point import Rounding, rounding_shift, saturate
from opsets.float32 import CLIPPED
from opsets.fragments import fragment
from opsets.op import Body, Op, all_of, clamps_inside, of_bytes, saturates_at_type_ends
from opsets.portable import bodies_of_one_rounding
from opsets.qpasses_v1.int_add import FAST_SUM, SUM_IN_DOUBLE, bodies_in_double
from opsets.tabulated import pair_bodies
from opsets.word_products import BYTES_ALIKE

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
    scaled   = Sub (scaled_a, scaled_b)
}
""")

_TURNED = fragment("""
turned (b, b_zero) => (turned, zero) {
    # bits turned over, a code is as far from its zero point on the other side
    turned   = BitwiseNot (b)
    zero     = BitwiseNot (b_zero)
}
""")

_ONNXRUNTIME = _TURNED + FAST_SUM(b="turned", b_zero="zero")

_NEGATIVE = fragment("""
negative (b_multiplier) => (minus_b) {
    real_m   = Cast <to = 11> (b_multiplier)                               # 11 is DOUBLE
    minus_b  = Neg (real_m)
}
""")


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
    total = total - (b.astype(np.int64) - b_zero) * b_multiplier.astype(np.int64)
    level = rounding_shift(total, shift, rounding)
    return saturate(level, y_zero, y_min, y_max).astype(y_zero.dtype)


def _nothing_is_left_of_equals(
    a: NDArray[Any],
    a_zero: NDArray[Any],
    _b: NDArray[Any],
    _b_zero: NDArray[Any],
    a_multiplier: NDArray[Any],
    _b_multiplier: NDArray[Any],
    shift: NDArray[Any],
    *ends: NDArray[Any],
    **attributes: Any,
) -> None:
    scales = a_multiplier, a_multiplier, shift
    found = reference(a, a_zero, a, a_zero, *scales, *ends, **attributes)
    assert (found == saturate(np.zeros(a.shape, np.int64), *ends)).all()


INT_SUB = Op(
    name="IntSub",
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
            _ONNXRUNTIME,
            accepts=all_of(of_bytes, saturates_at_type_ends),
        ),
        Body(
            "onnxruntime_clamped",
            "onnxruntime",
            _ONNXRUNTIME(y="saturated") + CLIPPED,
            accepts=all_of(of_bytes, clamps_inside),
        ),
        *bodies_in_double(_NEGATIVE + SUM_IN_DOUBLE(b_multiplier="minus_b")),
        *pair_bodies(bodies_of_one_rounding(_PORTABLE, "shift")),
        *bodies_of_one_rounding(_PORTABLE, "shift"),
    ],
    evidence="exhaustive",
    evidence_of_words="bounded",
    scaling=Scaling.SUM,
    constraints=[BYTES_ALIKE],
    laws={"nothing is left of equals": _nothing_is_left_of_equals},
    formula="total = (a - a_zero) * a_multiplier - (b - b_zero) * b_multiplier, exact in "
    "int64; y = clamp(round(total / 2**shift) + y_zero, y_min, y_max), with ONNX "
    "broadcasting and one rounding.",
    note="The fast body adds the bitwise complement of b, of which the complement of b_zero "
    "is the zero point.",
)
