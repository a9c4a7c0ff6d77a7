"""The accumulator against a slow reference: exact fractions of all the raw values."""

from collections import Counter
from fractions import Fraction
from itertools import pairwise
from math import frexp

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from calibration import tally
from calibration.accumulator import Accumulator, Sums
from calibration.counting import NumpyCounter, Values, fastest_counter
from calibration.histogram import BINS, LEAST_EXPONENT, Histogram
from calibration.statistics import Statistics
from calibration.tally import SLOTS
from tests.support.statistics_of import statistics_of
from tests.support.thoroughness import thoroughly

# hypothesis has one of its own on Python 3.14
pytestmark = pytest.mark.filterwarnings(
    "error", "default::hypothesis.errors.HypothesisWarning"
)

LEAST = 2.0**-149
LARGEST = float(np.finfo(np.float32).max)
NAMES = ["a", "b", "c", "twice", "all"]
JOINED = {"twice": ["a", "a"], "all": ["b", "a", "c"]}
some_names = st.sets(st.sampled_from(NAMES))
COUNTED = ["a", "b", "c"]

every_counter = pytest.mark.parametrize(
    "counter", [NumpyCounter(), fastest_counter()], ids=["numpy", "fastest"]
)
float32 = st.floats(width=32, allow_nan=False, allow_infinity=False) | st.sampled_from(
    [0.0, -0.0, LEAST, -LEAST, 2.0**-126, LARGEST, -LARGEST, 1.0, -1.0, 4095.0, 4096.0]
)
near = st.floats(-8, 8, width=32) | st.integers(-9000, 9000).map(float)
tensors = st.lists(float32, max_size=6) | st.lists(near, max_size=12)
samples = st.fixed_dictionaries(dict.fromkeys(COUNTED, tensors))
full = st.sampled_from([1, 2, 5, 9, 30])


def exact_histogram(values, low, high):
    """Counted one by one, the width of the bins found by trying."""
    largest = max(abs(low), abs(high))
    finest = frexp(largest)[1] - 24 if largest else LEAST_EXPONENT
    exponent = max(LEAST_EXPONENT, finest)
    while bin_at(high, exponent) - bin_at(low, exponent) >= BINS:
        exponent += 1
    found = Counter(bin_at(value, exponent) for value in values)
    first, last = min(found), max(found)
    counts = np.zeros(last - first + 1, np.int64)
    for place, count in found.items():
        counts[place - first] = count
    return Histogram(exponent, first, counts)


def bin_at(value, exponent):
    """floor(value / 2**exponent), of whole numbers."""
    numerator, denominator = value.as_integer_ratio()
    return (numerator << max(-exponent, 0)) // (denominator << max(exponent, 0))


def reference(per_sample, histogram=True):
    """The statistics of a tensor from the lists of its values in each sample."""
    held = [values for values in per_sample if values]
    values = [value for sample in held for value in sample]
    if not values:
        return None
    low, high = min(values), max(values)
    return Statistics(
        low,
        high,
        len(values),
        values.count(0.0) if histogram else 0,
        len(held),
        sum((Fraction(min(sample)) for sample in held), Fraction(0)),
        sum((Fraction(max(sample)) for sample in held), Fraction(0)),
        exact_histogram(values, low, high) if histogram else None,
    )


PARTS = {name: JOINED.get(name, [name]) for name in NAMES}


def references(data, histograms=NAMES):
    """Of all NAMES, those apart that held nothing; ``histograms`` of these and their parts."""
    counted = {part for name in histograms for part in PARTS[name]}
    found = {
        name: reference(
            [[x for part in PARTS[name] for x in sample[part]] for sample in data],
            counted.issuperset(PARTS[name]),
        )
        for name in NAMES
    }
    return {name: statistics for name, statistics in found.items() if statistics}


def values_of(real):
    return Values.of(np.array(real, np.float32))


def take(into, sample, groups=(COUNTED,)):
    """A sample, its tensors in ``groups``."""
    for group in groups:
        into.take(group, [values_of(sample[name]) for name in group])
    into.end_sample()


def accumulator(counter, histograms=NAMES):
    return Accumulator(NAMES, JOINED, counter, histograms)


# Values


@every_counter
@thoroughly(150)
@given(st.lists(samples, max_size=6), some_names)
def test_statistics_are_those_of_the_raw_values(counter, data, histograms):
    total = accumulator(counter, histograms)
    for sample in data:
        take(total, sample)
    assert total.statistics() == references(data, histograms)


@every_counter
@thoroughly(150)
@given(st.lists(st.tuples(samples, st.booleans(), st.booleans()), max_size=7), some_names)
def test_samples_beside_count_once_absorbed_and_dropped_ones_never(counter, steps, histograms):
    total, kept = accumulator(counter, histograms), []
    for sample, beside, dropped in steps:
        into = total.beside() if beside else total
        take(into, sample)
        if into is not total and not dropped:
            total.absorb(into)
        if into is total or not dropped:
            kept.append(sample)
    assert total.statistics() == references(kept, histograms)


