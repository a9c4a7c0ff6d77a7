"""IntMatMul: stacks of matrices of stored integers multiplied, as numpy.matmul does it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import TWICE, Integer
from opsets.declaration import PER_CHANNEL, Constant, Data, Probe, Scaling, Shift, ends
from opsets.double import accumulator_bodies
from opsets.fixed_point import saturate
from opsets.float32 import WEIGHT_SCALE, float32_bodies, is_unsigned
from opsets.fragments import fragment
from opsets.op import Op
from opsets.portable import LAST_AXIS, portable_bodies
from opsets.rounding import NodeRounding, requantize

_SUMS = fragment("""
sums (a, a_zero, b, b_zero) => (acc) {
    # int32 from the beginning: MatMulInteger of int8 saturates on x86 without VNNI
    wide_a  = Cast <to = 6> (a)                                            # 6 is INT32
    wide_b  = Cast <to = 6> (b)
    zero_a  = Cast <to = 6> (a_zero)
    zero_b  = Cast <to = 6> (b_zero)
    level_a = Sub (wide_a, zero_a)
    level_b = Sub (wide_b, zero_b)
    acc     = MatMul (level_a, level_b)
}
""")

_FAST_SUMS = fragment("""
fast_sums (a, a_zero, b, b_zero) => (acc) {
    products = MatMulInteger (a, b, a_zero, b_zero)
    # onnxruntime 1.31 fuses MatMulInteger, Cast and Mul for float alone, and fails on double
    lowest   = Constant <value = int32 {-2147483648}> ()
    acc      = Max (products, lowest)
}
""")
"""Of uint8, which saturate nowhere; kernels for int8 are as slow as those for int32."""

_ONNXRUNTIME = WEIGHT_SCALE + fragment("""
product (a_u8, a_zero_u8, b_u8, b_zero_u8, scale, one, y_zero_u8) => (y_u8) {
    y_u8    = QLinearMatMul (a_u8, scale, a_zero_u8, b_u8, one, b_zero_u8, one, y_zero_u8)
}
""")


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
    inner: int,
    rounding: NodeRounding,
) -> NDArray[Any]:
    """Stored a [..., M, K], b [..., K, N] -> stored y [..., M, N]; leading axes broadcast.

    ``multiplier`` and ``shift`` have one entry. ``inner``, the K of the proof, changes no
    result.
    """
    del inner
    acc = np.matmul(a.astype(np.int64) - a_zero, b.astype(np.int64) - b_zero)
    level = requantize(acc, multiplier, shift, rounding)
    return saturate(level, y_zero, y_min, y_max).astype(y_zero.dtype)


def _transposes(
    a: NDArray[Any],
    a_zero: NDArray[Any],
    b: NDArray[Any],
    b_zero: NDArray[Any],
    *rest: Any,
    **attributes: Any,
) -> None:
    turned = np.swapaxes(b, -1, -2), b_zero, np.swapaxes(a, -1, -2), a_zero
    np.testing.assert_array_equal(
        reference(a, a_zero, b, b_zero, *rest, **attributes),
        np.swapaxes(reference(*turned, *rest, **attributes), -1, -2),
    )


INT_MAT_MUL = Op(
    name="IntMatMul",
    inputs={
        "a": Data("T"),
        "a_zero": Constant("T"),
        "b": Data("T"),
        "b_zero": Constant("T"),
        "multiplier": Constant("int32", PER_CHANNEL),
        "shift": Shift(dims=PER_CHANNEL),
        **ends("T"),
    },
    outputs={"y": Data("T")},
    attributes={
        "inner": Integer(),
        "rounding": TWICE,
    },
    reference=reference,
    bodies=[
        *float32_bodies(_ONNXRUNTIME),
        *accumulator_bodies(_FAST_SUMS, LAST_AXIS, also=is_unsigned),
        *portable_bodies(_SUMS, LAST_AXIS),
    ],
    evidence="thresholds",
    scaling=Scaling.RATIO,
    probe=Probe.OPERANDS,
    laws={"the transposed product is that of the transposed": _transposes},
    formula="acc = sum over k of (a[..., m, k] - a_zero) * (b[..., k, n] - b_zero), exact in "
    "int32 for `inner` products and fewer; y = clamp(round(acc * multiplier / 2**shift) + "
    "y_zero, y_min, y_max). Ranks are 2 and more, leading dimensions broadcast.",
    source="Source: ONNX MatMul and QLinearMatMul.",
)
