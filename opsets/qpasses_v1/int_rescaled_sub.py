"""IntRescaledSub: the difference of two stored tensors, each rounded before that."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import IN_DOUBLE_TOO
from opsets.declaration import Data, Scaling
from opsets.fixed_point import saturate
from opsets.fragments import fragment
from opsets.op import Op
from opsets.qpasses_v1.int_rescaled_add import INPUTS, rescaled_bodies, term
from opsets.rounding import requantize

_DIFFERENCE = fragment("""
difference (term_a, term_b) => (total) {
    total     = Sub (term_a, term_b)
}
""")


def reference(
    a: NDArray[Any],
    a_zero: NDArray[Any],
    b: NDArray[Any],
    b_zero: NDArray[Any],
    left_shift: NDArray[np.int32],
    a_multiplier: NDArray[np.int32],
    a_shift: NDArray[np.int32],
    b_multiplier: NDArray[np.int32],
    b_shift: NDArray[np.int32],
    y_multiplier: NDArray[np.int32],
    y_shift: NDArray[np.int32],
    y_zero: NDArray[Any],
    y_min: NDArray[Any],
    y_max: NDArray[Any],
    *,
    rounding: str,
) -> NDArray[Any]:
    """Stored a and b broadcast together; scalar multipliers and shifts."""
    total = term(a, a_zero, left_shift, a_multiplier, a_shift, rounding) - term(
        b, b_zero, left_shift, b_multiplier, b_shift, rounding
    )
    level = requantize(total, y_multiplier, y_shift, rounding)
    return saturate(level, y_zero, y_min, y_max).astype(y_zero.dtype)


def _nothing_is_left_of_equals(*inputs: Any, **attributes: Any) -> None:
    a, of_a, ends = inputs[:2], inputs[5:7], inputs[11:]
    equals = [*a, *a, inputs[4], *of_a, *of_a, *inputs[9:]]
    nothing = saturate(np.zeros(a[0].shape, np.int64), *ends)
    assert (reference(*equals, **attributes) == nothing).all()


INT_RESCALED_SUB = Op(
    name="IntRescaledSub",
    inputs=INPUTS,
    outputs={"y": Data("S")},
    attributes={
        "rounding": IN_DOUBLE_TOO,
    },
    reference=reference,
    bodies=rescaled_bodies(_DIFFERENCE),
    evidence="exhaustive",
    evidence_of_words="bounded",
    scaling=Scaling.RESCALED_SUM,
    laws={"nothing is left of equals": _nothing_is_left_of_equals},
    formula="R(v, m, s) = v * m / 2**s, rounded as named; y = clamp(R(R((a - a_zero) << "
    "left_shift, a_multiplier, a_shift) - R((b - b_zero) << left_shift, b_multiplier, "
    "b_shift), y_multiplier, y_shift) + y_zero, y_min, y_max), with ONNX broadcasting.",
    source="Sources as of IntRescaledAdd.",
)
