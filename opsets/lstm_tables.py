"""Tables that LSTM kernels of TFLite have, or compute number by number: exact integers.

A table [65536] int16 has 15 bits behind the point, and is ordered by the 16 bits of what it is
asked: sums in steps of 2**-12, cells in steps of a power of two. Two families:

- **By chords**, TensorFlow Lite Micro and CMSIS-NN (lite/kernels/internal/common.h and
  reference/integer_ops/logistic.h, tanh.h; arm_nn_activation_s16.c): 256 values of a sigmoid,
  24 to the unit, and chords between them; tanh(x) = 2 * sigmoid(2 x) - 1.
- **By gemmlowp**, LiteRT (reference/portable_tensor_utils.cc, ApplySigmoid and ApplyTanh;
  gemmlowp fixedpoint/fixedpoint.h with int16): an exponential by Taylor's series and factors,
  a quotient by three of Newton's steps.

tests/opsets/test_lstm_tables.py holds all entries to plain loops, and these to interpreters.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64, rounding_shift

Table = NDArray[np.int16]

GATE_POWER = -12
"""Sums of gates have steps of 2**-12."""

_WORDS = np.arange(1 << 16).astype(np.uint16).view(np.int16).astype(np.int64)


def _by_words(levels: Int64) -> Table:
    found = levels.astype(np.int16)
    found.setflags(write=False)
    return found


@cache
def _knots() -> Int64:
    """sigmoid(k / 24) in steps of 2**-16, the nearest to what lies half as far above it as the
    curve lies above its chord there, -sigmoid'' / 24**2 / 16. The last one is 65535.
    """
    s = 1 / (1 + np.exp(-np.arange(256) / 24))
    bend = s * (1 - s) * (1 - 2 * s) / 24**2
    knots = np.rint((s - bend / 16) * 65536).astype(np.int64)
    knots[-1] = 65535
    return np.asarray(knots)


def _chord(sizes: Int64, bits: int) -> Int64:
    """Of ``sizes`` with so many bits behind a knot: so many bits behind steps of 2**-16."""
    place, rest = np.minimum(sizes >> bits, 254), sizes & ((1 << bits) - 1)
    knots = _knots()
    return np.asarray((knots[place] << bits) + rest * (knots[place + 1] - knots[place]))


@cache
def chord_sigmoid() -> Table:
    """Sigmoid of sums of gates; beyond 255 knots 32767 / 32768."""
    sizes = np.abs(3 * _WORDS)
    level = np.where(sizes >> 9 >= 255, 0x7FFF << 10, _chord(sizes, 9))
    rounded = np.where(_WORDS >= 0, level + 512, (1 << 25) - level + 511)
    return _by_words(rounded >> 10)


@cache
def chord_tanh(power: int = GATE_POWER) -> Table:
    """Tanh of what has steps of 2**power; finer than 2**-12 it is rounded first, ties up."""
    left = power - GATE_POWER
    sizes = 3 * _WORDS << max(left, 0)
    if left < 0:
        sizes = (sizes + (1 << (-left - 1))) >> -left
    level = np.where(np.abs(sizes) >> 8 >= 255, 0xFFFF << 8, _chord(np.abs(sizes), 8))
    rounded = np.where(sizes >= 0, level - (1 << 23) + 128, (1 << 23) - level + 127)
    return _by_words(rounded >> 8)


# By gemmlowp, with 15 bits.

_LAST = (1 << 15) - 1
"""The largest number; 1 where no bit is before the point."""

_POWERS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
"""exp(-2**k) with 31 bits behind the point, k from -2 on."""

_EXP_OF_EIGHTH, _THIRD, _START, _SLOPE = 1895147668, 715827883, 1515870810, 1010580540
"""exp(-1 / 8) and 1 / 3 with 31 bits, 48 / 17 and 32 / 17 with 29 behind the point."""


def _short(constant: int) -> int:
    """A number of 32 bits with 16."""
    return (constant + (1 << 15)) >> 16


def _high(a: Int64, b: Int64 | int) -> Int64:
    """SaturatingRoundingDoublingHighMul of int16: ties go up."""
    return np.asarray(np.minimum((a * b + (1 << 14)) >> 15, _LAST), np.int64)


def _word(a: Int64) -> Int64:
    return np.asarray(np.clip(a, -_LAST - 1, _LAST), np.int64)


def _exp_near_zero(a: Int64) -> Int64:
    """exp of a from -1 / 4 to 0: Taylor's series of fourth degree about -1 / 8."""
    x = a + (1 << 12)
    x2 = _high(x, x)
    x3, x4 = _high(x2, x), _high(x2, x2)
    third = _high(rounding_shift(x4, 2, "half_away") + x3, _short(_THIRD))
    rest = rounding_shift(third + x2, 1, "half_away")
    return _word(_short(_EXP_OF_EIGHTH) + _high(x + rest, _short(_EXP_OF_EIGHTH)))


def _exp(a: Int64, bits: int) -> Int64:
    """exp of a <= 0 that has so many ``bits`` before the point, five at most or more: below
    -32 it is 0.
    """
    behind = 15 - bits
    quarter = 1 << (behind - 2)
    low = (a & (quarter - 1)) - quarter
    found, rest = _exp_near_zero(low << bits), low - a
    for place, power in zip(range(-2, bits), _POWERS, strict=False):
        has = rest & (1 << (behind + place))
        found = np.where(has != 0, _high(found, _short(power)), found)
    if bits > 5:
        found = np.where(a < -(32 << behind), 0, found)
    return np.asarray(np.where(a == 0, _LAST, found), np.int64)


def _twice_reciprocal(a: Int64) -> Int64:
    """2 / (1 + a) of a from 0 to 1, two bits before the point, by three of Newton's steps."""
    half = (a + _LAST + 1) >> 1
    x = _word(_short(_START) + _high(half, -_short(_SLOPE)))
    for _ in range(3):
        error = _word((1 << 13) - _high(half, x))
        x = _word(x + _word(_high(x, error) << 2))
    return x


@cache
def gemmlowp_sigmoid() -> Table:
    """Sigmoid of sums of gates."""
    above = _word(_twice_reciprocal(_exp(-np.abs(_WORDS), 15 + GATE_POWER)) << 1)
    found = np.where(_WORDS > 0, above, _LAST - above)
    return _by_words(np.where(_WORDS == 0, 1 << 14, found))


@cache
def gemmlowp_tanh(power: int = GATE_POWER) -> Table:
    """Tanh of what has steps of 2**power, from -15 to -9."""
    exponential = _exp(np.maximum(-np.abs(_WORDS), -_LAST - 1), 16 + power)
    above = _word((_twice_reciprocal(exponential) - (1 << 13)) << 2)
    found = np.where(_WORDS > 0, above, -above)
    return _by_words(np.where(_WORDS == 0, 0, found))
