"""Rounding rules against exact fractions and the C of the systems they come from."""

from fractions import Fraction
from math import ceil, floor

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from opsets.errors import UsageError
from opsets.kernels import two_step_kernel
from opsets.rounding import ROUNDING_RULES, SHIFT_MODES, requantize, right_shift, wraps
from tests.support.op_loops import LAST, exact_round, exact_two_steps
from tests.support.thoroughness import thoroughly

"""Single numbers of few kinds: what is small is tried in full, the ends are examples."""
int32 = st.integers(-(2**31), 2**31 - 1) | st.integers(-300, 300)
multiplier = st.integers(0, 2**31 - 1) | st.integers(0, 30).map(lambda bit: 1 << bit)

EXACT = {
    "half_down": lambda value: ceil(value - Fraction(1, 2)),
    "toward_zero": int,
    "up": ceil,
    "down": floor,
}


def exact(value, mode):
    return EXACT[mode](value) if mode in EXACT else exact_round(value, mode)


@pytest.mark.parametrize("mode", SHIFT_MODES)
@thoroughly(150)
@given(st.integers(-(2**62), 2**62) | st.integers(-300, 300), st.integers(0, 62))
def test_a_right_shift_rounds_its_quotient(mode, value, shift):
    assert right_shift(value, shift, mode) == exact(Fraction(value, 2**shift), mode)


@pytest.mark.parametrize("mode", SHIFT_MODES)
def test_a_left_shift_loses_nothing(mode):
    assert right_shift([-3, 0, 5], [-4, -62, 0], mode).tolist() == [-48, 0, 5]


@pytest.mark.parametrize("rounding", SHIFT_MODES)
@thoroughly(150)
@given(int32, multiplier, st.integers(-1, 62))
def test_one_rounding_is_of_the_exact_product(rounding, acc, m, shift):
    expected = exact(Fraction(acc * m) / Fraction(2) ** shift, rounding)
    if abs(acc * m) < 2**62:
        assert requantize(acc, m, shift, rounding) == expected


@pytest.mark.parametrize(("rounding", "last"), LAST.items())
@thoroughly(150)
@given(int32, multiplier, st.integers(-31, 31))
@example(-(2**31), 2**31 - 1, -31)
@example(-(2**31), 2**30, 0)
@example(3, 2**30, 31)  # the left shift wraps
@example(-3, 2**30, -1)
def test_two_roundings_are_those_of_the_source(rounding, last, acc, m, exponent):
    expected = exact_two_steps(acc, m, 31 - exponent, last)
    assert requantize(acc, m, 31 - exponent, rounding) == expected
    arrays = (np.int64([each]) for each in (acc, m, 31 - exponent))
    assert two_step_kernel(last)(*arrays).tolist() == [expected]


@pytest.mark.parametrize("rounding", LAST)
@thoroughly(150)
@given(int32, multiplier, st.integers(0, 62))
@example(-(2**31), 1, 31)
@example(-(2**30), 1, 30)
@example(2**30, 1, 30)
@example(-1, 1, 0)
def test_without_a_wrap_two_roundings_are_within_one_of_the_product(rounding, acc, m, shift):
    left = max(31 - shift, 0)
    beyond = not -(2**31) <= acc << left < 2**31
    assert wraps(acc, shift, rounding) == beyond and not wraps(acc, shift, "half_up")
    if not beyond:
        assert abs(requantize(acc, m, shift, rounding) - Fraction(acc * m, 2**shift)) < 1


@thoroughly(150)
@given(int32, st.integers(2**30, 2**31 - 1), st.integers(2, 62))
def test_tosa_double_round_is_tflites(acc, m, shift):
    if -(1 << (shift - 1)) <= acc < 1 << (shift - 1):  # what RESCALE requires
        half = (1 << (shift - 1)) + ((1 << 30) * (1 if acc >= 0 else -1) if shift > 31 else 0)
        assert requantize(acc, m, shift, "tflite_double") == (acc * m + half) >> shift


@thoroughly(150)
@given(st.integers(-(2**22), 2**22), multiplier, st.integers(0, 62))
def test_in_double_small_accumulators_are_rounded_half_to_even(acc, m, shift):
    expected = exact_round(Fraction(acc * m, 2**shift), "half_to_even")
    assert requantize(acc, m, shift, "half_to_even_in_double") == expected


def test_in_double_a_product_beyond_53_bits_is_rounded_itself():
    acc, m = 5 * 13 * 279073, 37 * 109 * 246241
    assert acc * m == 2**54 + 1  # just above a half of 2**55
    assert requantize(acc, m, 55, "half_to_even") == 1
    assert requantize(acc, m, 55, "half_to_even_in_double") == 0


@pytest.mark.parametrize("rounding", ROUNDING_RULES)
def test_integers_broadcast_as_numpys_do(rounding):
    acc, m, shift = np.arange(-6, 6).reshape(3, 4), np.full((3, 1), 3 << 29), 32
    levels = requantize(acc, m, shift, rounding)
    assert levels.dtype == np.int64 and levels.shape == (3, 4)
    one = [requantize(int(each), 3 << 29, 32, rounding) for each in acc.ravel()]
    assert levels.ravel().tolist() == one
    assert requantize(np.zeros((0, 2), np.int32), 1, 1, rounding).shape == (0, 2)


@pytest.mark.parametrize(
    ("given", "culprit"),
    [
        ((1.0, 1, 1, "half_up"), "accumulator must be integers, got float64"),
        ((1, [True], 1, "half_up"), "multiplier must be integers, got bool"),
        ((1, 1, 63, "half_up"), "shift must be from -62 to 62, got 0 to 63"),
        ((1, 1, -63, "half_up"), "shift must be from -62 to 62"),
        ((2**33, 2**30, 1, "half_up"), "products up to 9223372036854775808 do not fit 64"),
        ((2**63, 1, 1, "half_up"), "accumulator must be from"),
        ((2**31, 1, 31, "tflite_double"), "accumulator must be from"),
        ((2**20, 2**30, -20, "down"), "do not fit 64 bits"),
        ((1, 2**32, 1, "half_up"), "multiplier must be from"),
        ((1, 1, 1, "half_sideways"), "unknown rounding 'half_sideways': use one of half_to"),
    ],
)
def test_what_cannot_be_computed_exactly_is_an_error(given, culprit):
    with pytest.raises(UsageError, match=r"unknown|requantize") as caught:
        requantize(*given)
    assert culprit in str(caught.value)
