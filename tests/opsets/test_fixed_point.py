"""Fixed-point arithmetic against exact fractions, and the models of the kernels against it."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from opsets.fixed_point import (
    LARGEST_SHIFT,
    ROUNDINGS,
    rounding_shift,
    saturate,
    saturating_multiplier,
)
from opsets.kernels import PORTABLE_KERNELS, float32_kernel
from opsets.rounding import requantize
from tests.support.op_loops import exact_round
from tests.support.thoroughness import thoroughly

every_rounding = pytest.mark.parametrize("rounding", ROUNDINGS)
"""Single numbers of few kinds: what is small is tried in full, the ends are examples."""

accumulator = st.integers(-(2**31), 2**31 - 1)
multiplier = st.integers(0, 2**31 - 1) | st.integers(0, 30).map(lambda bit: 1 << bit)
shift = st.integers(1, LARGEST_SHIFT)
bits = st.integers(1, 31)
scale = st.builds(
    lambda mantissa, exponent: Fraction(mantissa) * Fraction(2) ** exponent,
    st.integers(1, 2**53),
    st.integers(-140, 10),
)


@st.composite
def near_tie(draw):
    """A value of up to 63 bits at or beside a tie, and its shift."""
    places = draw(st.integers(1, 62))
    odd = 2 * draw(st.integers(-(2 ** (62 - places)), 2 ** (62 - places) - 1)) + 1
    return odd * 2 ** (places - 1) + draw(st.integers(-1, 1)), places


def as_float32(value):
    """The float32 nearest to a fraction, ties to even, far from under- and overflow."""
    if value == 0:
        return value
    step = Fraction(2) ** (value.numerator.bit_length() - value.denominator.bit_length() - 24)
    while abs(value) / step >= 2**24:
        step *= 2
    return round(value / step) * step


@every_rounding
def test_rounding_shift_equals_fractions_on_every_small_value(rounding):
    values = np.arange(-300, 301)
    for places in range(9):
        expected = [exact_round(Fraction(int(v), 2**places), rounding) for v in values]
        assert rounding_shift(values, places, rounding).tolist() == expected


@every_rounding
@thoroughly(150)
@given(near_tie() | st.tuples(st.integers(-(2**63) + 1, 2**63 - 1), st.integers(0, 62)))
@example((-(2**63) + 1, 62))
@example((2**63 - 1, 62))
@example((2**63 - 1, 0))
def test_rounding_shift_equals_fractions_on_63_bits(rounding, case):
    value, places = case
    expected = exact_round(Fraction(value, 2**places), rounding)
    assert rounding_shift(value, places, rounding) == expected


@every_rounding
@thoroughly(150)
@given(accumulator, multiplier, shift)
@example(-(2**31), 2**31 - 1, LARGEST_SHIFT)
@example(-(2**31), 2**30, LARGEST_SHIFT)
def test_requantize_and_the_portable_kernel_equal_fractions(rounding, acc, m, s):
    expected = exact_round(Fraction(acc * m, 2**s), rounding)
    assert requantize(acc, m, s, rounding) == expected
    arrays = (np.array([v], np.int64) for v in (acc, m, s))
    assert PORTABLE_KERNELS[rounding](*arrays).tolist() == [expected]


@every_rounding
def test_portable_kernels_equal_requantize_on_every_small_value(rounding):
    acc, m, s = np.meshgrid(np.arange(-200, 201), np.arange(9), np.arange(1, 9))
    expected = requantize(acc, m, s, rounding)
    np.testing.assert_array_equal(PORTABLE_KERNELS[rounding](acc, m, s), expected)


@thoroughly(150)
@given(st.integers(-(2**61), 2**61), *[st.integers(-128, 255)] * 3)
def test_saturate_adds_the_zero_point_then_clamps(level, zero, low, high):
    low, high = sorted((low, high))
    assert saturate(np.int64(level), zero, low, high) == sorted((low, level + zero, high))[1]


@thoroughly(150)
@given(scale, bits)
@example(Fraction(1, 2), 1)
@example(Fraction(2**24 - 1, 2**24), 23)  # halfway to the next power of two
def test_a_scale_becomes_its_nearest_multiplier_of_full_width(real, bits):
    assume(Fraction(2) ** (bits - 62) <= real < Fraction(2) ** (bits - 2))
    m, s = saturating_multiplier(real, bits)
    assert m.bit_length() == bits and 1 <= s <= LARGEST_SHIFT
    error, half_step = abs(Fraction(m, 2**s) - real), Fraction(1, 2 ** (s + 1))
    assert error <= half_step
    assert error < half_step or m % 2 == 0


@thoroughly(150)
@given(bits, st.data())
def test_a_power_of_two_is_exact(bits, data):
    exponent = data.draw(st.integers(-LARGEST_SHIFT, bits - 2))
    m, s = saturating_multiplier(Fraction(2) ** exponent, bits)
    assert Fraction(m, 2**s) == Fraction(2) ** exponent


@thoroughly(150)
@given(st.floats(2**-60, 2**20), bits)
def test_a_float_scale_is_taken_exactly(real, bits):
    assert saturating_multiplier(real, bits) == saturating_multiplier(Fraction(real), bits)


@thoroughly(150)
@given(bits, st.fractions(0, 1))
@example(31, Fraction(0))
@example(24, Fraction(1, 2**40))
def test_a_tiny_scale_keeps_fewer_bits(bits, part):
    real = part * Fraction(2) ** (bits - 62)
    m, s = saturating_multiplier(real, bits)
    assert s == LARGEST_SHIFT
    assert abs(Fraction(m, 2**s) - real) <= Fraction(1, 2 ** (LARGEST_SHIFT + 1))


@thoroughly(150)
@given(bits, st.fractions(1, 10**40))
@example(31, Fraction(1))
def test_a_huge_scale_becomes_the_largest_power_of_two(bits, factor):
    real = factor * Fraction(2) ** (bits - 2)
    assert saturating_multiplier(real, bits) == (1 << (bits - 1), 1)


@pytest.mark.parametrize("bits", [8, 24, 31])
def test_rounding_up_to_a_power_of_two_lowers_the_shift(bits):
    just_below_one = 1 - Fraction(1, 2**40)
    assert saturating_multiplier(just_below_one, bits) == (1 << (bits - 1), bits - 1)


def test_the_fields_worked_example_is_reproduced():
    assert saturating_multiplier(0.1234, 31) == (2119995857, 34)


@pytest.mark.parametrize("bad", [-1.0, -1e-300, Fraction(-1, 3), *map(float, ("inf", "nan"))])
def test_a_scale_that_is_negative_or_not_finite_is_a_value_error(bad):
    with pytest.raises(ValueError, match="a scale is"):
        saturating_multiplier(bad, 24)


@thoroughly(150)
@given(accumulator, multiplier, shift)
@example(2**24 + 1, 2**23, 24)  # the accumulator is rounded
@example(1, 2**31 - 1, 32)  # the multiplier is rounded
def test_the_float32_kernel_rounds_each_step_to_24_bits(acc, m, s):
    scale = as_float32(Fraction(m)) / 2**s
    expected = round(as_float32(as_float32(Fraction(acc)) * scale))
    assert float32_kernel(*(np.array([v], np.int64) for v in (acc, m, s))).tolist() == [
        expected
    ]


@thoroughly(150)
@given(st.lists(accumulator, min_size=2, max_size=50), multiplier, shift)
def test_the_float32_kernel_is_monotone(accs, m, s):
    levels = float32_kernel(np.sort(accs), np.int64([m]), np.int64([s]))
    assert (np.diff(levels) >= 0).all()
