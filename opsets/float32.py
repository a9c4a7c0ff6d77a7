"""The opening statements of the bodies that use onnxruntime's kernels, and their guards."""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from opsets.kernels import float32_kernel
from opsets.op import (
    Attributes,
    Body,
    Constants,
    Guard,
    all_of,
    any_node,
    saturates_at_type_ends,
)

WEIGHT_SCALE = """
    # the scale is computed from the integers on the node; Pow(0.5, n) is exact
    m         = Cast <to = 1> (multiplier)                                 # 1 is FLOAT
    s         = Cast <to = 1> (shift)
    half      = Constant <value = float {0.5}> ()
    step      = Pow (half, s)
    scale     = Mul (m, step)
    one       = Constant <value = float {1.0}> ()
"""


_UNSIGNED = """
    # stored int8 as uint8: the same bits, the highest turned round, which adds 128
    turned    = Constant <value = uint8 {128}> ()
    x_bits    = Cast <to = 2> (x)                                          # 2 is UINT8
    x_u8      = BitwiseXor (x_bits, turned)
    x_zero_b  = Cast <to = 2> (x_zero)
    x_zero_u8 = BitwiseXor (x_zero_b, turned)
    y_zero_b  = Cast <to = 2> (y_zero)
    y_zero_u8 = BitwiseXor (y_zero_b, turned)
"""

_SIGNED = """
    y_bits    = BitwiseXor (y_u8, turned)
    RESULT    = Cast <to = 3> (y_bits)                                     # 3 is INT8
"""


def float32_bodies(
    text: str, name: str = "onnxruntime", also: Guard = any_node
) -> Sequence[Body]:
    """Bodies on onnxruntime's kernels for the stored types and clamps.

    ``text`` calls data and zero points X, X_ZERO and Y_ZERO, and RESULT what the kernel
    writes; ``also`` is a further condition. The kernels for uint8 are many times faster than
    those for int8, so that int8 is turned into uint8 and back. A Clip follows where the clamp
    is not the type's range.
    """
    plain = {"X_ZERO": "x_zero", "Y_ZERO": "y_zero", "X": "x"}
    turned = {"RESULT": "y_u8", "X_ZERO": "x_zero_u8", "Y_ZERO": "y_zero_u8", "X": "x_u8"}
    if "X_ZERO" not in text:  # no data of a stored type, no kernel to choose
        return _with_and_without_clip(name, text, also)
    signed = _UNSIGNED + _replaced(text, turned) + _SIGNED
    forms = [
        (name, _replaced(text, plain), all_of(_is_unsigned, also)),
        (f"{name}_signed", signed, all_of(_is_signed, also)),
    ]
    return [body for form in forms for body in _with_and_without_clip(*form)]


def _replaced(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r"\b(RESULT|X_ZERO|Y_ZERO|X)\b", lambda m: names.get(m[0], m[0]), text)


def _with_and_without_clip(name: str, text: str, accepts: Guard) -> Sequence[Body]:
    saturating = all_of(accepts, saturates_at_type_ends)
    alone = text.replace("RESULT", "y")
    clamped = text.replace("RESULT", "saturated") + "y = Clip (saturated, y_min, y_max)"
    return [
        Body(name, "onnxruntime", alone, saturating, float32_kernel),
        Body(f"{name}_clamped", "onnxruntime", clamped, accepts, float32_kernel),
    ]


def _is_signed(constants: Constants, _attributes: Attributes) -> bool:
    return constants["y_min"].dtype == np.int8


def _is_unsigned(constants: Constants, _attributes: Attributes) -> bool:
    return constants["y_min"].dtype == np.uint8
