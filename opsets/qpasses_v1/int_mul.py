"""IntMul: the product of two stored tensors, rounded once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import TWICE
from opsets.declaration import Constant, Data, Scaling, Shift, ends
from opsets.double import overload
from opsets.fixed_point import ROUNDINGS, saturate
from opsets.float32 import CLIPPED
from opsets.fragments import fragment
from opsets.op import (
    Attributes,
    Body,
    Constants,
    Op,
    all_of,
    clamps_inside,
    of_bytes,
    saturates_at_type_ends,
)
from opsets.portable import bodies_of_product, rounds
from opsets.rounding import NodeRounding, requantize
from opsets.tabulated import pair_bodies
from opsets.word_products import (
    BYTES_ALIKE,
    EXACT,
    has_words,
    largest_multiplier,
    reach_of_product,
    stored_in_double,
)

_PORTABLE = fragment("""
product (a, a_zero, b, b_zero, multiplier) => (product, m) {
    wide_a  = Cast <to = 7> (a)                                            # 7 is INT64
    wide_b  = Cast <to = 7> (b)
    zero_a  = Cast <to = 7> (a_zero)
    zero_b  = Cast <to = 7> (b_zero)
    level_a = Sub (wide_a, zero_a)
    level_b = Sub (wide_b, zero_b)
    product = Mul (level_a, level_b)
    m       = Cast <to = 7> (multiplier)
}
""")

_ONNXRUNTIME = fragment("""
fast_product (a, a_zero, b, b_zero, multiplier, shift, y_zero) => (y) {
    m      = Cast <to = 1> (multiplier)                                    # 1 is FLOAT
    s      = Cast <to = 1> (shift)
    half   = Constant <value = float {0.5}> ()
    step   = Pow (half, s)
    scale  = Mul (m, step)
    one    = Constant <value = float {1.0}> ()
    y      = com.microsoft.QLinearMul (a, scale, a_zero, b, one, b_zero, one, y_zero)
}
""")

_IN_DOUBLE = fragment("""
in_double (a, a_zero, b, b_zero) => (acc) {
    wide_a   = Cast <to = 11> (a)                                          # 11 is DOUBLE
    wide_b   = Cast <to = 11> (b)
    zero_a   = Cast <to = 11> (a_zero)
    zero_b   = Cast <to = 11> (b_zero)
    level_a  = Sub (wide_a, zero_a)
    level_b  = Sub (wide_b, zero_b)
    acc      = Mul (level_a, level_b)
}
""")


def _fits_double(constants: Constants, _attributes: Attributes) -> bool:
    """Whether double holds all products, less than 2**53."""
    return reach_of_product(constants) * largest_multiplier(constants) <= EXACT


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
    rounding: NodeRounding,
) -> NDArray[Any]:
    """Stored a and b broadcast together; one multiplier and one shift."""
    product = (a.astype(np.int64) - a_zero) * (b.astype(np.int64) - b_zero)
    level = requantize(product, multiplier, shift, rounding)
    return saturate(level, y_zero, y_min, y_max).astype(y_zero.dtype)


def _commutes(
    a: NDArray[Any],
    a_zero: NDArray[Any],
    b: NDArray[Any],
    b_zero: NDArray[Any],
    *rest: Any,
    **attributes: Any,
) -> None:
    np.testing.assert_array_equal(
        reference(a, a_zero, b, b_zero, *rest, **attributes),
        reference(b, b_zero, a, a_zero, *rest, **attributes),
    )


INT_MUL = Op(
    name="IntMul",
    inputs={
        "a": Data("S"),
        "a_zero": Constant("S"),
        "b": Data("S"),
        "b_zero": Constant("S"),
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
        *(
            Body(
                overload(rounding),
                "onnxruntime",
                _IN_DOUBLE + stored_in_double(rounding),
                accepts=all_of(rounds(rounding), has_words, _fits_double),
            )
            for rounding in ROUNDINGS
        ),
        *pair_bodies(bodies_of_product(_PORTABLE, "shift", ("product", "m"))),
        *bodies_of_product(_PORTABLE, "shift", ("product", "m")),
    ],
    evidence="exhaustive",
    evidence_of_words="bounded",
    scaling=Scaling.RATIO,
    constraints=[BYTES_ALIKE],
    laws={"commutes": _commutes},
    formula="product = (a - a_zero) * (b - b_zero) * multiplier, exact in int64; y = "
    "clamp(round(product / 2**shift) + y_zero, y_min, y_max), with ONNX broadcasting and one "
    "rounding.",
)
