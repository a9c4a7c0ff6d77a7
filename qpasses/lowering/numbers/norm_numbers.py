"""The integers of a normalization over rows: IntLayerNorm."""

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.multipliers import ScaleError
from opsets.norm_bounds import (
    LARGEST_DOUBLE,
    LARGEST_IN_HALVES,
    LARGEST_PRODUCT,
    LARGEST_RADICAND,
    LARGEST_RAISE,
    LONGEST_ROW,
)
from qpasses.ir.record import AnyQuantization, Quantization, scales_of

NORM_BITS = 20
"""Fraction bits of a normalized number."""


MULTIPLIER_BITS, LARGEST_SHIFT = 24, 61

ENOUGH_ROOT_BITS = 10
"""Fraction bits of a root that is taken in double; with fewer it has all that fit int64."""

ENOUGH_FOR_WORDS = ENOUGH_ROOT_BITS + 8
"""The same where the result has 16 bits."""

_LEAST_ROOT_BITS = 4
"""With fewer fraction bits the root of a stream of 16 bits would not be worth them."""

_ENOUGH_FACTOR_BITS = 14
"""Of a factor whose root has 31 bits, in double; with fewer it has all that fit int64."""

_FACTOR_BITS_FOR_WORDS = _ENOUGH_FACTOR_BITS + 8
"""The same where the result has 16 bits."""

_LARGEST_ROOT_BITS = 31
"""Bits that roots have of which bits are left out."""

_DOUBLE_BITS = LARGEST_DOUBLE.bit_length() - 1
_INT64_BITS = LARGEST_RADICAND.bit_length() - 1
_HALVES_BITS = LARGEST_IN_HALVES.bit_length() - 1
_PRODUCT_BITS = LARGEST_PRODUCT.bit_length() - 1


@dataclass(frozen=True)
class Norm:
    """What is computed: (x - mean) / sqrt(variance + epsilon) * gamma + beta, over rows.

    Of ``cells`` along ``axis`` and what is behind it. ``gamma`` and ``beta`` are of one shape,
    which broadcasts to what is normalized; not ``centered``: without the mean.
    """

    axis: int
    cells: int
    gamma: NDArray[np.float32]
    beta: NDArray[np.float32]
    epsilon: float
    centered: bool = True


def takes_words(x: Quantization, cells: int, epsilon: float) -> bool:
    """Whether there are integers for rows of so many codes of 16 bits."""
    in_codes = Fraction(float(epsilon)) * cells**2 / Fraction(x.scale) ** 2
    return cells <= LONGEST_ROW and int(in_codes + 1).bit_length() <= _INT64_BITS


def norm_numbers(
    x: AnyQuantization, y: Quantization, norm: Norm
) -> tuple[dict[str, NDArray[Any]], dict[str, int]]:
    """Constants and attributes of the node, as precise as arithmetic of 52 bits holds.

    Rows of channels that have scales of their own, which are centered, have an epsilon each.
    Raises ScaleError for an epsilon, a row or factors for which there are none.
    """
    cells = norm.cells
    low, high = (end - x.zero_point for end in x.type_limits)
    reach = high - low if norm.centered else 2 * max(high, -low)
    real = Fraction(float(norm.epsilon)) * cells**2
    epsilons = [real / Fraction(scale) ** 2 for scale in scales_of(x)]
    row = _Row(cells, reach, int(max(epsilons)) + 1)
    is_long = x.dtype == "int16" and not row.holds_words
    root_bits, factor_bits = (_long_bits if is_long else _short_bits)(row, y)
    if root_bits < 0:
        raise ScaleError(
            f"epsilon {norm.epsilon:g} over rows of {cells} codes of scale "
            f"{min(scales_of(x)):g} needs "
            f"{62 - 2 * root_bits} bits, there are 62"
        )
    shift = _shift(norm, y, row.longest)
    unit = Fraction(y.scale) * (1 << NORM_BITS)
    multiplier = [_nearest(each, shift, unit) for each in norm.gamma.ravel().tolist()]
    bias = [_nearest(each, shift, Fraction(y.scale)) for each in norm.beta.ravel().tolist()]
    numbers: dict[str, NDArray[Any]] = {
        "multiplier": np.array(multiplier, np.int32).reshape(norm.gamma.shape),
        "bias": np.array(bias, np.int64).reshape(norm.gamma.shape),
        "shift": np.array(shift, np.int32),
        "epsilon": _of_rows(x, [round(each * 4**root_bits) for each in epsilons], norm),
    }
    attributes = {
        "axis": norm.axis,
        "cells": cells,
        "centered": int(norm.centered),
        "root_bits": root_bits,
        "factor_bits": factor_bits,
        "norm_bits": NORM_BITS,
    }
    return numbers, attributes


