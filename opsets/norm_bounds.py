"""What the arithmetic of IntLayerNorm holds: which numbers fit which of its bodies."""

from math import isqrt

import numpy as np

from opsets.fixed_point import LARGEST_SHIFT
from opsets.op import Attributes, Constants, reads_words

LARGEST_DOUBLE = 1 << 52
"""Below it doubles hold every integer, and its half."""

LARGEST_RADICAND = 1 << 62
"""What int64 takes the root of; of larger ones an even number of bits is left out."""

LARGEST_IN_HALVES = 1 << 94
"""Below it the halves of a radicand fit int64: its last 32 bits, and those above."""

LARGEST_RAISE = 15
"""Root bits up to which 32 bits of a variance, raised, leave room for an epsilon."""

LONGEST_ROW = 1 << 28
"""Of so many words the halves of both squares fit int64."""

LARGEST_PRODUCT = 1 << 61
"""So far int64 is rounded."""


def fits_double(constants: Constants, attributes: Attributes) -> bool:
    """Whether no product or sum in double leaves 52 bits.

    A distance is at most sqrt(cells) times the root of the variance, so that its product with
    the factor is at most sqrt(cells) * 2**(factor_bits - root_bits), twice that where the root
    is 1 for one below 2; the multiple of the result is at most 2**norm_bits of that. Where
    bits are left out the root is 2**30 or more.
    """
    largest = _largest_normal_product(constants, attributes)
    return largest <= LARGEST_DOUBLE and _levels_fit_double(constants, attributes)


def _levels_fit_double(constants: Constants, attributes: Attributes) -> bool:
    largest = int(np.abs(constants["multiplier"].astype(np.int64)).max(initial=0))
    biases = int(np.abs(constants["bias"]).max(initial=0))
    scaled = (_longest(attributes) << attributes["norm_bits"]) * largest + biases
    return bool(scaled <= LARGEST_DOUBLE)


def _longest(attributes: Attributes) -> int:
    """At least twice what a distance is of the root of its variance."""
    return 2 * (isqrt(attributes["cells"] - 1) + 1)


def _largest_normal_product(constants: Constants, attributes: Attributes) -> int:
    """Of a distance and the factor of its row."""
    factor_bits = attributes["factor_bits"]
    largest = _longest(attributes) << factor_bits - attributes["root_bits"]
    if leaves_int64(constants, attributes):
        farthest = attributes["cells"] * _reach(constants, attributes)
        largest = max(largest, farthest << factor_bits >> 30)
    return int(largest)


def root_fits_double(constants: Constants, attributes: Attributes) -> bool:
    """Whether radicands stay below 2**52, and so do quotients with them."""
    largest = _largest_radicand(constants, attributes)
    return bool(largest < LARGEST_DOUBLE) and attributes["factor_bits"] <= 52


def sums_fit_double(constants: Constants, attributes: Attributes) -> bool:
    """Whether the products of sums that the variance is the difference of stay below 2**52."""
    return _largest_product(constants, attributes) < LARGEST_DOUBLE


def squares_fit_double(constants: Constants, attributes: Attributes) -> bool:
    """Whether the squares of a row add up to less than 2**52."""
    largest = _largest_product(constants, attributes)
    return largest < LARGEST_DOUBLE * int(attributes["cells"])


def fits_int64(constants: Constants, attributes: Attributes) -> bool:
    """Whether the variance of no row, with its fraction bits and epsilon, leaves 62 bits."""
    largest = _largest_radicand(constants, attributes)
    return max(largest, _largest_product(constants, attributes)) < LARGEST_RADICAND


def leaves_int64(constants: Constants, attributes: Attributes) -> bool:
    """Whether codes of 16 bits may have variances that leave 62 bits, with their fraction bits
    and epsilons.
    """
    return reads_words(constants, attributes) and not fits_int64(constants, attributes)


def keeps_int64(constants: Constants, attributes: Attributes) -> bool:
    """Whether x has 8 bits or the variance of no row leaves 62."""
    return not leaves_int64(constants, attributes)


def fits_halves(constants: Constants, attributes: Attributes) -> bool:
    """Whether halves of a radicand fit int64, as do shifts of products with its root."""
    root_bits, cells = attributes["root_bits"], attributes["cells"]
    shift = attributes["factor_bits"] - root_bits - attributes["norm_bits"]
    return bool(
        cells <= LONGEST_ROW
        and root_bits <= LARGEST_RAISE
        and shift + 16 <= LARGEST_SHIFT
        and _largest_radicand(constants, attributes) < LARGEST_IN_HALVES
    )


def fits(constants: Constants, attributes: Attributes) -> bool:
    """Whether the arithmetic of a body holds every row."""
    is_long = leaves_int64(constants, attributes)
    is_held = (fits_halves if is_long else fits_int64)(constants, attributes)
    return (
        is_held
        and _largest_normal_product(constants, attributes) <= LARGEST_PRODUCT
        and _levels_fit_double(constants, attributes)
    )


def _largest_product(constants: Constants, attributes: Attributes) -> int:
    limits, zero = np.iinfo(constants["x_zero"].dtype), int(constants["x_zero"])
    zero = 0 if attributes["centered"] else zero
    return int((attributes["cells"] * max(limits.max - zero, zero - limits.min)) ** 2)


def _largest_radicand(constants: Constants, attributes: Attributes) -> int:
    reach = attributes["cells"] * _reach(constants, attributes)
    largest = reach**2 // 4 + 1 << 2 * attributes["root_bits"]
    return int(largest + int(constants["epsilon"].max(initial=0)))


def _reach(constants: Constants, attributes: Attributes) -> int:
    """From one end of the codes to the other; with the mean as if both were as far."""
    limits, zero = np.iinfo(constants["x_zero"].dtype), int(constants["x_zero"])
    if attributes["centered"]:
        return int(limits.max - limits.min)
    return int(2 * max(limits.max - zero, zero - limits.min))
