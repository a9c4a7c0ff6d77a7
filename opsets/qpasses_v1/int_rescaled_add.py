"""IntRescaledAdd: the sum of two stored tensors, each of them rounded before it is added."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import IN_DOUBLE_TOO
from opsets.declaration import Constant, Data, Scaling, Shift, ends
from opsets.fixed_point import Int64, saturate
from opsets.forms import LEFT_SHIFTS
from opsets.fragments import Fragment, fragment
from opsets.op import Attributes, Body, Condition, Constants, Guard, Op
from opsets.portable import STORE, portable_overload, rescaled
from opsets.rounding import NODE_ROUNDINGS, NodeRounding, requantize
from opsets.tabulated import pair_bodies

_OPERANDS = fragment("""
operands (a, a_zero, b, b_zero, left_shift) => (lifted_a, lifted_b) {
    wide_a    = Cast <to = 7> (a)                                          # 7 is INT64
    wide_b    = Cast <to = 7> (b)
    zero_a    = Cast <to = 7> (a_zero)
    zero_b    = Cast <to = 7> (b_zero)
    level_a   = Sub (wide_a, zero_a)
    level_b   = Sub (wide_b, zero_b)
    one       = Constant <value = int64 {1}> ()
    one_in    = Cast <to = 13> (one)                                       # 13 is UINT64
    left      = Cast <to = 13> (left_shift)
    lift_in   = BitShift <direction = "LEFT"> (one_in, left)
    lift      = Cast <to = 7> (lift_in)
    lifted_a  = Mul (level_a, lift)
    lifted_b  = Mul (level_b, lift)
}
""")

_SUM = fragment("""
sum (term_a, term_b) => (total) {
    total     = Add (term_a, term_b)
}
""")

INPUTS = {
    "a": Data("S"),
    "a_zero": Constant("S"),
    "b": Data("S"),
    "b_zero": Constant("S"),
    "left_shift": Shift(limits=range(max(LEFT_SHIFTS.values()) + 1)),
    "a_multiplier": Constant("int32"),
    "a_shift": Shift(),
    "b_multiplier": Constant("int32"),
    "b_shift": Shift(),
    "y_multiplier": Constant("int32"),
    "y_shift": Shift(),
    **ends("S"),
}
"""Of a sum or difference of rescaled tensors."""


def rescaled_bodies(joined: Fragment) -> list[Body]:
    """For each rounding; ``joined`` writes the ``total`` of ``term_a`` and ``term_b``."""
    portable = [
        Body(
            portable_overload(rounding),
            "portable",
            _OPERANDS
            + rescaled("lifted_a", "a_multiplier", "a_shift", "term_a", rounding)
            + rescaled("lifted_b", "b_multiplier", "b_shift", "term_b", rounding)
            + joined
            + rescaled("total", "y_multiplier", "y_shift", "level", rounding)
            + STORE,
            accepts=_rounds(rounding),
        )
        for rounding in NODE_ROUNDINGS
    ]
    return [*pair_bodies(portable), *portable]


def _rounds(rounding: NodeRounding) -> Guard:
    """Products in double are exact, if they have less than 53 bits: without a left shift."""

    def accepts(constants: Constants, attributes: Attributes) -> bool:
        given = attributes["rounding"]
        if given == "half_to_even_in_double" and rounding == "half_to_even":
            return "left_shift" in constants and not constants["left_shift"].any()
        return bool(given == rounding)

    return Condition(f"the rounding is {rounding}", accepts)


def term(
    x: NDArray[Any],
    zero: NDArray[Any],
    left_shift: NDArray[np.int32],
    multiplier: NDArray[np.int32],
    shift: NDArray[np.int32],
    rounding: str,
) -> Int64:
    """A stored operand as the int64 that is added."""
    lifted = (x.astype(np.int64) - zero) << left_shift.astype(np.int64)
    return requantize(lifted, multiplier, shift, rounding)


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
    total = term(a, a_zero, left_shift, a_multiplier, a_shift, rounding) + term(
        b, b_zero, left_shift, b_multiplier, b_shift, rounding
    )
    level = requantize(total, y_multiplier, y_shift, rounding)
    return saturate(level, y_zero, y_min, y_max).astype(y_zero.dtype)


def _commutes(*inputs: Any, **attributes: Any) -> None:
    a, b, left_shift, of_a, of_b = inputs[:2], inputs[2:4], inputs[4], inputs[5:7], inputs[7:9]
    swapped = [*b, *a, left_shift, *of_b, *of_a, *inputs[9:]]
    np.testing.assert_array_equal(
        reference(*inputs, **attributes), reference(*swapped, **attributes)
    )


INT_RESCALED_ADD = Op(
    name="IntRescaledAdd",
    inputs=INPUTS,
    outputs={"y": Data("S")},
    attributes={
        "rounding": IN_DOUBLE_TOO,
    },
    reference=reference,
    bodies=rescaled_bodies(_SUM),
    evidence="exhaustive",
    evidence_of_words="bounded",
    scaling=Scaling.RESCALED_SUM,
    laws={"commutes": _commutes},
    formula="R(v, m, s) = v * m / 2**s, rounded as named; y = clamp(R(R((a - a_zero) << "
    "left_shift, a_multiplier, a_shift) + R((b - b_zero) << left_shift, b_multiplier, "
    "b_shift), y_multiplier, y_shift) + y_zero, y_min, y_max), with ONNX broadcasting.",
    source="Sources: TFLite's Add, left_shift 20; TPU-MLIR's and I-ViT's, left_shift 0 and "
    "the sum kept as it is.",
)
