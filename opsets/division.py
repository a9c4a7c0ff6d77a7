"""The closing statements of bodies that divide by a number of cells known at run time."""

from opsets.double import STORE_DOUBLE
from opsets.fixed_point import Rounding
from opsets.fragments import Fragment, fragment
from opsets.portable import STORE

_TIES: dict[Rounding, Fragment] = {
    "half_to_even": fragment("""
ties_to_even (whole, tie, unit) => (tie_up) {
    two_of    = Add (unit, unit)
    halved    = Div (whole, two_of)
    even      = Mul (halved, two_of)
    odd       = Greater (whole, even)
    tie_up    = And (tie, odd)
}
"""),
    "half_up": fragment("""
ties_up (scaled, tie, unit) => (tie_up) {
    minus_one = Neg (unit)
    positive  = Greater (scaled, minus_one)
    tie_up    = And (tie, positive)
}
"""),
    "half_away": fragment("""
ties_away (tie) => (tie_up) {
    tie_up    = And (tie, tie)
}
"""),
}

_DIVISOR = fragment("""
divisor (cells, shift) => (unit, divisor) {
    # cells * 2**shift
    unit      = Constant <value = int64 {1}> ()
    one_bit   = Cast <to = 13> (unit)                                      # 13 is UINT64
    bits      = Cast <to = 13> (shift)
    step_bit  = BitShift <direction = "LEFT"> (one_bit, bits)
    step      = Cast <to = 7> (step_bit)                                   # 7 is INT64
    counted   = Cast <to = 7> (cells)
    divisor   = Mul (counted, step)
}
""")

_QUOTIENT = fragment("""
quotient (acc, multiplier, divisor) => (scaled, whole, more, tie) {
    # acc * multiplier / divisor: whole part, rest, and the sign
    wide_acc  = Cast <to = 7> (acc)                                        # 7 is INT64
    wide_m    = Cast <to = 7> (multiplier)
    scaled    = Mul (wide_acc, wide_m)
    size      = Abs (scaled)
    whole     = Div (size, divisor)
    back      = Mul (whole, divisor)
    left      = Sub (size, back)
    twice     = Add (left, left)
    more      = Greater (twice, divisor)
    tie       = Equal (twice, divisor)
}
""")

_ROUNDED = fragment("""
rounded (scaled, whole, more, tie_up, unit) => (level) {
    goes_up   = Or (more, tie_up)
    up        = Cast <to = 7> (goes_up)                                    # 7 is INT64
    rounded   = Add (whole, up)
    # not Sign, which onnxruntime 1.31 gets wrong for int64 beyond 32 bits
    nothing   = Sub (unit, unit)
    below     = Less (scaled, nothing)
    negated   = Neg (rounded)
    level     = Where (below, negated, rounded)
}
""")

_DOUBLES = fragment("""
doubles (acc, multiplier, divisor) => (level) {
    # the same in double, exactly: see opsets/division.py
    wide_acc  = Cast <to = 11> (acc)                                       # 11 is DOUBLE
    wide_m    = Cast <to = 11> (multiplier)
    scaled    = Mul (wide_acc, wide_m)
    wide_by   = Cast <to = 11> (divisor)
    quotient  = Div (scaled, wide_by)
    level     = Round (quotient)
}
""")

LARGEST_PRODUCT = 1 << 53
"""Up to here doubles hold every integer: ``fits_double``."""

LARGEST_DIVISOR_IN_INT64 = 1 << 62
"""Below it twice a remainder fits int64: ``divided``."""

LEVEL_BITS = {1: 9, 2: 16}
"""Of what is not saturated, by the bytes of a code: ``fits_double``."""


def divided(rounding: Rounding) -> Fragment:
    """Statements from ``acc`` and ``cells`` (integers > 0) to y, on integers.

    y = clamp(round(acc * multiplier / (cells * 2**shift)) + y_zero, y_min, y_max), where
    |acc * multiplier| stays below 2**63 and cells * 2**shift below LARGEST_DIVISOR_IN_INT64.
    """
    return (quotient(rounding) + STORE).only("y")


def quotient(rounding: Rounding) -> Fragment:
    """Those of ``divided`` that end with int64 ``level``, before zero point and clamp."""
    return (_DIVISOR + _QUOTIENT + _TIES[rounding] + _ROUNDED).only("level")


DIVIDED_IN_DOUBLE = (_DIVISOR + _DOUBLES + STORE_DOUBLE).only("y")
"""``divided("half_to_even")`` in double, right where ``fits_double``."""


def fits_double(
    multiplier: int, shift: int, largest_sum: int, most_cells: int, itemsize: int = 1
) -> bool:
    """Whether ``DIVIDED_IN_DOUBLE`` rounds as integers do.

    Let a = acc * multiplier and b = cells * 2**shift, integers with |a| <= 2**53 and
    b < 2**(53 - n), where codes of ``itemsize`` bytes saturate from 2**n on, n being 9 or 16:
    doubles hold both. The quotient is rounded correctly, so monotonically, and every
    h = k + 1/2 with |k| < 2**n is a double: a quotient never passes to the other side of h.
    Could it become h without being it? If a / b is not h, then |a / b - h| =
    |2 a - (2 k + 1) b| / (2 b) >= 1 / (2 b) > 2**(n - 54); doubles next to h, |h| < 2**n, are
    at most 2**(n - 53) apart, so another is nearer to a / b. Round is half to even, as wanted.
    Beyond 2**n every output saturates, and the quotient is no smaller than 2**n.
    """
    product, divisor = largest_sum * multiplier, most_cells << shift
    return product <= LARGEST_PRODUCT and divisor < LARGEST_PRODUCT >> LEVEL_BITS[itemsize]
