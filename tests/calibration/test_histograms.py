"""Histograms and statistics: whatever the order and the partition, the same integers."""

from fractions import Fraction
from functools import reduce
from math import floor, frexp

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from calibration.histogram import BINS, LEAST_EXPONENT, Histogram, bin_of, least_exponent
from calibration.statistics import Range, Statistics
from tests.support.statistics_of import statistics_of
from tests.support.thoroughness import thoroughly

pytestmark = pytest.mark.filterwarnings("error")

LEAST = 2.0**-149
LARGEST = float(np.finfo(np.float32).max)
MANTISSA = 24

float32 = st.floats(width=32, allow_nan=False, allow_infinity=False) | st.sampled_from(
    [0.0, -0.0, LEAST, -LEAST, 2.0**-126, LARGEST, -LARGEST, 4096.0, -4096.0, 4095.0, 1.0]
)
near = st.floats(-4, 4, width=32) | st.integers(-5000, 5000).map(float)
arrays = st.lists(float32 | near, min_size=1, max_size=30)
samples = st.lists(arrays, min_size=1, max_size=8)


def bins_between(low, high, exponent):
    """How many bins of 2**exponent hold ``low`` to ``high``, in exact arithmetic."""
    width = Fraction(2) ** exponent
    return floor(Fraction(high) / width) - floor(Fraction(low) / width) + 1


def united(parts):
    """The statistics of samples, each a list of values, straight from all of them."""
    each = [statistics_of(values) for values in parts]
    return Statistics(
        min(one.low for one in each),
        max(one.high for one in each),
        sum(map(len, parts)),
        sum(values.count(0.0) for values in parts),
        len(parts),
        sum((Fraction(one.low) for one in each), Fraction(0)),
        sum((Fraction(one.high) for one in each), Fraction(0)),
        Histogram.of(np.array([x for values in parts for x in values], np.float32)),
    )


# The width of the bins


@thoroughly(1000)
@given(float32 | near, float32 | near)
@example(-LARGEST, LARGEST)
@example(LEAST, LARGEST)
@example(-LEAST, LARGEST)
@example(0.0, 4096.0)
@example(-1.0, 4095.0)
@example(1.0, 4096.0)
@example(LEAST, 4096.0)
@example(-LEAST, LEAST)
@example(1.0, 1.0 + 2.0**-23)
def test_the_exponent_is_the_least_at_which_the_bins_are_enough(one, other):
    low, high = sorted((one, other))
    exponent = least_exponent(low, high)
    assert bins_between(low, high, exponent) <= BINS
    largest = max(abs(low), abs(high))
    finest = max(LEAST_EXPONENT, frexp(largest)[1] - MANTISSA if largest else LEAST_EXPONENT)
    assert exponent >= finest
    if exponent > finest:
        assert bins_between(low, high, exponent - 1) > BINS
        assert bins_between(low, high, exponent) >= BINS // 2


@thoroughly(500)
@given(float32, float32, float32, float32)
def test_the_exponent_does_not_fall_when_the_range_grows(a, b, c, d):
    inner = Range(min(a, b), max(a, b))
    outer = inner.union(Range(min(c, d), max(c, d)))
    assert least_exponent(inner.low, inner.high) <= least_exponent(outer.low, outer.high)


@thoroughly(500)
@given(float32, st.integers(LEAST_EXPONENT, 116))
def test_the_bin_of_a_value_is_exact(value, exponent):
    assert bin_of(value, exponent) == floor(Fraction(value) / Fraction(2) ** exponent)


# Histograms


@thoroughly(300)
@given(arrays)
def test_a_histogram_counts_each_value_in_its_bin(values):
    real = np.array(values, np.float32)
    found = Histogram.of(real)
    assert found.counts.dtype == np.int64
    assert found.counts.sum() == real.size
    assert found.counts[0] and found.counts[-1]
    assert len(found.counts) <= BINS
    edges = found.edges
    for k in np.flatnonzero(found.counts):
        inside = (real.astype(float) >= edges[k]) & (real.astype(float) < edges[k + 1])
        assert inside.sum() == found.counts[k]


@thoroughly(300)
@given(arrays, st.integers(0, 20), st.integers(0, 20))
def test_coarsening_twice_is_coarsening_once(values, few, more):
    found = Histogram.of(np.array(values, np.float32))
    once = found.coarsened(found.exponent + few + more)
    assert found.coarsened(found.exponent + few).coarsened(once.exponent) == once
    assert found.coarsened(found.exponent) == found
    assert once.counts.sum() == found.counts.sum()


def test_histograms_differ_by_place_width_and_counts():
    found = Histogram.of(np.array([1, 2, 3], np.float32))
    assert found != Histogram(found.exponent, found.first + 1, found.counts)
    assert found != Histogram(found.exponent + 1, found.first, found.counts)
    assert found != Histogram(found.exponent, found.first, found.counts * 2)
    assert found != "a histogram"


# Statistics


@thoroughly(300)
@given(samples, st.randoms(use_true_random=False))
@example([[0.0], [LARGEST], [-LARGEST], [LEAST]], None)
@example([[-0.0], [0.0]], None)
@example([[4095.0], [0.0], [4096.0], [-1.0]], None)
def test_statistics_merged_in_any_order_and_grouping_are_those_of_all_values(parts, random):
    expected = united(parts)
    pile = [statistics_of(values) for values in parts]
    assert reduce(Statistics.merged, pile) == expected
    while len(pile) > 1:  # any two of them next
        if random is not None:
            random.shuffle(pile)
        pile.append(pile.pop(0).merged(pile.pop(0)))
    assert pile == [expected]


@thoroughly(200)
@given(arrays, arrays, arrays)
def test_merging_is_commutative_and_associative(a, b, c):
    one, two, three = map(statistics_of, (a, b, c))
    assert one.merged(two) == two.merged(one)
    assert one.merged(two).merged(three) == one.merged(two.merged(three))


@thoroughly(200)
@given(arrays, st.integers(1, 6), st.randoms(use_true_random=False))
def test_one_sample_may_hold_its_values_in_any_order(values, samples, random):
    assume(len(values) >= samples)
    shuffled = list(values)
    random.shuffle(shuffled)
    one, other = statistics_of(values), statistics_of(shuffled)
    assert one == other
    assert one.histogram == statistics_of(values, samples).histogram


def test_a_histogram_is_kept_only_if_both_have_one():
    one, other = statistics_of([1, 2]), statistics_of([0, 3], histogram=False)
    assert one.merged(other).histogram is None
    assert other.merged(one).histogram is None
    assert one.merged(other).count == 4


def test_sums_of_extremes_are_never_rounded():
    tiny, huge = statistics_of([LEAST]), statistics_of([LARGEST])
    merged = reduce(Statistics.merged, [huge, tiny, statistics_of([-LARGEST])])
    assert merged.low_sum == merged.high_sum == Fraction(LEAST)
