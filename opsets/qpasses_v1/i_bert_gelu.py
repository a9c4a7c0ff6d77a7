"""IBertGelu: I-BERT's GELU, the error function as a polynomial of second degree."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import MANY, TWICE, Integer
from opsets.declaration import Constant, Data, Scaling, Shift, ends
from opsets.fixed_point import saturate
from opsets.fragments import fragment
from opsets.op import Op
from opsets.portable import bodies_of_product
from opsets.rounding import NodeRounding, requantize
from opsets.tabulated import code_bodies

_PRODUCT = fragment("""
product <b, c, fraction_bits, one> (x, x_zero, multiplier) => (output, wide_m) {
    b          = Constant <value_int: int = @b> ()
    c          = Constant <value_int: int = @c> ()
    n          = Constant <value_int: int = @fraction_bits> ()
    one_erf    = Constant <value_int: int = @one> ()
    wide_x     = Cast <to = 7> (x)                                         # 7 is INT64
    origin     = Cast <to = 7> (x_zero)
    code       = Sub (wide_x, origin)
    distance   = Abs (code)
    minus_b    = Neg (b)
    is_far     = Greater (distance, minus_b)
    nearer     = Where (is_far, minus_b, distance)
    linear     = Add (nearer, b)
    squared    = Mul (linear, linear)
    polynomial = Add (squared, c)
    none       = Sub (n, n)
    is_below   = Less (code, none)
    is_above   = Greater (code, none)
    turned     = Neg (polynomial)
    below_or_0 = Where (is_below, turned, none)
    signed     = Where (is_above, polynomial, below_or_0)
    # floor(signed / 2**n): moved up by an even multiple, and back
    lift_e     = Constant <value = int64 {4611686018427387904}> ()         # 2**62
    n_in       = Cast <to = 13> (n)                                        # 13 is UINT64
    raised_e   = Add (signed, lift_e)
    raised_in  = Cast <to = 13> (raised_e)
    erf_in     = BitShift <direction = "RIGHT"> (raised_in, n_in)
    erf_up     = Cast <to = 7> (erf_in)
    lift_in    = Cast <to = 13> (lift_e)
    base_in    = BitShift <direction = "RIGHT"> (lift_in, n_in)
    base       = Cast <to = 7> (base_in)
    erf        = Sub (erf_up, base)
    erf_and_1  = Add (erf, one_erf)
    against    = Neg (code)
    output     = Mul (against, erf_and_1)
    wide_m     = Cast <to = 7> (multiplier)
}
""")


def reference(
    x: NDArray[Any],
    x_zero: NDArray[Any],
    multiplier: NDArray[np.int32],
    shift: NDArray[np.int32],
    y_zero: NDArray[Any],
    y_min: NDArray[Any],
    y_max: NDArray[Any],
    *,
    b: int,
    c: int,
    one: int,
    fraction_bits: int,
    rounding: NodeRounding,
) -> NDArray[Any]:
    """Stored x, any shape. I-BERT's scale of the polynomial is negative: so is the product."""
    code = np.asarray(x).astype(np.int64) - x_zero
    output = -code * (polynomial_erf(code, b, c, fraction_bits) + one)
    level = requantize(output, multiplier, shift, rounding)
    return saturate(level, y_zero, y_min, y_max).astype(y_zero.dtype)


def polynomial_erf(
    code: NDArray[np.int64], b: int, c: int, fraction_bits: int
) -> NDArray[np.int64]:
    """I-BERT's int_erf: floor(sign(x) * ((min(|x|, -b) + b)**2 + c) / 2**fraction_bits)."""
    nearer = np.minimum(np.abs(code), -b)
    return np.asarray(np.sign(code) * ((nearer + b) ** 2 + c) >> fraction_bits, np.int64)


def _far_above_it_is_a_line(
    x: NDArray[Any], x_zero: NDArray[Any], *args: Any, **attributes: Any
) -> None:
    """From -b on the error function is what it is there."""
    b, wide = attributes["b"], x.astype(np.int64) - x_zero
    far = wide[wide >= -b]
    erf = polynomial_erf(far, b, attributes["c"], attributes["fraction_bits"])
    assert (erf == attributes["c"] >> attributes["fraction_bits"]).all() or not far.any()


_BODIES = bodies_of_product(_PRODUCT, "shift", ("output", "wide_m"))

I_BERT_GELU = Op(
    name="IBertGelu",
    inputs={
        "x": Data("T"),
        "x_zero": Constant("T"),
        "multiplier": Constant("int32"),
        "shift": Shift(),
        **ends("T"),
    },
    outputs={"y": Data("T")},
    attributes={
        "b": Integer(-MANY, -1),
        "c": Integer(1 - MANY, -1),
        "one": Integer(-MANY),
        "fraction_bits": Integer(1, 30),
        "rounding": TWICE,
    },
    reference=reference,
    bodies=[*code_bodies(_BODIES), *_BODIES],
    evidence="exhaustive",
    scaling=Scaling.ALGORITHM,
    laws={"the error function is constant far from zero": _far_above_it_is_a_line},
    formula="c0 = x - x_zero; e = floor(sign(c0) * ((min(|c0|, -b) + b)**2 + c) / "
    "2**fraction_bits); y = clamp(round(-c0 * (e + one) * multiplier / 2**shift) + y_zero, "
    "y_min, y_max).",
    source="Source: I-BERT, IntGELU.",
)
