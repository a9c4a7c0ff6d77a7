"""The threshold search against direct evaluation: every accumulator, every step."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from opsets.fixed_point import LARGEST_SHIFT, ROUNDINGS
from opsets.kernels import PORTABLE_KERNELS
from qpasses.evidence.thresholds import (
    NEVER,
    Interval,
    exact_thresholds,
    kernel_mismatches,
    largest_gap,
    levels,
    meaning_thresholds,
    moved,
    real_thresholds,
)
from tests.support.op_loops import exact_round
from tests.support.thoroughness import thoroughly

every_rounding = pytest.mark.parametrize("rounding", ROUNDINGS)
code = st.integers(-128, 255)
multiplier = st.one_of(
    st.integers(0, 2**31 - 1),
    st.integers(2**23, 2**24 - 1),
    st.integers(0, 30).map(lambda bit: 1 << bit),
    st.integers(0, 8),
)
accumulator = st.integers(-(2**31), 2**31 - 1)


def int64(*values):
    return np.array(values, np.int64)


def one_channel(thresholds):
    return np.array([thresholds], np.int64)


@st.composite
def output_steps(draw):
    """The steps of any zero point and clamp of one 8-bit type."""
    low = draw(st.sampled_from([0, -128]))
    stored = st.integers(low, low + 255)
    ends = draw(st.just((low, low + 255)) | st.tuples(stored, stored).map(sorted))
    return levels(draw(stored), *ends)


@st.composite
def real_scale(draw):
    """Random, tiny, huge; and within 2**-60 of putting a step on an integer (a tie)."""
    mantissa = Fraction(draw(st.integers(1, 2**48)), draw(st.integers(1, 2**48)))
    tie = Fraction(2 * draw(st.integers(0, 255)) + 1, 2 * draw(st.integers(1, 2**35)))
    nudge = draw(st.sampled_from([0, 1, -1])) * Fraction(1, 2 ** draw(st.integers(30, 60)))
    power = Fraction(2) ** draw(st.integers(-160, 120))
    return draw(st.sampled_from([mantissa, tie * (1 + nudge), power, mantissa * power]))


@st.composite
def step_functions(draw, count):
    """``count`` monotone step functions, [1, K] each, and an interval of accumulators."""
    size = draw(st.integers(0, 12))
    place = st.integers(-40, 40) | st.sampled_from([-int(NEVER), int(NEVER)])
    places = st.lists(place, min_size=size, max_size=size).map(sorted).map(one_channel)
    low = draw(st.integers(-45, 45))
    reachable = Interval(int64(low), int64(low + draw(st.integers(0, 60))))
    return *(draw(places) for _ in range(count)), reachable


def everything(reachable, channel=0):
    return np.arange(reachable.low[channel], reachable.high[channel] + 1)


def value(thresholds, accumulators):
    """How many steps each accumulator has taken."""
    return (accumulators[:, None] >= thresholds).sum(axis=1)


def kernel_of(thresholds, steps):
    """A monotone kernel that takes step k at ``thresholds[channel, k]``."""

    def kernel(acc, _multiplier, _shift):
        taken = (acc[..., None] >= thresholds[:, None, :]).sum(axis=-1)
        return taken + steps[0] - 1 if len(steps) else taken

    return kernel


def mismatches(kernel, thresholds, steps, reachable):
    unused = np.ones(len(thresholds), np.int64)
    return kernel_mismatches(kernel, unused, unused, thresholds, steps, reachable)


def assert_smallest(thresholds, steps, level_of):
    """Each threshold reaches its step, its predecessor does not; NEVER stands for beyond."""
    assert thresholds.shape == (1, len(steps))
    for threshold, k in zip(thresholds[0].tolist(), steps.tolist(), strict=True):
        assert threshold == NEVER or level_of(threshold) >= k
        assert threshold == -NEVER or level_of(threshold - 1) < k


@every_rounding
def test_meaning_thresholds_are_right_at_every_small_accumulator(rounding):
    accumulators, steps = np.arange(-300, 301), np.arange(-9, 10)
    for m in range(33):
        for shift in range(1, 9):
            expected = [
                exact_round(Fraction(int(a) * m, 1 << shift), rounding) for a in accumulators
            ]
            found = meaning_thresholds(int64(m), int64(shift), steps, rounding)
            taken = value(found[0], accumulators) + steps[0] - 1
            assert taken.tolist() == np.clip(expected, -10, 9).tolist(), (m, shift)


@every_rounding
@thoroughly(100)
@given(multiplier, st.integers(1, LARGEST_SHIFT), output_steps())
@example(0, 1, levels(128, 0, 255))
@example(1, LARGEST_SHIFT, levels(0, -128, 127))
@example(1 << 23, 53, levels(0, 0, 255))
@example(1 << 23, 54, levels(255, 0, 255))
@example((1 << 31) - 1, 53, levels(-128, -128, 127))
def test_a_meaning_threshold_is_the_smallest_accumulator_of_its_level(
    rounding, m, shift, steps
):
    found = meaning_thresholds(int64(m), int64(shift), steps, rounding)
    assert_smallest(found, steps, lambda a: exact_round(Fraction(a * m, 1 << shift), rounding))


@every_rounding
@thoroughly(100)
@given(multiplier, st.integers(1, LARGEST_SHIFT), output_steps(), accumulator)
def test_meaning_thresholds_tell_the_output_of_any_accumulator(rounding, m, shift, steps, acc):
    assume(len(steps))
    low, high = int(steps[0]) - 1, int(steps[-1])
    expected = exact_round(Fraction(acc * m, 1 << shift), rounding)
    found = meaning_thresholds(int64(m), int64(shift), steps, rounding)
    assert low + value(found[0], int64(acc)) == min(max(expected, low), high)


@thoroughly(100)
@given(st.lists(st.tuples(multiplier, st.integers(1, LARGEST_SHIFT)), min_size=1, max_size=6))
def test_meaning_thresholds_treat_channels_one_by_one(channels):
    columns = np.array(channels, np.int64).T
    steps = levels(3, 0, 255)
    found = meaning_thresholds(*columns, steps, "half_up")
    for row, each in zip(found, columns.T, strict=True):
        alone = meaning_thresholds(*each[:, None], steps, "half_up")
        assert row.tolist() == alone[0].tolist()


@thoroughly(200)
@given(real_scale(), output_steps())
@example(Fraction(0), levels(10, 0, 255))
@example(Fraction(1, 2), levels(128, 0, 255))
@example(Fraction(1, 2**24), levels(128, 0, 255))
@example(Fraction(1, 3 * 2**49), levels(0, 0, 255))
@example(Fraction(1, 10**60), levels(0, -128, 127))
@example(Fraction(10**60), levels(0, -128, 127))
def test_a_real_threshold_is_the_smallest_accumulator_of_its_level(scale, steps):
    assert_smallest(real_thresholds([scale], steps), steps, lambda acc: round(acc * scale))


def test_real_thresholds_are_right_at_every_small_accumulator():
    accumulators, steps = np.arange(-300, 301), np.arange(-9, 10)
    scales = [Fraction(p, q) for p in range(6) for q in (1, 2, 3, 4, 7, 8, 64, 100)]
    for row, scale in zip(real_thresholds(scales, steps), scales, strict=True):
        expected = [round(int(acc) * scale) for acc in accumulators]
        taken = value(row, accumulators) + steps[0] - 1
        assert taken.tolist() == np.clip(expected, -10, 9).tolist(), scale


@thoroughly(100)
@given(st.lists(code, min_size=3, max_size=3), st.integers(-600, 600))
def test_the_steps_taken_are_the_clamped_output(codes, level):
    low, zero, high = sorted(codes)
    for y_zero in (zero, low - 1, high + 1):
        steps = levels(y_zero, low, high)
        assert low + (level >= steps).sum() == min(max(level + y_zero, low), high)


@thoroughly(200)
@given(step_functions(2))
def test_no_mismatch_exactly_if_equal_on_every_reachable_accumulator(case):
    meaning, wrong, reachable = case
    steps, accumulators = np.arange(meaning.shape[1]) - 4, everything(reachable)
    found = mismatches(kernel_of(wrong, steps), meaning, steps, reachable)
    taken = [accumulators[:, None] >= each for each in (meaning, wrong)]
    assert found.tolist() == [(taken[0] != taken[1]).any(axis=0).sum()]
    assert (found[0] == 0) == (
        value(meaning, accumulators) == value(wrong, accumulators)
    ).all()


@thoroughly(200)
@given(step_functions(1), st.data())
def test_a_single_step_off_by_one_is_noticed_where_it_can_be_reached(case, data):
    meaning, reachable = case
    assume(meaning.size)
    place = data.draw(st.integers(0, meaning.shape[1] - 1))
    wrong = meaning.copy()
    wrong[0, place] += data.draw(st.sampled_from([1, -1]))
    assume((np.diff(wrong) >= 0).all())
    steps = np.arange(meaning.shape[1]) + 1
    differs_at = min(meaning[0, place], wrong[0, place])
    seen = reachable.low[0] <= differs_at <= reachable.high[0]
    found = mismatches(kernel_of(wrong, steps), meaning, steps, reachable)
    assert found.tolist() == [int(seen)]


@every_rounding
@thoroughly(100)
@given(multiplier, st.integers(1, 40), output_steps(), accumulator, st.integers(0, 3000))
def test_a_kernel_of_another_rounding_is_noticed_exactly_at_reachable_ties(
    rounding, m, shift, steps, low, width
):
    reachable = Interval(int64(low), int64(min(low + width, 2**31 - 1)))
    accumulators = everything(reachable)
    thresholds = meaning_thresholds(int64(m), int64(shift), steps, rounding)
    for name, kernel in PORTABLE_KERNELS.items():
        wrong = mismatches_of(kernel, m, shift, thresholds, steps, reachable)
        levels_of = [
            k(accumulators, int64(m), int64(shift))
            for k in (PORTABLE_KERNELS[rounding], kernel)
        ]
        outputs = [(each[:, None] >= steps).sum(axis=1) for each in levels_of]
        assert (wrong == 0) == (outputs[0] == outputs[1]).all(), name


def mismatches_of(kernel, m, shift, thresholds, steps, reachable):
    return kernel_mismatches(kernel, int64(m), int64(shift), thresholds, steps, reachable)[0]


@thoroughly(100)
@given(st.lists(step_functions(1), min_size=2, max_size=5), st.data())
def test_only_the_wrong_channel_is_counted(cases, data):
    size = min(each.shape[1] for each, _ in cases)
    assume(size)
    meaning = np.concatenate([each[:, :size] for each, _ in cases])
    reachable = Interval(
        *(np.concatenate([getattr(r, end) for _, r in cases]) for end in ("low", "high"))
    )
    wrong, bad = meaning.copy(), data.draw(st.integers(0, len(cases) - 1))
    wrong[bad] = reachable.high[bad] + 1 - (meaning[bad, -1] > reachable.high[bad])
    steps = np.arange(size)
    found = mismatches(kernel_of(wrong, steps), meaning, steps, reachable)
    assert found[bad] > 0
    assert np.delete(found, bad).tolist() == [0] * (len(cases) - 1)


@thoroughly(200)
@given(step_functions(2))
def test_moved_and_largest_gap_are_the_sum_and_the_maximum_over_every_accumulator(case):
    ours, reference, reachable = case
    accumulators = everything(reachable)
    gaps = np.abs(value(ours, accumulators) - value(reference, accumulators))
    assert moved(ours, reference, reachable).tolist() == [gaps.sum()]
    assert largest_gap(ours, reference, reachable) == gaps.max(initial=0)


@thoroughly(100)
@given(st.integers(2**10, 2**24), st.integers(8, 22), output_steps(), st.integers(-3000, 0))
def test_moved_counts_the_outputs_unlike_real_arithmetic(real, shift, steps, low):
    """The meaning has six bits here, so that much differs, often by more than one."""
    scale = Fraction(real, 1 << shift + 12)
    rough = round(scale * (1 << shift)) & -(1 << max(shift - 8, 0))
    reachable = Interval(int64(low), int64(low + 4000))
    reference = real_thresholds([scale], steps)
    ours = meaning_thresholds(int64(rough), int64(shift), steps, "half_up")
    expected = [round(int(acc) * scale) for acc in everything(reachable)]
    found = [
        floor(Fraction(int(a) * rough, 1 << shift) + Fraction(1, 2))
        for a in everything(reachable)
    ]
    ends = (steps[0] - 1, steps[-1]) if len(steps) else (0, 0)
    gaps = np.abs(np.clip(found, *ends) - np.clip(expected, *ends))
    assert moved(ours, reference, reachable).tolist() == [gaps.sum()]
    assert largest_gap(ours, reference, reachable) == gaps.max()


def test_largest_gap_is_the_maximum_over_channels():
    reachable = Interval(int64(0, 0, 0), int64(9, 9, 9))
    ours = np.array([[1, 2, 3], [1, 2, 3], [1, 2, 3]], np.int64)
    other = np.array([[1, 2, 3], [4, 4, 4], [1, 2, 4]], np.int64)
    assert largest_gap(ours, other, reachable) == 3
    assert moved(ours, other, reachable).tolist() == [0, 6, 1]


@pytest.mark.parametrize(
    ("low", "high", "fits"),
    [
        (-(2**31), 2**31 - 1, True),
        (-(2**31) - 1, 0, False),
        (0, 2**31, False),
        (2**31, 2**31, False),
        (-(2**31) - 1, -(2**31) - 1, False),
    ],
)
def test_an_interval_fits_int32_up_to_its_exact_ends(low, high, fits):
    assert Interval(int64(low), int64(high)).fits_int32() is fits
    assert Interval(int64(0, low, -5), int64(0, high, 5)).fits_int32() is fits


@thoroughly(100)
@given(step_functions(1))
def test_clipped_thresholds_are_the_same_function_of_few_values(case):
    thresholds, reachable = case
    accumulators, clipped = everything(reachable), reachable.clip(thresholds)
    assert ((clipped >= reachable.low) & (clipped <= reachable.high + 1)).all()
    assert (value(clipped, accumulators) == value(thresholds, accumulators)).all()


def test_count_is_the_number_of_accumulators_of_all_channels():
    reachable = Interval(int64(-3, 0, 7), int64(3, 0, 8))
    assert reachable.count() == sum(len(everything(reachable, c)) for c in range(3))


@every_rounding
@thoroughly(400)
@given(
    numerator=st.one_of(st.integers(1, 1 << 20), st.integers(1, 1 << 70)),
    denominator=st.one_of(st.integers(1, 1 << 20), st.integers(1, 1 << 70)),
    step=st.integers(-(1 << 15), 1 << 15),
)
def test_exact_thresholds_of_any_scale_are_the_smallest_that_reach(
    rounding, numerator, denominator, step
):
    scale = Fraction(numerator, denominator)
    (found,) = exact_thresholds(scale, int64(step), rounding)
    if abs(found) == NEVER:
        return
    assert exact_round(found * scale, rounding) >= step
    assert exact_round((found - 1) * scale, rounding) < step
