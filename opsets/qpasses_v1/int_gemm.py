"""IntGemm: stored integers of any rank times a weight matrix, plus bias, requantized."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import MANY, TWICE, Integers
from opsets.bias_rests import BIAS_RESTS, RESTS_FIT, with_rests
from opsets.declaration import PER_CHANNEL, Constant, Data, Probe, Scaling, Shift, ends
from opsets.double import accumulator_bodies
from opsets.fixed_point import saturate
from opsets.float32 import WEIGHT_SCALE, float32_bodies
from opsets.fragments import fragment
from opsets.op import Attributes, Constants, Op
from opsets.portable import LAST_AXIS, portable_bodies
from opsets.rounding import NodeRounding, requantize
from opsets.word_sums import ENDS_FIT, of_codes_alone, sums_of_planes, word_bodies

NOT_KNOWN = [0]
"""In place of the leading sizes of x, where not even their number is known."""

_SUMS = fragment("""
sums (x, x_zero, w, w_zero, bias) => (acc) {
    products = MatMulInteger (x, w, x_zero, w_zero)
    acc      = Add (products, bias)
}
""")

_MATRIX = WEIGHT_SCALE + fragment("""
matrix (x_u8, x_zero_u8, w, w_zero, scale, one, bias, y_zero_u8) => (y_u8) {
    scales    = Shape (scale)
    w_zeros   = Expand (w_zero, scales)                                    # scale's shape
    y_u8      = com.microsoft.QGemm <alpha = 1.0, transA = 0, transB = 0>
        (x_u8, one, x_zero_u8, w, scale, w_zeros, bias, one, y_zero_u8)
}
""")

_PRODUCT = _MATRIX(x_u8="rows", y_u8="product")

_FLAT = fragment("""
flat (x_u8, w) => (rows, outer) {
    # QGemm takes matrices: flatten the leading dimensions, then restore them
    inner     = Shape <end = 1> (w)
    outer     = Shape <start = 1> (w)
    rest      = Constant <value = int64[1] {-1}> ()
    matrix    = Concat <axis = 0> (rest, inner)
    rows      = Reshape (x_u8, matrix)
}
""")

_RESTORED = fragment("""
restored (x, product, outer) => (y_u8) {
    leading   = Shape <end = -1> (x)
    full      = Concat <axis = 0> (leading, outer)
    y_u8      = Reshape <allowzero = 1> (product, full)
}
""")

_ANY_RANK = _FLAT + _PRODUCT + _RESTORED

_IN_ROWS = fragment("""
in_rows (x_u8) => (rows) {
    rows      = Flatten <axis = -1> (x_u8)
}
""")

_OUT_OF_ROWS = fragment("""
out_of_rows <leading> (product, w) => (y_u8) {
    leading   = Constant <value_ints: ints = @leading> ()
    outer     = Shape <start = 1> (w)
    full      = Concat <axis = 0> (leading, outer)                         # folded
    y_u8      = Reshape (product, full)
}
""")

_ROWS = _IN_ROWS + _PRODUCT + _OUT_OF_ROWS


def _is_matrix(_constants: Constants, attributes: Attributes) -> bool:
    """Whether x is known to be a matrix."""
    leading = attributes.get("leading", NOT_KNOWN)
    return len(leading) == 1 and leading != NOT_KNOWN


def _has_sizes(_constants: Constants, attributes: Attributes) -> bool:
    """Whether one leading size varies at most, so that the others say what it is."""
    leading = attributes.get("leading", NOT_KNOWN)
    return len(leading) > 1 and all(leading) and min(leading) >= -1 and leading.count(-1) < 2


_OF_CODES = with_rests(
    [
        *float32_bodies(_MATRIX, "onnxruntime_matrix", _is_matrix),
        *float32_bodies(_ROWS, "onnxruntime_rows", _has_sizes),
        *float32_bodies(_ANY_RANK),
        *accumulator_bodies(_SUMS, LAST_AXIS),
        *portable_bodies(_SUMS, LAST_AXIS),
    ],
    _SUMS,
    LAST_AXIS,
)


def reference(
    x: NDArray[Any],
    x_zero: NDArray[Any],
    w: NDArray[Any],
    w_zero: NDArray[Any],
    bias: NDArray[np.int32],
    multiplier: NDArray[np.int32],
    shift: NDArray[np.int32],
    y_zero: NDArray[Any],
    y_min: NDArray[Any],
    y_max: NDArray[Any],
    *,
    rounding: NodeRounding,
    bias_rests: Sequence[int] = (),
    leading: Sequence[int] = NOT_KNOWN,
) -> NDArray[Any]:
    """Stored x [..., K], w [K, N], bias [N] -> stored y [..., N].

    ``multiplier`` and ``shift`` have one entry or N, ``bias_rests`` N or none. ``leading`` are
    the sizes of x before the last, -1 for those that vary, [0] if not even their number is
    known: they change no result, but save asking for the shape.
    """
    assert leading == NOT_KNOWN or len(leading) == x.ndim - 1
    data, weights = (a.astype(np.int64) - z for a, z in ((x, x_zero), (w, w_zero)))
    acc = np.matmul(data, weights) + bias.astype(np.int64)
    rests = [np.array(bias_rests)] if bias_rests else []
    level = requantize(acc, multiplier, shift, rounding, *rests)
    return saturate(level, y_zero, y_min, y_max).astype(y_zero.dtype)


def _identity_weights_keep_the_levels(
    x: NDArray[Any], x_zero: NDArray[Any], *args: Any, **kw: Any
) -> None:
    *_, y_zero, y_min, y_max = args
    size = x.shape[-1]
    kw.pop("bias_rests", None)
    unit = np.eye(size, dtype=np.int64) + args[1]  # wide: w_zero + 1 may leave the type
    scale = np.full(1, 1 << 10, np.int32), np.full(1, 10, np.int32)
    same = reference(
        x, x_zero, unit, args[1], np.zeros(size, np.int32), *scale, y_zero, y_min, y_max, **kw
    )
    level = x.astype(np.int64) - x_zero
    np.testing.assert_array_equal(same, np.clip(level + y_zero, int(y_min), int(y_max)))


INT_GEMM = Op(
    name="IntGemm",
    inputs={
        "x": Data("X"),
        "x_zero": Constant("X"),
        "w": Constant("W", ("K", "N")),
        "w_zero": Constant("W"),
        "bias": Constant("int32", ("N",)),
        "multiplier": Constant("int32", PER_CHANNEL),
        "shift": Shift(dims=PER_CHANNEL),
        **ends("Y"),
    },
    outputs={"y": Data("Y")},
    attributes={
        "leading": Integers(-MANY),
        "rounding": TWICE,
        "bias_rests": BIAS_RESTS,
    },
    reference=reference,
    bodies=[
        *of_codes_alone(_OF_CODES),
        *word_bodies(_SUMS, sums_of_planes(_SUMS), LAST_AXIS),
    ],
    evidence="thresholds",
    evidence_of_words="bounded",
    scaling=Scaling.RATIO,
    constraints=[RESTS_FIT, ENDS_FIT],
    probe=Probe.COLUMNS,
    laws={"identity weights keep the levels": _identity_weights_keep_the_levels},
    formula="acc = sum over k of (x[..., k] - x_zero) * (w[k, n] - w_zero) + bias[n], exact "
    "in int32, of x with 16 bits in int64; y = clamp(round((acc * multiplier + bias_rests) / "
    "2**shift) + y_zero, y_min, y_max), without `bias_rests` 0. x has any rank >= 2.",
    source="Source: ONNX MatMulInteger and onnxruntime's QGemm.",
)
