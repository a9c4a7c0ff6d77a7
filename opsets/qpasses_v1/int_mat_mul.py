"""IntMatMul: stacks of matrices of stored integers multiplied, as numpy.matmul does it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import TWICE, Integer
from opsets.declaration import (
    PER_CHANNEL,
    Constant,
    Constraint,
    Data,
    Probe,
    Scaling,
    Shape,
    Shift,
    ends,
)
from opsets.double import accumulator_bodies, overload
from opsets.fixed_point import ROUNDINGS, saturate
from opsets.float32 import WEIGHT_SCALE, float32_bodies, is_unsigned
from opsets.fragments import fragment
from opsets.op import Attributes, Body, Constants, Op, all_of
from opsets.portable import LAST_AXIS, bodies_of_product, portable_bodies, rounds
from opsets.rounding import LAST_STEP, NodeRounding, requantize
from opsets.word_products import (
    BYTES_ALIKE,
    EXACT,
    LARGEST,
    has_no_words,
    has_words,
    largest_multiplier,
    reach_of_product,
    stored_in_double,
)

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

_WORD_SUMS = fragment("""
word_sums (a, a_zero, b, b_zero, multiplier) => (acc, m) {
    wide_a  = Cast <to = 7> (a)                                            # 7 is INT64
    wide_b  = Cast <to = 7> (b)
    zero_a  = Cast <to = 7> (a_zero)
    zero_b  = Cast <to = 7> (b_zero)
    level_a = Sub (wide_a, zero_a)
    level_b = Sub (wide_b, zero_b)
    acc     = MatMul (level_a, level_b)
    m       = Cast <to = 7> (multiplier)
}
""")

_DOUBLE_SUMS = fragment("""
double_sums (a, a_zero, b, b_zero) => (acc) {
    # faster than MatMulInteger of two planes of bytes of each operand
    wide_a  = Cast <to = 11> (a)                                           # 11 is DOUBLE
    wide_b  = Cast <to = 11> (b)
    zero_a  = Cast <to = 11> (a_zero)
    zero_b  = Cast <to = 11> (b_zero)
    level_a = Sub (wide_a, zero_a)
    level_b = Sub (wide_b, zero_b)
    product = MatMul (level_a, level_b)
    # onnxruntime makes one op for float of MatMul and a Mul behind it
    lowest  = Constant <value = double {-9007199254740992.0}> ()           # -2**53
    acc     = Max (product, lowest)
}
""")

_INTEGER_SUMS = fragment("""
integer_sums (real_acc, multiplier) => (acc, m) {
    acc     = Cast <to = 7> (real_acc)                                     # 7 is INT64
    m       = Cast <to = 7> (multiplier)
}
""")


def _reach(constants: Constants, attributes: Attributes) -> int:
    return reach_of_product(constants, attributes["inner"])


def _fits_double(constants: Constants, attributes: Attributes) -> bool:
    """Whether double holds all sums times the multiplier, less than 2**53."""
    return _reach(constants, attributes) * largest_multiplier(constants) <= EXACT


def _sums_fit_double(constants: Constants, attributes: Attributes) -> bool:
    """Whether double holds all sums, less than 2**53."""
    return _reach(constants, attributes) <= EXACT


def _fit_words(constants: Constants, attributes: Attributes, _shape: Shape) -> bool:
    if has_no_words(constants, attributes):
        return True
    largest = _reach(constants, attributes) * largest_multiplier(constants)
    return attributes["rounding"] not in LAST_STEP and largest <= LARGEST


def _of_bytes(bodies: Sequence[Body]) -> Sequence[Body]:
    return [replace(each, accepts=all_of(each.accepts, has_no_words)) for each in bodies]


def _word_bodies() -> Sequence[Body]:
    """In double, in double but for the rounding, in int64: the first that is exact."""
    wide = _DOUBLE_SUMS(acc="real_acc") + _INTEGER_SUMS
    rounded = zip(ROUNDINGS, bodies_of_product(wide, "shift", ("acc", "m")), strict=False)
    return [
        *(
            Body(
                overload(rounding, "words"),
                "onnxruntime",
                _DOUBLE_SUMS + stored_in_double(rounding),
                all_of(rounds(rounding), has_words, _fits_double),
            )
            for rounding in ROUNDINGS
        ),
        *(
            Body(
                overload(rounding, "wide"),
                "onnxruntime",
                body.statements,
                all_of(rounds(rounding), has_words, _sums_fit_double),
            )
            for rounding, body in rounded
        ),
        *(
            replace(
                body,
                overload=body.overload.replace("portable", "portable_words"),
                accepts=all_of(body.accepts, has_words),
            )
            for body in bodies_of_product(_WORD_SUMS, "shift", ("acc", "m"))[: len(ROUNDINGS)]
        ),
    ]


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
        "a": Data("S"),
        "a_zero": Constant("S"),
        "b": Data("S"),
        "b_zero": Constant("S"),
        "multiplier": Constant("int32", PER_CHANNEL),
        "shift": Shift(dims=PER_CHANNEL),
        **ends("S"),
    },
    outputs={"y": Data("S")},
    attributes={
        "inner": Integer(),
        "rounding": TWICE,
    },
    reference=reference,
    bodies=[
        *float32_bodies(_ONNXRUNTIME, also=has_no_words),
        *accumulator_bodies(_FAST_SUMS, LAST_AXIS, also=all_of(is_unsigned, has_no_words)),
        *_of_bytes(portable_bodies(_SUMS, LAST_AXIS)),
        *_word_bodies(),
    ],
    evidence="thresholds",
    evidence_of_words="bounded",
    scaling=Scaling.RATIO,
    probe=Probe.OPERANDS,
    laws={"the transposed product is that of the transposed": _transposes},
    constraints=[
        BYTES_ALIKE,
        Constraint(
            "words are rounded once, `inner` products times the multiplier in 62 bits",
            _fit_words,
        ),
    ],
    formula="acc = sum over k of (a[..., m, k] - a_zero) * (b[..., k, n] - b_zero), exact in "
    "int32 for `inner` products of bytes and fewer, in int64 of words; y = clamp(round(acc * "
    "multiplier / 2**shift) + y_zero, y_min, y_max). Ranks are 2 and more, leading dimensions "
    "broadcast.",
    source="Source: ONNX MatMul and QLinearMatMul.",
)
