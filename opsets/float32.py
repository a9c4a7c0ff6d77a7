"""The opening statements of the bodies that use onnxruntime's kernels, and their guards."""

from collections.abc import Sequence

import numpy as np

from opsets.fragments import Fragment, fragment
from opsets.kernels import float32_kernel
from opsets.op import (
    Attributes,
    Body,
    Constants,
    Guard,
    all_of,
    any_node,
    clamps_inside,
    saturates_at_type_ends,
)

WEIGHT_SCALE = fragment("""
weight_scale (multiplier, shift) => (scale, one, half) {
    # the scale is computed from the integers on the node; Pow(0.5, n) is exact
    m         = Cast <to = 1> (multiplier)                                 # 1 is FLOAT
    s         = Cast <to = 1> (shift)
    half      = Constant <value = float {0.5}> ()
    step      = Pow (half, s)
    scale     = Mul (m, step)
    one       = Constant <value = float {1.0}> ()
}
""")

_HIGHEST_BIT = fragment("""
highest_bit () => (turned) {
    # stored int8 as uint8: the same bits, the highest turned round, which adds 128
    turned    = Constant <value = uint8 {128}> ()
}
""")

_UNSIGNED = fragment("""
unsigned (stored, turned) => (stored_u8) {
    bits      = Cast <to = 2> (stored)                                     # 2 is UINT8
    stored_u8 = BitwiseXor (bits, turned)
}
""")

_SIGNED = fragment("""
signed (y_u8, turned) => (y) {
    y_bits    = BitwiseXor (y_u8, turned)
    y         = Cast <to = 3> (y_bits)                                     # 3 is INT8
}
""")

CLIPPED = fragment("""
clipped (saturated, y_min, y_max) => (y) {
    y         = Clip (saturated, y_min, y_max)
}
""")
"""Codes inside the range of the type are the last."""


def float32_bodies(
    kernel: Fragment, name: str = "onnxruntime", also: Guard = any_node
) -> Sequence[Body]:
    """Bodies on onnxruntime's kernels for the stored types and clamps.

    ``kernel`` reads data and zero points as uint8, x_u8 (or a_u8 and b_u8), x_zero_u8 and
    y_zero_u8, and writes y_u8; ``also`` is a further condition. The kernels for uint8 are many
    times faster than those for int8, and their products of two uint8 saturate nowhere, so that
    int8 is turned into uint8 and back. A Clip follows where the clamp is not the type's range.
    """
    read = sorted(each.removesuffix("_u8") for each in kernel.reads if each.endswith("_u8"))
    if not read:  # no data of a stored type, no kernel to choose
        return _with_and_without_clip(name, kernel, also)
    plain = kernel(**{f"{each}_u8": each for each in read}, y_u8="y")
    signed = _HIGHEST_BIT
    for each in read:  # the zero point of y comes last
        signed += _UNSIGNED(stored=each, stored_u8=f"{each}_u8")
    signed += kernel + _SIGNED
    forms = [
        (name, plain, all_of(is_unsigned, also)),
        (f"{name}_signed", signed, all_of(is_signed, also)),
    ]
    return [body for form in forms for body in _with_and_without_clip(*form)]


def _with_and_without_clip(name: str, statements: Fragment, accepts: Guard) -> Sequence[Body]:
    saturating = all_of(accepts, saturates_at_type_ends)
    clamping = all_of(accepts, clamps_inside)
    clamped = statements(y="saturated") + CLIPPED
    return [
        Body(name, "onnxruntime", statements, saturating, float32_kernel),
        Body(f"{name}_clamped", "onnxruntime", clamped, clamping, float32_kernel),
    ]


def is_signed(constants: Constants, _attributes: Attributes) -> bool:
    """Whether stored tensors are int8."""
    return constants["y_min"].dtype == np.int8


def is_unsigned(constants: Constants, _attributes: Attributes) -> bool:
    """Whether stored tensors are uint8."""
    return constants["y_min"].dtype == np.uint8
