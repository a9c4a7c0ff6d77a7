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
    clamps_inside,
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


_TURNED = """
    # stored int8 as uint8: the same bits, the highest turned round, which adds 128
    turned    = Constant <value = uint8 {128}> ()
"""

_UNSIGNED = """
    NAME_bits = Cast <to = 2> (NAME)                                       # 2 is UINT8
    NAME_u8   = BitwiseXor (NAME_bits, turned)
"""

_STORED = re.compile(r"\b(?:RESULT|[ABXY]_ZERO|[ABX])\b")

_SIGNED = """
    y_bits    = BitwiseXor (y_u8, turned)
    RESULT    = Cast <to = 3> (y_bits)                                     # 3 is INT8
"""


def float32_bodies(
    text: str, name: str = "onnxruntime", also: Guard = any_node
) -> Sequence[Body]:
    """Bodies on onnxruntime's kernels for the stored types and clamps.

    ``text`` calls data and zero points X (or A and B), X_ZERO and Y_ZERO, and RESULT what the
    kernel writes; ``also`` is a further condition. The kernels for uint8 are many times faster
    than those for int8, and their products of two uint8 saturate nowhere, so that int8 is
    turned into uint8 and back. A Clip follows where the clamp is not the type's range.
    """
    stored = sorted(set(_STORED.findall(text)) - {"RESULT", "Y_ZERO"})
    if not stored:  # no data of a stored type, no kernel to choose
        return _with_and_without_clip(name, text, also)
    stored = [each.lower() for each in (*stored, "Y_ZERO")]
    turning = "".join(_UNSIGNED.replace("NAME", each) for each in stored)
    plain = {each.upper(): each for each in stored}
    turned = {each.upper(): f"{each}_u8" for each in stored} | {"RESULT": "y_u8"}
    signed = _TURNED + turning + _replaced(text, turned) + _SIGNED
    forms = [
        (name, _replaced(text, plain), all_of(is_unsigned, also)),
        (f"{name}_signed", signed, all_of(is_signed, also)),
    ]
    return [body for form in forms for body in _with_and_without_clip(*form)]


def _replaced(text: str, names: Mapping[str, str]) -> str:
    return _STORED.sub(lambda found: names.get(found[0], found[0]), text)


def _with_and_without_clip(name: str, text: str, accepts: Guard) -> Sequence[Body]:
    saturating = all_of(accepts, saturates_at_type_ends)
    clamping = all_of(accepts, clamps_inside)
    alone = text.replace("RESULT", "y")
    clamped = text.replace("RESULT", "saturated") + "y = Clip (saturated, y_min, y_max)"
    return [
        Body(name, "onnxruntime", alone, saturating, float32_kernel),
        Body(f"{name}_clamped", "onnxruntime", clamped, clamping, float32_kernel),
    ]


def is_signed(constants: Constants, _attributes: Attributes) -> bool:
    """Whether stored tensors are int8."""
    return constants["y_min"].dtype == np.int8


def is_unsigned(constants: Constants, _attributes: Attributes) -> bool:
    """Whether stored tensors are uint8."""
    return constants["y_min"].dtype == np.uint8
