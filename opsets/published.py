"""Exponentials of published integer algorithms: I-ViT's by shifts, I-BERT's by a polynomial.

Sources: github.com/zkkli/I-ViT, models/quantization_utils/quant_modules.py, and
github.com/kssteven418/I-BERT, fairseq/quantization/utils/quant_modules.py; their meaning in
exact integers. Bodies: statements. References: numpy.
"""

import numpy as np

from opsets.double import STORE_DOUBLE, overload, rounded_double
from opsets.fixed_point import ROUNDINGS, Int64
from opsets.fragments import Fragment, fragment
from opsets.op import Body
from opsets.portable import rounds

LARGEST = (1 << 31) - 1
"""What sums of exponentials saturate at, and what is divided by them."""

_MOST_PLACES = 40
"""I-ViT's exponential of a positive number is shifted to the left by no more: it saturates."""

_REDUCED = fragment("""
reduced (scaled, x0, n) => (size, remainder, wanted) {
    # the exponent as quotient and remainder by x0, floored: ONNX divides towards zero
    least     = Mul (n, x0)
    is_less   = Less (scaled, least)
    bounded   = Where (is_less, least, scaled)
    size      = Neg (x0)
    minus     = Neg (bounded)
    lift_q    = Constant <value = int64 {1024}> ()
    above     = Mul (size, lift_q)
    positive  = Add (minus, above)
    parts     = Div (positive, size)
    quotient  = Sub (parts, lift_q)
    whole     = Mul (quotient, size)
    remainder = Sub (whole, minus)
    wanted    = Sub (n, quotient)
}
""")

_LONGER = fragment("""
longer (value) => (scaled, two) {
    # x + floor(x / 2) - floor(x / 16)
    lift_x    = Constant <value = int64 {1048576}> ()                      # 2**20
    two       = Constant <value = int64 {2}> ()
    sixteen   = Constant <value = int64 {16}> ()
    raised_x  = Add (value, lift_x)
    halves    = Div (raised_x, two)
    lift_2    = Div (lift_x, two)
    half      = Sub (halves, lift_2)
    pieces    = Div (raised_x, sixteen)
    lift_16   = Div (lift_x, sixteen)
    piece     = Sub (pieces, lift_16)
    longer    = Add (value, half)
    scaled    = Sub (longer, piece)
}
""")

_BY_SHIFTS = fragment("""
by_shifts (size, remainder, wanted, two) => (exponential) {
    most      = Constant <value = int64 {40}> ()
    is_more   = Greater (wanted, most)
    places    = Where (is_more, most, wanted)
    doubled   = Mul (size, two)
    mantissa  = Add (doubled, remainder)                                   # 2 * (r / 2 - x0)
    bits      = Cast <to = 13> (mantissa)                                  # 13 is UINT64
    places_in = Cast <to = 13> (places)
    shifted   = BitShift <direction = "LEFT"> (bits, places_in)
    wide      = Cast <to = 7> (shifted)                                    # 7 is INT64
    exponential = Div (wide, two)
}
""")

_SHIFT_EXPONENTIAL = (_LONGER + _REDUCED + _BY_SHIFTS).only("exponential")

_BY_POLYNOMIAL = fragment("""
by_polynomial (remainder, wanted, b, c, n) => (exponential) {
    none      = Sub (n, n)
    linear    = Add (remainder, b)
    squared   = Mul (remainder, linear)
    level_z   = Add (squared, c)
    is_below  = Less (level_z, none)
    mantissa  = Where (is_below, none, level_z)
    bits      = Cast <to = 13> (mantissa)                                  # 13 is UINT64
    places_in = Cast <to = 13> (wanted)
    shifted   = BitShift <direction = "LEFT"> (bits, places_in)
    exponential = Cast <to = 7> (shifted)                                  # 7 is INT64
}
""")

_POLYNOMIAL_EXPONENTIAL = (_REDUCED(scaled="value") + _BY_POLYNOMIAL).only("exponential")


def shift_exponential(value: str, result: str) -> Fragment:
    """Statements for int64 ``result`` = ``exp_by_shifts`` of ``value``, below 256 in size.

    They read ``x0`` and ``n``.
    """
    return _SHIFT_EXPONENTIAL(value=value, exponential=result)


def polynomial_exponential(value: str, result: str) -> Fragment:
    """Statements for int64 ``result`` = ``exp_by_polynomial`` of ``value``, at most 0.

    They read ``x0``, ``n``, ``b`` and ``c``.
    """
    return _POLYNOMIAL_EXPONENTIAL(value=value, exponential=result)


SATURATED = fragment("""
saturated (sum) => (dividend, divisor) {
    dividend   = Constant <value = int64 {2147483647}> ()                  # 2**31 - 1
    is_large   = Greater (sum, dividend)
    divisor    = Where (is_large, dividend, sum)
}
""")
"""Statements for ``divisor`` and ``dividend`` of I-ViT; they read ``sum``."""