@every_counter
@thoroughly(150)
@given(st.lists(st.lists(samples, max_size=4), max_size=4))
@example(
    [
        [{"a": [0.0, 4000.0], "b": [], "c": []}],
        [{"a": [4040.0], "b": [], "c": []}, {"a": [4060.0], "b": [], "c": []}],
    ]
)
def test_several_samples_may_be_taken_beside_before_they_are_absorbed(counter, groups):
    total = accumulator(counter)
    for group in groups:
        into = total.beside()
        for sample in group:
            take(into, sample)
        total.absorb(into)
    assert total.statistics() == references([sample for group in groups for sample in group])


@every_counter
@thoroughly(150)
@given(
    st.lists(
        st.lists(st.tuples(samples, st.integers(0, 2), st.booleans()), max_size=5), max_size=4
    )
)
def test_accumulators_of_several_workers_may_be_put_together_now_and_then(counter, rounds):
    totals = [accumulator(counter) for _ in range(3)]
    kept = []
    for steps in rounds:
        for sample, worker, beside in steps:
            into = totals[worker].beside() if beside else totals[worker]
            take(into, sample)
            if beside:
                totals[worker].absorb(into)
            kept.append(sample)
        for other in (1, 2):
            totals[0].absorb(totals[other])
            totals[other] = totals[0].beside()
        assert totals[0].statistics() == references(kept)


@thoroughly(60)
@given(samples, samples, st.permutations(COUNTED), st.integers(0, 3), st.integers(0, 3))
def test_tensors_of_a_sample_may_come_in_any_groups(one, other, order, i, j):
    cuts = [0, *sorted((i, j)), 3]
    groups = [order[a:b] for a, b in pairwise(cuts) if a < b]
    total = accumulator(fastest_counter())
    for sample in (one, other):
        take(total, sample, groups)
    assert total.statistics() == references([one, other])


@every_counter
@pytest.mark.parametrize("size", [1, 31, 2047, 2048, 2049, 20000])
def test_large_tensors_are_counted_like_small_ones(counter, size):
    random = np.random.default_rng(size)
    total = accumulator(counter)
    seen = {name: [] for name in COUNTED}
    for scale in (1, 1e-3, 40, 0, 1e-40, 7e4):
        real = (random.standard_normal((len(COUNTED), size)) * scale).astype(np.float32)
        sample = dict(zip(COUNTED, real, strict=True))
        take(total, sample)
        for name in COUNTED:
            seen[name].append(sample[name])
    found = total.statistics()
    for name, parts in {n: JOINED.get(n, [n]) for n in NAMES}.items():
        real = np.concatenate([array for part in parts for array in seen[part]])
        assert found[name].histogram == Histogram.of(real)
        assert found[name].count == real.size
        assert found[name].zeros == (real == 0).sum()


# Samples in batches, many of them, many values


@st.composite
def batches(draw):
    """Samples of one shape: each tensor has as many values in all of them."""
    count = draw(st.sampled_from([1, 1, 2, 3, 7, 40, SLOTS - 1, SLOTS]))
    sizes = {name: draw(st.integers(0, 3)) for name in COUNTED}
    palette = draw(st.lists(float32 | near, min_size=1, max_size=8))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    return [
        {name: random.choice(palette, size).tolist() for name, size in sizes.items()}
        for _ in range(count)
    ]


def take_batch(into, group):
    """Samples of one shape at once."""
    into.begin(len(group))
    for name in COUNTED:
        into.take([name], [values_of([x for sample in group for x in sample[name]])])
    into.end_sample()


@every_counter
@thoroughly(40)
@given(st.lists(st.tuples(batches(), st.booleans()), max_size=8), some_names)
@example([([{"a": [k], "b": [], "c": [-k]}], False) for k in range(SLOTS + 3)], {*NAMES})
@example([([{"a": [k], "b": [], "c": [-k]}], False) for k in range(SLOTS + 3)], {"twice"})
def test_samples_may_come_in_batches_of_any_sizes(counter, groups, histograms):
    total = accumulator(counter, histograms)
    for group, beside in groups:
        into = total.beside() if beside else total
        take_batch(into, group)
        if beside:
            total.absorb(into)
    data = [sample for group, _ in groups for sample in group]
    assert total.statistics() == references(data, histograms)


@every_counter
@thoroughly(60)
@given(st.lists(st.tuples(samples, st.booleans(), st.booleans()), max_size=9), full)
@example([({"a": [1.0, 2.0], "b": [3.0], "c": []}, False, True)] * 3, 3)
def test_joined_tensors_are_found_however_often_counts_are_emptied(counter, steps, full):
    total, kept = accumulator(counter), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tally, "FULL", full)
        for sample, beside, look in steps:
            into = total.beside() if beside else total
            take(into, sample)
            if beside:
                total.absorb(into)
            kept.append(sample)
            if look:
                assert total.statistics() == references(kept)
        assert total.statistics() == references(kept)


