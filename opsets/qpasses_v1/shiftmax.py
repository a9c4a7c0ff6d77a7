"""Shiftmax: I-ViT's Softmax, exponentials by shifts and one division for a row."""

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
from opsets.published import (
    DIVIDED,
    LARGEST,
    SATURATED,
    exp_by_shifts,
    shift_exponential,
    softmax_bodies,
)
from opsets.rounding import NodeRounding, requantize

_CONSTANTS = fragment("""
constants <x0, fraction_bits, output_bits> () => (x0, n, out_bits) {
    x0         = Constant <value_int: int = @x0> ()
    n          = Constant <value_int: int = @fraction_bits> ()
    out_bits   = Constant <value_int: int = @output_bits> ()
}
""")

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

_SUM = fragment("""
sum (term, axes) => (sum) {
    sum        = ReduceSum (term, axes)
}
""")

_WIDE = fragment("""
wide (multiplier) => (wide_m) {
    wide_m     = Cast <to = 7> (multiplier)                                # 7 is INT64
}
""")

_TERM = shift_exponential("distance", "term")

_SHARES = _CONSTANTS + _DISTANCE + _TERM + _SUM + SATURATED + DIVIDED + _WIDE

_SATURATED_IN_DOUBLE = fragment("""
saturated_in_double (sum) => (dividend, divisor) {
    dividend   = Constant <value = double {2147483647.0}> ()               # 2**31 - 1
    divisor    = Min (sum, dividend)
}
""")


def reference(
    x: NDArray[Any],
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
    """Stored x, any shape. The result before it is requantized is that of ``shiftmax``."""
    found = shiftmax(x, axis, x0, fraction_bits, output_bits)
    level = requantize(found, multiplier, shift, rounding)
    return saturate(level, y_zero, y_min, y_max).astype(y_zero.dtype)


def shiftmax(
    x: NDArray[Any], axis: int, x0: int, fraction_bits: int, output_bits: int
) -> NDArray[np.int64]:
    """I-ViT's IntSoftmax: codes of scale 2**(1 - output_bits), in the shape of x.

    ``x0`` is floor(-1 / s) for codes of scale s. Up to 2**(output_bits - 1) - 1.
    """
    code = np.asarray(x).astype(np.int64)
    terms = exp_by_shifts(code - code.max(axis=axis, keepdims=True), x0, fraction_bits)
    total = np.minimum(terms.sum(axis=axis, keepdims=True), LARGEST)
    return np.asarray(terms * (LARGEST // total) >> 32 - output_bits)


SHIFTMAX = Op(
    name="Shiftmax",
    inputs={
        "x": Data("T"),
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
        *softmax_bodies(_CONSTANTS, _TERM, _SATURATED_IN_DOUBLE),
        *bodies_of_product(_SHARES, "shift", ("divided", "wide_m")),
    ],
    evidence="bounded",
    scaling=Scaling.ALGORITHM,
    laws={"the result is in the order of the row": order_moves_with_the_row(reference)},
    formula="d = x - (largest x along `axis`); u = max(d + floor(d / 2) - floor(d / 16), "
    "fraction_bits * x0) = q * x0 + r; e = floor((r / 2 - x0) * 2**(fraction_bits - q)); s = "
    "sum of e along `axis`, at most 2**31 - 1; p = floor(e * floor((2**31 - 1) / s) / 2**(32 "
    "- output_bits)); y = clamp(round(p * multiplier / 2**shift) + y_zero, y_min, y_max).",
    source="Source: I-ViT, IntSoftmax.",
)