DIVIDED = fragment("""
divided (term, dividend, divisor, out_bits) => (divided) {
    inverse    = Div (dividend, divisor)
    share      = Mul (term, inverse)
    all_bits   = Constant <value = int64 {32}> ()
    drop       = Sub (all_bits, out_bits)
    drop_in    = Cast <to = 13> (drop)                                     # 13 is UINT64
    share_in   = Cast <to = 13> (share)
    quotient_in = BitShift <direction = "RIGHT"> (share_in, drop_in)
    divided    = Cast <to = 7> (quotient_in)                               # 7 is INT64
}
""")
"""Statements for ``divided``: floor(term * floor(dividend / divisor) / 2**(32 - out_bits))."""

_DISTANCES = fragment("""
distances <axis> () => (axes, distance) {
    # exponentials depend on the distance alone: onnxruntime computes all when it loads
    axis_0     = Constant <value_int: int = @axis> ()
    size_1     = Constant <value = int64[1] {1}> ()
    axes       = Reshape (axis_0, size_1)
    nothing    = Constant <value = int64 {0}> ()
    behind     = Constant <value = int64 {-256}> ()
    backward   = Constant <value = int64 {-1}> ()
    distance   = Range (nothing, behind, backward)
}
""")

_SUMMED = fragment("""
summed (x, axes, term) => (terms, sum) {
    entries    = Cast <to = 11> (term)                                     # 11 is DOUBLE
    code       = Cast <to = 6> (x)                                         # 6 is INT32
    top        = ReduceMax (code, axes)
    index      = Sub (top, code)
    rest       = Constant <value = int64[1] {-1}> ()
    flat       = Reshape (index, rest)
    flat_term  = GatherElements <axis = 0> (entries, flat)
    x_shape    = Shape (x)
    terms      = Reshape <allowzero = 1> (flat_term, x_shape)
    sum        = ReduceSum (terms, axes)
}
""")

_SHARED = fragment("""
shared (terms, dividend, divisor, out_bits, multiplier, shift) => (value) {
    quotient   = Div (dividend, divisor)
    inverse    = Floor (quotient)
    share      = Mul (terms, inverse)
    all_bits   = Constant <value = double {32.0}> ()
    real_bits  = Cast <to = 11> (out_bits)
    drop       = Sub (all_bits, real_bits)
    half_1     = Constant <value = double {0.5}> ()
    dropped    = Pow (half_1, drop)
    real_share = Mul (share, dropped)
    divided    = Floor (real_share)
    real_m     = Cast <to = 11> (multiplier)
    real_s     = Cast <to = 11> (shift)
    step       = Pow (half_1, real_s)
    scale      = Mul (real_m, step)
    value      = Mul (divided, scale)
}
""")


def softmax_bodies(constants: Fragment, terms: Fragment, divisor: Fragment) -> list[Body]:
    """For each rounding, in double: no product of these ops leaves 52 bits.

    ``constants`` are what ``terms``, which make int64 ``term`` of ``distance``, read;
    ``divisor`` makes doubles ``divisor`` and ``dividend`` of ``sum``.
    """
    values = constants + _DISTANCES + terms + _SUMMED + divisor + _SHARED
    return [
        Body(
            overload(rounding),
            "onnxruntime",
            values + rounded_double("value", "level", rounding) + STORE_DOUBLE,
            accepts=rounds(rounding),
        )
        for rounding in ROUNDINGS
    ]


def exp_by_shifts(x: Int64, x0: int, n: int) -> Int64:
    """About ``exp(x * s) * -x0 * 2**n``, where ``x0`` is floor(-1 / s): I-ViT's int_exp_shift.

    With u = max(x + floor(x / 2) - floor(x / 16), n * x0), which is about x / ln 2, and u =
    q * x0 + r, floor((r / 2 - x0) * 2**(n - q)).
    """
    scaled = np.maximum(x + (x >> 1) - (x >> 4), n * x0)
    quotient = scaled // x0
    places = np.minimum(n - quotient, _MOST_PLACES)
    return np.asarray((scaled - quotient * x0 - 2 * x0 << places) >> 1, np.int64)


def exp_by_polynomial(x: Int64, x0: int, b: int, c: int, n: int) -> Int64:
    """About ``exp(x * s) * c * 2**n`` for x up to 0: I-BERT's int_exp.

    ``x0`` is floor(-ln 2 / s). With u = max(x, n * x0) = q * x0 + r: the polynomial r * (r +
    b) + c, or 0 if it is less, times 2**(n - q).
    """
    bounded = np.maximum(x, n * x0)
    quotient = bounded // x0
    rest = bounded - quotient * x0
    return np.asarray(np.maximum(rest * (rest + b) + c, 0) << (n - quotient), np.int64)
