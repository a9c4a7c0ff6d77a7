"""The checker's own rules of multipliers against those of the targets."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsets.multipliers import MULTIPLIERS, ScaleError
from opsets.target import load_target, target_names
from qpasses.checking.rules.check_multipliers import rule_pair
from tests.support.thoroughness import thoroughly

scales = st.one_of(st.floats(2.0**-20, 2.0**20), st.integers(-20, 20).map(lambda n: 2.0**n))


@pytest.mark.parametrize("name", target_names())
@thoroughly(300)
@given(scale=scales)
def test_both_derive_the_same(name, scale):
    target = load_target(name)
    for theirs, elementwise in (
        (target.scale_to_multiplier, False),
        (target.elementwise_multiplier, True),
    ):
        try:
            expected = theirs(scale)
        except ScaleError:
            continue
        assert rule_pair(scale, target, elementwise) == expected


@pytest.mark.parametrize("rule", ["get_scale_and_shift", "get_scale_and_shift_positive"])
def test_narrow_rules_of_a_users_own(rule):
    target = replace(load_target("exact"), elementwise=rule, elementwise_bits=7)
    found = rule_pair(0.3, target, elementwise=True)
    assert found == target.elementwise_multiplier(0.3) == (77, 8)
    assert MULTIPLIERS[rule].bits
