"""Requantization in double: any rounding, several times faster than int64 in onnxruntime.

Sums stay int32. A product of a sum and its multiplier below 2**53 is exact, and so is its
quotient by a power of two; beyond, or where the sum with a half is none that double holds, a
level may be off: the proof compares ``kernel``, step by step the same, at every threshold.
"""

from collections.abc import Sequence

import numpy as np

from opsets.fixed_point import Int64, Rounding
from opsets.fragments import Fragment, fragment
from opsets.kernels import Kernel
from opsets.op import Body, Guard, all_of, any_node
from opsets.portable import columns, rounds
from opsets.rounding import LAST_STEP, NODE_ROUNDINGS, NodeRounding

_ROUND = fragment("""
round (scaled) => (level) {
    level    = Round (scaled)
}
""")

_ROUNDED: dict[Rounding, Fragment] = {
    "half_to_even": _ROUND,
    "half_up": fragment("""
round_up (scaled, half) => (level) {
    lifted   = Add (scaled, half)
    level    = Floor (lifted)
}
"""),
    "half_away": _ROUND,
}

_AWAY = fragment("""
away (value, factor, half) => (scaled) {
    # 1 + 2**-40 times the factor; a Mul by that alone onnxruntime takes for one by 1
    forty    = Constant <value = double {40.0}> ()
    tiny     = Pow (half, forty)
    more     = Mul (factor, tiny)
    outward  = Add (factor, more)
    scaled   = Mul (value, outward)
}
""")

_STRAIGHT = fragment("""
straight (value, factor) => (scaled) {
    scaled   = Mul (value, factor)
}
""")

_SCALE = fragment("""
scale (multiplier, shift) => (real_m, real_s, half) {
    real_m   = Cast <to = 11> (multiplier)                                 # 11 is DOUBLE
    real_s   = Cast <to = 11> (shift)
    half     = Constant <value = double {0.5}> ()
}
""")

_ONCE = fragment("""
once (real_m, real_s, half) => (factor) {
    # Pow(0.5, n) is exact
    step     = Pow (half, real_s)
    factor   = Mul (real_m, step)
}
""")

_TWICE = fragment("""
twice (value, real_m, real_s, half) => (high, factor) {
    # floor(value * multiplier / 2**31 + 1 / 2) first, or all of the shift where it is less
    all_31   = Constant <value = double {31.0}> ()
    first_s  = Min (real_s, all_31)
    first    = Pow (half, first_s)
    scale    = Mul (real_m, first)
    product  = Mul (value, scale)
    raised   = Add (product, half)
    high     = Floor (raised)
    rest_s   = Sub (real_s, first_s)
    factor   = Pow (half, rest_s)
}
""")

STORE_DOUBLE = fragment("""
store_double (level, y_zero, y_min, y_max) => (y) {
    zero     = Cast <to = 11> (y_zero)
    low      = Cast <to = 11> (y_min)
    high     = Cast <to = 11> (y_max)
    stored   = Add (level, zero)
    clamped  = Clip (stored, low, high)
    y        = CastLike (clamped, y_zero)
}
""")
"""Statements that store the rounded double ``level`` as y."""

LEVEL_IN_DOUBLE = fragment("""
level_in_double (level_x, multiplier, shift) => (value) {
    half_1   = Constant <value = double {0.5}> ()
    places   = Cast <to = 11> (shift)
    step     = Pow (half_1, places)
    real_m   = Cast <to = 11> (multiplier)
    scale    = Mul (real_m, step)
    value    = Mul (level_x, scale)
}
""")
"""Statements that scale the double ``level_x`` by a number of 31 bits and a shift."""

_REAL = fragment("""
real (acc) => (real_acc) {
    real_acc = Cast <to = 11> (acc)                                        # 11 is DOUBLE
}
""")


def accumulator_bodies(
    sums: Fragment, trailing: Fragment, also: Guard = any_node
) -> Sequence[Body]:
    """One body per rounding; ``sums`` write int32 ``acc``, ``trailing`` see ``columns``."""
    before = sums + columns(trailing) + _REAL
    return [
        Body(
            overload(rounding),
            "onnxruntime",
            before
            + requantized("real_acc", "m_column", "s_column", "level", rounding)
            + STORE_DOUBLE,
            all_of(rounds(rounding), also),
            kernel(rounding),
        )
        for rounding in NODE_ROUNDINGS
    ]


def requantized(
    value: str, multiplier: str, shift: str, result: str, rounding: NodeRounding
) -> Fragment:
    """Statements that requantize ``value``, a double, to ``result``, which names them too."""
    last = _last(rounding)
    scaled = _AWAY if last == "half_away" else _STRAIGHT
    factor = _TWICE + scaled(value="high") if rounding in LAST_STEP else _ONCE + scaled
    statements = (_SCALE + factor + _ROUNDED[last]).only("level")
    return statements(value=value, multiplier=multiplier, shift=shift, level=result)


def rounded_double(value: str, result: str, rounding: Rounding) -> Fragment:
    """Statements that round ``value`` = k / 2**s, k an integer below 2**52, to ``result``.

    Its sum with a half is exact, or it is so small that the sum does not matter.
    """
    return _EXACTLY[rounding](value=value, level=result)


_EXACTLY: dict[Rounding, Fragment] = {
    "half_to_even": fragment("""
exactly_to_even (value) => (level) {
    level    = Round (value)
}
"""),
    "half_up": fragment("""
exactly_up (value) => (level) {
    half     = Constant <value = double {0.5}> ()
    raised   = Add (value, half)
    level    = Floor (raised)
}
"""),
    "half_away": fragment("""
exactly_away (value) => (level) {
    half     = Constant <value = double {0.5}> ()
    size     = Abs (value)
    raised   = Add (size, half)
    whole    = Floor (raised)
    sign     = Sign (value)
    level    = Mul (sign, whole)
}
"""),
}


def overload(rounding: NodeRounding, way: str = "double") -> str:
    """The name of the body that rounds as ``rounding`` says, ``way``: how it computes."""
    return f"onnxruntime_{way}" + ("" if rounding == "half_to_even" else f"_{rounding}")


def kernel(rounding: NodeRounding) -> Kernel:
    """What ``requantized`` computes; monotone, as each of its steps is."""
    last = _last(rounding)
    outward = 2.0**-40 if last == "half_away" else 0

    def levels(accumulator: Int64, multiplier: Int64, shift: Int64) -> Int64:
        value = accumulator.astype(np.float64)
        factor = np.ldexp(multiplier.astype(np.float64), -shift)
        if rounding in LAST_STEP:
            first = np.minimum(shift, 31)
            value = np.floor(value * np.ldexp(multiplier.astype(np.float64), -first) + 1 / 2)
            factor = np.ldexp(1.0, first - shift)
        scaled = value * (factor + factor * outward)
        level = np.floor(scaled + 1 / 2) if last == "half_up" else np.rint(scaled)
        return np.asarray(level.astype(np.int64))

    return levels


def _last(rounding: NodeRounding) -> Rounding:
    """How the only rounding, or the second of two, rounds."""
    (once,) = [each for each in _ROUNDED if each == rounding] or [LAST_STEP[rounding]]
    return once
