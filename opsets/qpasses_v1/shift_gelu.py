"""ShiftGelu: I-ViT's GELU, x times a sigmoid made of two exponentials by shifts."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import TWICE, Axis, Integer
from opsets.declaration import Constant, Data, Scaling, Shift, ends
from opsets.fixed_point import saturate
from opsets.fragments import fragment
from opsets.laws import order_moves_with_the_row
from opsets.op import Op
from opsets.portable import bodies_of_product
from opsets.published import DIVIDED, LARGEST, SATURATED, exp_by_shifts, shift_exponential
from opsets.rounding import NodeRounding, requantize
from opsets.tabulated import pair_bodies

_CONSTANTS = fragment("""
constants <axis, x0, fraction_bits, output_bits> (x_zero) => (axes, x0, n, out_bits, origin) {
    axis_0     = Constant <value_int: int = @axis> ()
    size_1     = Constant <value = int64[1] {1}> ()
    axes       = Reshape (axis_0, size_1)
    x0         = Constant <value_int: int = @x0> ()
    n          = Constant <value_int: int = @fraction_bits> ()
    out_bits   = Constant <value_int: int = @output_bits> ()
    origin     = Cast <to = 7> (x_zero)                                    # 7 is INT64
}
""")

_ROW = fragment("""
row (x, origin, axes) => (code, distance, below_top) {
    wide_x     = Cast <to = 7> (x)
    code       = Sub (wide_x, origin)
    top        = ReduceMax (code, axes)
    distance   = Sub (code, top)
    below_top  = Neg (top)
}
""")

_EACH_PAIR = fragment("""
each_pair (each_a, each_b, origin) => (code, distance, below_top) {
    # a code of its row beside the largest, which is no less: onnxruntime computes all pairs
    wide_a     = Cast <to = 7> (each_a)
    wide_b     = Cast <to = 7> (each_b)
    top        = Sub (wide_a, origin)
    unbounded  = Sub (wide_b, origin)
    is_above   = Greater (unbounded, top)
    code       = Where (is_above, top, unbounded)
    distance   = Sub (code, top)
    below_top  = Neg (top)
}
""")

_LARGEST = fragment("""
largest (x, axes) => (code_a, code_b) {
    code_b     = Cast <to = 6> (x)                                         # 6 is INT32
    code_a     = ReduceMax (code_b, axes)
}
""")

_SUM = fragment("""
sum (term, other) => (sum) {
    sum        = Add (term, other)
}
""")

_OUTPUT = fragment("""
output (code, divided, multiplier) => (output, wide_m) {
    output     = Mul (code, divided)
    wide_m     = Cast <to = 7> (multiplier)                                # 7 is INT64
}
""")

_PRODUCT = (
    shift_exponential("distance", "term")
    + shift_exponential("below_top", "other")
    + _SUM
    + SATURATED
    + DIVIDED
    + _OUTPUT
)

_FACTORS = "shift", ("output", "wide_m")


def reference(
    x: NDArray[Any],
    x_zero: NDArray[Any],
    multiplier: NDArray[np.int32],
    shift: NDArray[np.int32],
    y_zero: NDArray[Any],
    y_min: NDArray[Any],
    y_max: NDArray[Any],
    *,
    axis: int,
    x0: int,
    fraction_bits: int,
    output_bits: int,
    rounding: NodeRounding,
) -> NDArray[Any]:
    """Stored x, any shape; ``shift_sigmoid`` of it times x - x_zero, requantized."""
    code = np.asarray(x).astype(np.int64) - x_zero
    sigmoid = shift_sigmoid(code, axis, x0, fraction_bits, output_bits)
    level = requantize(code * sigmoid, multiplier, shift, rounding)
    return saturate(level, y_zero, y_min, y_max).astype(y_zero.dtype)


def shift_sigmoid(
    code: NDArray[np.int64], axis: int, x0: int, fraction_bits: int, output_bits: int
) -> NDArray[np.int64]:
    """The sigmoid in I-ViT's IntGELU, of scale 2**(1 - output_bits), in the shape of ``code``.

    ``code`` is less its zero point; ``x0`` is floor(-1 / (1.702 * s)) for codes of scale s. It
    depends on the largest code along ``axis``, and is far off where that is large: exp(-top)
    is not below 2**-fraction_bits.
    """
    top = code.max(axis=axis, keepdims=True)
    terms = exp_by_shifts(code - top, x0, fraction_bits)
    total = np.minimum(terms + exp_by_shifts(-top, x0, fraction_bits), LARGEST)
    return np.asarray(terms * (LARGEST // total) >> 32 - output_bits)


SHIFT_GELU = Op(
    name="ShiftGelu",
    inputs={
        "x": Data("T"),
        "x_zero": Constant("T"),
        "multiplier": Constant("int32"),
        "shift": Shift(),
        **ends("T"),
    },
    outputs={"y": Data("T")},
    attributes={
        "axis": Axis(),
        "x0": Integer(1 - (1 << 20), -1),
        "fraction_bits": Integer(1, 30),
        "output_bits": Integer(1, 16),
        "rounding": TWICE,
    },
    reference=reference,
    bodies=[
        *pair_bodies(
            bodies_of_product(_CONSTANTS + _EACH_PAIR + _PRODUCT, *_FACTORS), _LARGEST
        ),
        *bodies_of_product(_CONSTANTS + _ROW + _PRODUCT, *_FACTORS),
    ],
    evidence="exhaustive",
    scaling=Scaling.ALGORITHM,
    laws={"the result is in the order of the row": order_moves_with_the_row(reference)},
    formula="c = x - x_zero; t = largest c along `axis`; e(d) as in Shiftmax; s = e(c - t) + "
    "e(-t), at most 2**31 - 1; p = floor(e(c - t) * floor((2**31 - 1) / s) / 2**(32 - "
    "output_bits)); y = clamp(round(c * p * multiplier / 2**shift) + y_zero, y_min, y_max).",
    source="Source: I-ViT, IntGELU.",
)
