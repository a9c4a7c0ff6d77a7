"""Codes of weights of least error: no row loses by them, small ones find the best there is."""

from itertools import product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qpasses.recover import second_order
from qpasses.recover.second_order import least_error
from tests.support.thoroughness import thoroughly

INT8 = (-128, 127)


def moments_of(rng, groups, size, rank):
    rows = rng.standard_normal((groups, rank, size)) + rng.uniform(0, 3, (groups, 1, size))
    return rows.transpose(0, 2, 1) @ rows / rank


def damped(moments):
    """As the docstring says it, group by group."""
    return np.stack(
        [each + 0.01 * np.trace(each) / len(each) * np.eye(len(each)) for each in moments]
    )


def errors(lost, moments):
    return np.einsum("gri,gij,grj->gr", lost, moments, lost)


@thoroughly(120)
@given(
    st.integers(0, 10_000),
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(1, 12),
    st.sampled_from([1, 3, 40]),
    st.sampled_from([INT8, (0, 255), (-1, 1)]),
)
@example(1, 1, 2, 12, 1, INT8)
def test_no_row_loses_and_none_leaves_its_bounds(seed, groups, rows, size, rank, ends):
    rng = np.random.default_rng(seed)
    moments = moments_of(rng, groups, size, rank)
    quotients = rng.uniform(-130, 130, (groups, rows, size)) * rng.choice([1, 0.02])
    nearest = np.clip(np.rint(quotients), *ends)
    codes = least_error(quotients, moments, ends)
    assert codes.min() >= ends[0] and codes.max() <= ends[1]
    far = np.abs(codes - quotients) >= second_order.REACH
    np.testing.assert_array_equal(codes[far], nearest[far])
    before, after = (errors(quotients - each, damped(moments)) for each in (nearest, codes))
    assert (after <= before * (1 + 1e-9)).all()


@pytest.mark.parametrize("seed", range(20))
def test_no_single_code_can_be_moved_to_lose_less(seed):
    rng = np.random.default_rng(seed)
    moments, quotients = moments_of(rng, 1, 6, 4), rng.uniform(-20, 20, (1, 3, 6))
    codes = least_error(quotients, moments, INT8)
    least = errors(quotients - codes, damped(moments))
    settled = 0
    for place, step in product(range(6), (-1, 1)):
        moved = codes.copy()
        moved[:, :, place] += step
        inside = np.abs(moved - quotients)[:, :, place] < second_order.REACH
        settled += (errors(quotients - moved, damped(moments)) >= least * (1 - 1e-9))[
            inside
        ].sum()
        settled += (~inside).sum()
    assert settled >= 0.95 * 6 * 2 * 3  # three sweeps end nearly always


def test_errors_of_inputs_that_go_together_are_made_up_for():
    moments = np.ones((1, 2, 2)) + np.eye(2) * 1e-6
    assert least_error(np.full((1, 1, 2), 0.4), moments, INT8).sum() == 1


def test_what_no_sample_shows_is_rounded_to_the_nearest():
    quotients = np.random.default_rng(0).uniform(-100, 100, (2, 3, 5))
    codes = least_error(quotients, np.zeros((2, 5, 5)), INT8)
    np.testing.assert_array_equal(codes, np.rint(quotients))


def test_blocks_of_columns_change_nothing(monkeypatch):
    rng = np.random.default_rng(5)
    moments, quotients = moments_of(rng, 2, 30, 50), rng.uniform(-90, 90, (2, 8, 30))
    whole = least_error(quotients, moments, INT8)
    monkeypatch.setattr(second_order, "_BLOCK", 7)
    np.testing.assert_array_equal(least_error(quotients, moments, INT8), whole)


def test_much_is_gained_where_inputs_are_alike():
    rng = np.random.default_rng(6)
    moments, quotients = moments_of(rng, 1, 64, 20), rng.uniform(-100, 100, (1, 16, 64))
    codes = least_error(quotients, moments, INT8)
    before = errors(quotients - np.rint(quotients), damped(moments)).sum()
    assert errors(quotients - codes, damped(moments)).sum() < before / 10


def test_rows_choose_the_same_codes_a_few_at_a_time(monkeypatch):
    rng = np.random.default_rng(2)
    moments, quotients = moments_of(rng, 2, 9, 4), rng.uniform(-20, 20, (2, 7, 9))
    whole = least_error(quotients, moments, INT8)
    monkeypatch.setattr(second_order, "_AT_ONCE", 3 * 2 * 9 * 8)
    np.testing.assert_array_equal(least_error(quotients, moments, INT8), whole)
