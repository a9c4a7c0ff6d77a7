"""IBertSoftmax: I-BERT's Softmax, exponentials by a polynomial and one division for a row."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import TWICE, Axis, Integer
from opsets.declaration import Constant, Data, Scaling, Shift, ends
from opsets.fixed_point import rounding_shift, saturate
from opsets.fragments import fragment
from opsets.laws import order_moves_with_the_row
from opsets.op import Op
from opsets.portable import bodies_of_product, rescaled
from opsets.published import (
    DIVIDED,
    exp_by_polynomial,
    polynomial_exponential,
    softmax_bodies,
)
from opsets.rounding import NodeRounding, requantize

_CONSTANTS = fragment("""
constants <x0, b, c, fraction_bits, output_bits> () => (x0, b, c, n, out_bits) {
    x0         = Constant <value_int: int = @x0> ()
    b          = Constant <value_int: int = @b> ()
    c          = Constant <value_int: int = @c> ()
    n          = Constant <value_int: int = @fraction_bits> ()
    out_bits   = Constant <value_int: int = @output_bits> ()
}
""")

_TERM = polynomial_exponential("distance", "exact") + rescaled(
    "exact", "exp_multiplier", "exp_shift", "term", "half_to_even"
)

_DISTANCE = fragment("""
distance <axis> (x) => (axes, distance) {
    axis_0     = Constant <value_int: int = @axis> ()
    size_1     = Constant <value = int64[1] {1}> ()
    axes       = Reshape (axis_0, size_1)
    code       = Cast <to = 7> (x)                                         # 7 is INT64
    top        = ReduceMax (code, axes)
    distance   = Sub (code, top)
}
""")

_INVERTED = fragment("""
inverted (term, axes, n) => (dividend, divisor) {
    sum        = ReduceSum (term, axes)
    none       = Sub (n, n)
    is_none    = Equal (sum, none)
    any_sum    = Constant <value = int64 {1}> ()
    divisor    = Where (is_none, any_sum, sum)
    dividend   = Constant <value = int64 {4294967296}> ()                  # 2**32
}
""")

_WIDE = fragment("""
wide (multiplier) => (wide_m) {
    wide_m     = Cast <to = 7> (multiplier)                                # 7 is INT64
}
""")

_SHARES = _CONSTANTS + _DISTANCE + _TERM + _INVERTED + DIVIDED + _WIDE

_AT_LEAST_1 = fragment("""
at_least_1 (sum) => (dividend, divisor) {
    dividend   = Constant <value = double {4294967296.0}> ()               # 2**32
    any_sum    = Constant <value = double {1.0}> ()
    divisor    = Max (sum, any_sum)
}
""")


def reference(
    x: NDArray[Any],
    exp_multiplier: NDArray[np.int32],
    exp_shift: NDArray[np.int32],
    multiplier: NDArray[np.int32],
    shift: NDArray[np.int32],
    y_zero: NDArray[Any],
    y_min: NDArray[Any],
    y_max: NDArray[Any],
    *,
    axis: int,
    x0: int,
    b: int,
    c: int,
    fraction_bits: int,
    output_bits: int,
    rounding: NodeRounding,
) -> NDArray[Any]:
    """Stored x, any shape. ``exp_multiplier`` and ``exp_shift`` make of exponentials codes of
    16 bits, rounded half to even; the shares, of scale 2**-output_bits, are requantized.
    """
    code = np.asarray(x).astype(np.int64)
    exact = exp_by_polynomial(
        code - code.max(axis=axis, keepdims=True), x0, b, c, fraction_bits
    )
    terms = rounding_shift(exact * exp_multiplier.astype(np.int64), exp_shift, "half_to_even")
    total = np.maximum(terms.sum(axis=axis, keepdims=True), 1)
    shares = terms * ((1 << 32) // total) >> 32 - output_bits
    level = requantize(shares, multiplier, shift, rounding)
    return saturate(level, y_zero, y_min, y_max).astype(y_zero.dtype)


I_BERT_SOFTMAX = Op(
    name="IBertSoftmax",
    inputs={
        "x": Data("T"),
        "exp_multiplier": Constant("int32"),
        "exp_shift": Shift(),
        "multiplier": Constant("int32"),
        "shift": Shift(),
        **ends("T"),
    },
    outputs={"y": Data("T")},
    attributes={
        "axis": Axis(),
        "x0": Integer(1 - (1 << 20), -1),
        "b": Integer(0, (1 << 20) - 1),
        "c": Integer(1, (1 << 30) - 1),
        "fraction_bits": Integer(1, 30),
        "output_bits": Integer(1, 16),
        "rounding": TWICE,
    },
    reference=reference,
    bodies=[
        *softmax_bodies(_CONSTANTS, _TERM, _AT_LEAST_1),
        *bodies_of_product(_SHARES, "shift", ("divided", "wide_m")),
    ],
    evidence="bounded",
    scaling=Scaling.ALGORITHM,
    laws={"the result is in the order of the row": order_moves_with_the_row(reference)},
    formula="d = x - (largest x along `axis`); u = max(d, fraction_bits * x0) = q * x0 + r; e "
    "= max(r * (r + b) + c, 0) * 2**(fraction_bits - q); t = round(e * exp_multiplier / "
    "2**exp_shift), half to even; s = sum of t along `axis`, at least 1; p = floor(t * "
    "floor(2**32 / s) / 2**(32 - output_bits)); y = clamp(round(p * multiplier / 2**shift) + "
    "y_zero, y_min, y_max).",
    source="Source: I-BERT, IntSoftmax.",
)