@every_counter
@pytest.mark.parametrize("counts", [1, 5, 2000])
def test_many_samples_of_large_tensors_whose_counts_are_emptied(counter, counts, monkeypatch):
    monkeypatch.setattr(tally, "FULL", counts)
    random = np.random.default_rng(7)
    data = random.standard_normal((2 * SLOTS + 5, 700)).astype(np.float32) ** 5
    total = accumulator(counter)
    for one in data:
        total.take(["b", "a"], [Values.of(one), Values.of(one[:1])])
        total.end_sample()
        assert total.tally.counts.sum(1, dtype=np.int64).max() < counts
    found = total.statistics()
    assert found["b"] == statistics_of(data, samples=len(data))
    assert found["twice"].histogram.counts.sum() == found["twice"].count == 2 * len(data)
    assert found["all"].histogram == Histogram.of(np.append(data, data[:, 0]))


def test_nothing_is_kept_for_what_is_not_counted():
    assert len(accumulator(NumpyCounter(), ()).tally.counts) == 0
    assert len(accumulator(NumpyCounter(), {"twice"}).tally.counts) == 1
    assert len(accumulator(NumpyCounter(), {"all"}).tally.counts) == 3


# Windows


MOVES = {
    "down": [[5000.0, 5001.0], [3000.0], [-100.0]],
    "up": [[0.0, 1.0], [1.5], [7.0], [100.0]],
    "to both sides": [[0.0], [-1.0, 1.0], [-2.0, 2.0], [-4096.0, 4095.0]],
    "coarser by one": [[0.0, 4095.0], [4096.0], [-1.0], [8191.0], [8192.0]],
    "coarser by many": [[LEAST, -LEAST], [1.0], [LARGEST], [-LARGEST]],
    "away from zero": [[1000.0, 1000.25], [1001.0], [999.0], [0.0]],
    "from zeros alone": [[0.0, -0.0], [0.0], [2.0**-140], [2.0**-100]],
    "to exponent and first bin 0": [[0.0, 4095.0], [1.0], [0.0, 4095.0], [5000.0]],
    "over a power of two": [[1 - 2.0**-14], [1 + 2.0**-14], [1.0]],
    "upper edge": [[0.0, 4095.0], [np.nextafter(np.float32(4096), np.float32(0)).item()]],
}


@every_counter
@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("moves", MOVES)
def test_a_window_moves_and_coarsens(counter, moves, beside):
    data = [{"a": values, "b": values[:1], "c": []} for values in MOVES[moves]]
    for order in (data, data[::-1]):
        total = accumulator(counter)
        for done, sample in enumerate(order, 1):
            into = total.beside() if beside else total
            take(into, sample)
            if beside:
                total.absorb(into)
            assert total.statistics() == references(order[:done])


@pytest.mark.parametrize("waiting", [False, True])
@pytest.mark.parametrize("at", [2048, 4000])
def test_what_is_in_wide_bins_of_a_total_stays_there_until_it_is_absorbed(at, waiting):
    below, above = [129000.0] * at, [129600.0] * (4096 - at)
    first = {"a": [0.0, 128000.0], "b": [], "c": []}
    samples = [{"a": below + above, "b": [], "c": []}, {"a": [7.0], "b": [], "c": []}]
    total = accumulator(fastest_counter())
    take(total, first)
    worker = total.beside()
    for sample in samples:
        into = worker.beside()
        take(into, sample)
        worker.absorb(into)
        if not waiting:
            total.absorb(worker)
            worker = total.beside()
    total.absorb(worker)
    assert total.statistics() == references([first, *samples])


@every_counter
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_named_and_the_rest_stays_as_it_was(counter, bad):
    good = {"a": [1.0, 2.0], "b": [0.0], "c": [-1.0]}
    total = accumulator(counter)
    take(total, good)
    for sizes in (1, 3000):
        into = total.beside()
        with pytest.raises(FloatingPointError, match=r"^b$"):
            take(into, {"a": [1e9] * sizes, "b": [1.0] * sizes + [bad], "c": [bad]})
    assert total.statistics() == references([good])


# Empty tensors and sums


@every_counter
def test_a_tensor_that_is_empty_in_a_sample_does_not_count_there(counter):
    data = [
        {"a": [], "b": [1.0], "c": []},
        {"a": [2.0], "b": [], "c": []},
        {"a": [], "b": [], "c": []},
    ]
    total = accumulator(counter)
    for sample in data:
        take(total, sample)
    found = total.statistics()
    assert found == references(data)
    assert "c" not in found
    assert found["all"].samples == 2
    assert found["twice"].count == 2
    assert accumulator(counter).statistics() == {}


@thoroughly(300)
@given(st.lists(st.lists(float32, min_size=3, max_size=3), max_size=30), st.integers(0, 30))
@example([[LARGEST, LEAST, -LARGEST]] * 30, 7)
def test_sums_are_exact_however_they_are_split(rows, cut):
    one, other = Sums(3), Sums(3)
    for values in rows[:cut]:
        one.add(np.array(values, np.float32))
    for values in rows[cut:]:
        other.add(np.array(values, np.float32))
    one.absorb(other)
    for k in range(3):
        assert one.of(k) == sum((Fraction(values[k]) for values in rows), Fraction(0))
