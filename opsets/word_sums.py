"""Words: bodies and conditions of accumulators whose ends have 16 bits.

Codes of 16 bits are read as two planes of 8, whose sums the kernels for bytes give as int32:
accumulator = 256 * sum of the high plane + sum of the low plane + bias, which needs more than
32 bits. Multipliers have so few bits that double holds every product exactly.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from opsets.declaration import Constraint, Shape
from opsets.double import STORE_DOUBLE, overload, rounded_double
from opsets.fixed_point import ROUNDINGS, Int64, Rounding
from opsets.fragments import Fragment, fragment
from opsets.kernels import PORTABLE_KERNELS
from opsets.op import Attributes, Body, Constants, Guard, all_of
from opsets.planes import PLANES
from opsets.portable import STORE, columns, portable_overload, rescaled, rounds


def of_codes(constants: Constants, _attributes: Attributes) -> bool:
    """Whether x and y have 8 bits."""
    return not _reads(constants) and not _writes(constants)


def to_words(constants: Constants, _attributes: Attributes) -> bool:
    """Whether x has 8 bits and y 16."""
    return not _reads(constants) and _writes(constants)


def from_words(constants: Constants, _attributes: Attributes) -> bool:
    """Whether x has 16 bits."""
    return _reads(constants)


def _reads(constants: Constants) -> bool:
    return constants["x_zero"].dtype == np.int16


def _writes(constants: Constants) -> bool:
    return constants["y_min"].dtype == np.int16


def _ends_fit(constants: Constants, attributes: Attributes, _shape: Shape) -> bool:
    zeros = constants["x_zero"], constants["y_zero"]
    words = [zero for zero in zeros if zero.dtype == np.int16]
    if not words:
        return zeros[0].dtype == zeros[1].dtype
    is_once = attributes["rounding"] in ROUNDINGS and not attributes.get("bias_rests")
    return is_once and not any(zero.any() for zero in words)


def of_codes_alone(bodies: Sequence[Body]) -> Sequence[Body]:
    """``bodies`` for nodes whose x and y have 8 bits, as they were; not for others."""
    return [replace(body, accepts=all_of(of_codes, body.accepts)) for body in bodies]


ENDS_FIT = Constraint(
    "x and y have one type of 8 bits, or one of them 16 bits with zero point 0 and the node "
    "rounds once, without `bias_rests`",
    _ends_fit,
)

_JOINED = fragment("""
joined (high_sums, low_sums) => (acc) {
    # beyond int32; Max: onnxruntime fuses MatMulInteger, Cast and Mul, and fails on int64
    lowest    = Constant <value = int32 {-2147483648}> ()
    high_32   = Max (high_sums, lowest)
    high_64   = Cast <to = 7> (high_32)                                    # 7 is INT64
    low_64    = Cast <to = 7> (low_sums)
    places    = Constant <value = int64 {256}> ()
    lifted    = Mul (high_64, places)
    acc       = Add (lifted, low_64)
}
""")


_NO_BIAS = fragment("""
no_bias (bias) => (nothing) {
    nothing   = Sub (bias, bias)
}
""")


def sums_of_planes(sums: Fragment) -> Fragment:
    """Statements that write int64 ``acc`` of int16 ``x``.

    ``sums`` write int32 ``acc`` of bytes x, x_zero, w, w_zero and ``bias``, which the low
    plane takes along.
    """
    high = sums(x="high", x_zero="high_zero", bias="nothing", acc="high_sums")
    low = sums(x="low", x_zero="low_zero", acc="low_sums")
    return (PLANES + _NO_BIAS + high + low + _JOINED).only("acc")


_IN_DOUBLE = fragment("""
in_double (acc, m_column, s_column) => (value) {
    # a product of 53 bits at most, and its quotient by a power of two: exact
    real_acc  = Cast <to = 11> (acc)                                       # 11 is DOUBLE
    real_m    = Cast <to = 11> (m_column)
    real_s    = Cast <to = 11> (s_column)
    half_1    = Constant <value = double {0.5}> ()
    step      = Pow (half_1, real_s)
    scale     = Mul (real_m, step)
    value     = Mul (real_acc, scale)
}
""")

_WIDE = fragment("""
wide (acc) => (wide_acc) {
    wide_acc  = Cast <to = 7> (acc)                                        # 7 is INT64
}
""")


def word_bodies(sums: Fragment, word_sums: Fragment, trailing: Fragment) -> Sequence[Body]:
    """Bodies of nodes with 16 bits at an end, for each rounding.

    ``sums`` write the accumulator ``acc`` of codes of 8 bits, ``word_sums`` of 16;
    ``trailing`` see ``opsets.portable.columns``.
    """
    from_16 = _bodies("planes", word_sums, trailing, from_words)
    return [*bodies_to_words(sums, trailing), *from_16]


def bodies_to_words(sums: Fragment, trailing: Fragment) -> Sequence[Body]:
    """The same of nodes that read 8 bits."""
    return _bodies("words", sums, trailing, to_words)


def _bodies(way: str, sums: Fragment, trailing: Fragment, accepts: Guard) -> Sequence[Body]:
    before = sums + columns(trailing)
    return [
        *(_double(way, before, accepts, rounding) for rounding in ROUNDINGS),
        *(_portable(way, before, accepts, rounding) for rounding in ROUNDINGS),
    ]


def _double(way: str, before: Fragment, accepts: Guard, rounding: Rounding) -> Body:
    statements = before + _IN_DOUBLE + rounded_double("value", "level", rounding)
    return Body(
        overload(rounding, way),
        "onnxruntime",
        statements + STORE_DOUBLE,
        all_of(rounds(rounding), accepts),
        partial(_levels, rounding=rounding),
    )


def _levels(accumulator: Int64, multiplier: Int64, shift: Int64, rounding: Rounding) -> Int64:
    """What the bodies in double compute, step by step."""
    scale = np.ldexp(multiplier.astype(np.float64), -shift.astype(np.int32))
    value = accumulator.astype(np.float64) * scale
    if rounding == "half_up":
        level = np.floor(value + 1 / 2)
    elif rounding == "half_away":
        level = np.sign(value) * np.floor(np.abs(value) + 1 / 2)
    else:
        level = np.rint(value)
    return np.asarray(level.astype(np.int64))


def _portable(way: str, before: Fragment, accepts: Guard, rounding: Rounding) -> Body:
    level = rescaled("wide_acc", "m_column", "s_column", "level", rounding)
    return Body(
        portable_overload(rounding).replace("portable", f"portable_{way}", 1),
        "portable",
        before + _WIDE + level + STORE,
        all_of(rounds(rounding), accepts),
        PORTABLE_KERNELS[rounding],
    )
