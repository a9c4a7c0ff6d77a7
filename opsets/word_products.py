"""Words: products of stored tensors of 16 bits, in double where that is exact.

A sum of products of levels, and that times its multiplier, is an integer: below 2**53 double
holds it, in whatever order it is added up, and so it does its quotient by a power of two.
Beyond, the integer arithmetic of portable bodies takes over, up to 2**62.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.declaration import Constraint, Shape
from opsets.double import STORE_DOUBLE
from opsets.fixed_point import Rounding
from opsets.fragments import Fragment, fragment
from opsets.op import Attributes, Constants

EXACT = 1 << 53
"""Integers up to here are doubles."""

LARGEST = 1 << 62
"""Products up to here portable bodies round."""

LEAST_BITS = 16
"""A multiplier of words has as many, even where its products leave double."""


def has_words(constants: Constants, _attributes: Attributes) -> bool:
    """Whether some stored tensor has 16 bits."""
    return any(value.dtype == np.int16 for value in constants.values())


def has_no_words(constants: Constants, attributes: Attributes) -> bool:
    """Whether all stored tensors have 8 bits."""
    return not has_words(constants, attributes)


def multiplier_bits(reach: int, most: int) -> int:
    """How many bits the multiplier of sums up to ``reach`` has, of ``most`` of its target.

    So many that double holds all products, but 16 at least.
    """
    fitting = EXACT.bit_length() - 1 - max(reach - 1, 0).bit_length()
    return min(most, max(fitting, LEAST_BITS))


def furthest(zero: NDArray[Any]) -> int:
    """The size of the largest level of a stored type with this zero point."""
    limits = np.iinfo(zero.dtype)
    return max(int(limits.max) - int(zero), int(zero) - int(limits.min))


def reach_of_product(constants: Constants, count: int = 1) -> int:
    """How large a sum of ``count`` products of levels of a and b can be."""
    return count * furthest(constants["a_zero"]) * furthest(constants["b_zero"])


def largest_multiplier(constants: Constants) -> int:
    """The size of the largest multiplier of a node."""
    return int(np.abs(constants["multiplier"].astype(np.int64)).max(initial=0))


def _alike(constants: Constants, _attributes: Attributes, _shape: Shape) -> bool:
    kinds = {value.dtype.name for value in constants.values() if value.dtype.itemsize == 1}
    return len(kinds) <= 1


BYTES_ALIKE = Constraint("stored tensors of 8 bits have one type", _alike)

_SCALE = fragment("""
scale (multiplier, shift) => (scale) {
    # Pow(0.5, n) is exact
    half     = Constant <value = double {0.5}> ()
    real_s   = Cast <to = 11> (shift)                                      # 11 is DOUBLE
    real_m   = Cast <to = 11> (multiplier)
    step     = Pow (half, real_s)
    scale    = Mul (real_m, step)
}
""")

_VALUE = fragment("""
value (acc, scale) => (value) {
    value    = Mul (acc, scale)
}
""")

_REST = fragment("""
rest (value) => (floor, is_up) {
    # what is left of a floor is exact, its sum with a half may be none
    floor    = Floor (value)
    rest     = Sub (value, floor)
    half_way = Constant <value = double {0.5}> ()
    is_up    = GreaterOrEqual (rest, half_way)
}
""")

_CARRY = fragment("""
carry (floor, is_up) => (level) {
    up       = Cast <to = 11> (is_up)                                      # 11 is DOUBLE
    level    = Add (floor, up)
}
""")

_SIZE = fragment("""
size (value) => (size) {
    size     = Abs (value)
}
""")

_SIGNED = fragment("""
signed (value, whole) => (level) {
    sign     = Sign (value)
    level    = Mul (sign, whole)
}
""")

_UP = (_REST + _CARRY).only("level")

_ROUNDED: dict[Rounding, Fragment] = {
    "half_to_even": fragment("""
to_even (value) => (level) {
    level    = Round (value)
}
"""),
    "half_up": _UP,
    "half_away": _SIZE + _UP(value="size", level="whole") + _SIGNED,
}
"""``value``, any double, rounded to ``level``."""


def stored_in_double(rounding: Rounding) -> Fragment:
    """Statements that make codes y of ``acc``, a double whose products double holds."""
    return _SCALE + _VALUE + value_in_double(rounding)


def value_in_double(rounding: Rounding) -> Fragment:
    """Statements that make codes y of ``value``, any double."""
    return _ROUNDED[rounding].only("level") + STORE_DOUBLE
