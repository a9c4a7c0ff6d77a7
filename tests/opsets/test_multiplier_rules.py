"""Multiplier rules: what each gives, near to the scale, and at the ends of its range."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsets.fixed_point import saturating_multiplier
from opsets.multipliers import MULTIPLIERS, nearest
from tests.support.thoroughness import thoroughly

scales = st.floats(1e-8, 100.0)

# the relative error of scales of ordinary size, by rule and bits
WORST = [
    ("nearest", 24, 2**-24),
    ("quantize_multiplier", 31, 2**-31),
    ("quantize_multiplier_single", 31, 2**-31),
    ("tosa", 31, 2**-31),
    ("tosa", 15, 2**-15),
    ("get_scale_and_shift", 31, 2**-5),  # 30 places behind the point: 1e-8 has four bits
    ("get_scale_and_shift_positive", 31, 2**-5),
    ("rshift_and_multiplier", 7, 1 / 63),  # truncated
    ("dyadic", 31, 2**-31),
]


@pytest.mark.parametrize(("rule", "bits", "worst"), WORST)
@thoroughly(100)
@given(scales)
def test_a_multiplier_is_near_to_its_scale_in_width_and_shift_of_its_rule(
    rule, bits, worst, scale
):
    multiplier, shift = MULTIPLIERS[rule].derive(scale, bits, MULTIPLIERS[rule].shifts[1])
    assert abs(multiplier / 2.0**shift / scale - 1) <= worst
    low, high = MULTIPLIERS[rule].shifts
    assert 0 <= multiplier < (1 << bits) + (rule == "dyadic") and low <= shift <= high


@pytest.mark.parametrize("rule", ["get_scale_and_shift", "get_scale_and_shift_positive"])
@pytest.mark.parametrize("bits", [7, 31])
@thoroughly(100)
@given(scales)
def test_no_other_shift_of_the_search_has_a_lower_error(rule, bits, scale):
    real, (low, high) = float(np.float32(scale)), MULTIPLIERS[rule].shifts
    multiplier, shift = MULTIPLIERS[rule].derive(scale, bits, MULTIPLIERS[rule].shifts[1])
    found = abs(multiplier / 2.0**shift - real)
    for other in range(low, high + 1):
        candidate = int(np.floor(real * 2.0**other + 0.5))
        if candidate < 2**bits - 1:
            assert np.float32(found) <= np.float32(abs(candidate / 2.0**other - real))
    assert multiplier == 0 or multiplier % 2 == 1 or shift == low  # the first of equals


@thoroughly(100)
@given(scales)
def test_tflite_takes_every_scale_as_a_double(scale):
    odd = Fraction(scale) * (1 + Fraction(1, 2**80))
    for name in ("quantize_multiplier", "tosa", "dyadic"):
        derive = MULTIPLIERS[name].derive
        assert derive(odd, 31, 62) == derive(scale, 31, 62)


@thoroughly(100)
@given(scales, st.integers(1, 31))
def test_nearest_is_what_graphs_take(scale, bits):
    if scale < 2.0 ** (bits - 2):
        assert nearest(scale, bits, 61) == saturating_multiplier(scale, bits)


@pytest.mark.parametrize(
    ("rule", "scale", "pair"),
    [
        ("quantize_multiplier", 2.0**-32, (1 << 30, 62)),
        ("quantize_multiplier", 2.0**-32 * (1 - 2**-31), (0, 31)),
        ("quantize_multiplier", 2.0**-32 * (1 - 2**-40), (1 << 30, 62)),  # rounded up to it
        ("quantize_multiplier", 2.0**30, (1 << 30, 0)),
        ("quantize_multiplier_single", 2.0**30, ((1 << 31) - 1, 1)),
        ("quantize_multiplier_single", 2.0**29, (1 << 30, 1)),
        ("tosa", 2.0**-32, (1 << 30, 62)),
        ("tosa", 2.0**-40 * 1.5, (3 << 21, 62)),
        ("tosa", 2.0**-100, (0, 62)),
        ("get_scale_and_shift", 1e-12, (0, -32)),
        ("get_scale_and_shift_positive", 1e-12, (0, 0)),
        ("rshift_and_multiplier", 1e-30, (0, 0)),
        ("dyadic", 1 - 2.0**-40, (1 << 31, 31)),
    ],
)
def test_the_ends_of_the_rules(rule, scale, pair):
    bits = 7 if rule == "rshift_and_multiplier" else 31
    assert MULTIPLIERS[rule].derive(scale, bits, MULTIPLIERS[rule].shifts[1]) == pair
