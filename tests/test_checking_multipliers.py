"""The checker's own rules of multipliers against those of the targets."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsets.multipliers import MULTIPLIERS, ScaleError
from opsets.target import load_target, target_names
from qpasses.checking.elementwise import accumulators, elementwise
from qpasses.checking.meaning import DifferenceError

scales = st.one_of(st.floats(2.0**-20, 2.0**20), st.integers(-20, 20).map(lambda n: 2.0**n))


@pytest.mark.parametrize("name", sorted({*target_names()} - {"ivit"}))
@settings(deadline=None, derandomize=True, database=None, max_examples=300)
@given(scale=scales)
def test_both_derive_the_same(name, scale):
    target = load_target(name)
    for ours, theirs in (
        (accumulators, target.scale_to_multiplier),
        (elementwise, target.elementwise_multiplier),
    ):
        try:
            expected = theirs(scale)
        except ScaleError:
            continue
        assert ours(scale, target) == expected


def test_a_rule_that_is_not_known_is_a_difference():
    with pytest.raises(DifferenceError, match="'dyadic' is not known"):
        accumulators(0.5, load_target("ivit"))


@pytest.mark.parametrize("rule", ["get_scale_and_shift", "get_scale_and_shift_positive"])
def test_narrow_rules_of_a_users_own(rule):
    target = replace(load_target("exact"), elementwise=rule, elementwise_bits=7)
    found = elementwise(0.3, target)
    assert found == target.elementwise_multiplier(0.3) == (77, 8)
    assert MULTIPLIERS[rule].bits