@dataclass(frozen=True)
class _Row:
    """Of so many codes, with so many steps from end to end and an epsilon of so many."""

    cells: int
    reach: int
    epsilon: int

    @property
    def largest(self) -> int:
        """More than its variance and epsilon, in units of codes."""
        return (self.cells * self.reach) ** 2 // 4 + 1 + self.epsilon

    @property
    def longest(self) -> int:
        """At least twice what a distance is of the root of its variance."""
        return 2 * (isqrt(self.cells - 1) + 1)

    @property
    def holds_words(self) -> bool:
        """Whether double holds the squares of its sums, and int64 roots with enough bits."""
        largest_sum = self.cells * ((self.reach + 1) // 2)
        bits = _INT64_BITS - 2 * _LEAST_ROOT_BITS
        return largest_sum**2 < LARGEST_DOUBLE and self.largest.bit_length() <= bits


def _short_bits(row: _Row, y: Quantization) -> tuple[int, int]:
    """Of the root and the factor: in double if that is enough, else in int64."""
    in_double = (_DOUBLE_BITS - row.largest.bit_length()) // 2
    is_enough = in_double >= (ENOUGH_FOR_WORDS if y.dtype == "int16" else ENOUGH_ROOT_BITS)
    root_bits = in_double if is_enough else (_INT64_BITS - row.largest.bit_length()) // 2
    above = _DOUBLE_BITS - (row.longest - 1).bit_length()
    return root_bits, min(root_bits + above, _DOUBLE_BITS if is_enough else _INT64_BITS)


def _long_bits(row: _Row, y: Quantization) -> tuple[int, int]:
    """The same of rows of which bits are left out: their roots are 2**30 or more."""
    if row.cells > LONGEST_ROW:
        raise ScaleError(f"rows of {row.cells} codes: of 16 bits there are {LONGEST_ROW}")
    in_halves = (_HALVES_BITS - row.largest.bit_length()) // 2
    with_epsilon = (_INT64_BITS - row.epsilon.bit_length()) // 2
    root_bits = min(LARGEST_RAISE, in_halves, with_epsilon)

    def factor_bits(room: int) -> int:
        farthest = row.cells * row.reach
        of_roots = root_bits + room - (row.longest - 1).bit_length()
        of_rest = _LARGEST_ROOT_BITS - 1 + room - (farthest - 1).bit_length()
        return min(of_roots, of_rest, _INT64_BITS)

    enough = _FACTOR_BITS_FOR_WORDS if y.dtype == "int16" else _ENOUGH_FACTOR_BITS
    in_double = factor_bits(_DOUBLE_BITS)
    is_enough = in_double >= _LARGEST_ROOT_BITS + enough
    return root_bits, in_double if is_enough else factor_bits(_PRODUCT_BITS)


def _of_rows(x: AnyQuantization, numbers: list[int], norm: Norm) -> NDArray[np.int64]:
    """The one number, or those of channels, shaped as gamma."""
    shape = () if isinstance(x, Quantization) else norm.gamma.shape
    return np.array(numbers, np.int64).reshape(shape)


def _shift(norm: Norm, y: Quantization, longest: int) -> int:
    """The largest shift with which multipliers and biases fit."""
    steepest, furthest = (
        Fraction(float(np.abs(each).max(initial=0))) / Fraction(y.scale)
        for each in (norm.gamma, norm.beta)
    )
    room = LARGEST_DOUBLE.bit_length() - 2 - longest.bit_length() - NORM_BITS
    widest = 1 << min(MULTIPLIER_BITS, room)
    for shift in range(LARGEST_SHIFT, 0, -1):
        slope, offset = (each * (1 << shift) for each in (steepest, furthest))
        if slope < widest << NORM_BITS and offset < LARGEST_DOUBLE >> 2:
            return shift
    raise ScaleError(
        f"gamma up to {float(steepest):.3g} and beta up to {float(furthest):.3g} steps of the "
        "result need more than 52 bits"
    )


def _nearest(value: float, shift: int, unit: Fraction) -> int:
    return round(Fraction(value) * (1 << shift) / unit)
