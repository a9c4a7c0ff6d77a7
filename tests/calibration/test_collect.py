"""Collecting: the same for any workers, order and split; what is bad is left out."""

import sys
import threading
from collections import Counter
from dataclasses import replace
from functools import cache, reduce
from itertools import pairwise
from time import sleep

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration import Run, collect, input_specs, open_samples
from calibration.accumulator import Accumulator
from calibration.collect import NOTHING, Collected, collect_part, outside
from calibration.counting import NumpyCounter, fastest_counter
from calibration.statistics import Statistics
from opsets.errors import DataError, ModelError
from tests.support.feeds import FREE_BATCH
from tests.support.small_models import cnn, model, numbers, pictures, save
from tests.support.statistics_of import statistics_of
from tests.support.thoroughness import thoroughly

MODULE = sys.modules["calibration.collect"]
CNN = cnn()
TENSORS = ["x", "a", "r", "p", "g", "f", "y"]
WORKERS = [1, 2, 5]
ALL = Run(histograms=True)

GROWING = model(
    """g (float[N, 4] x) => (float[N, 4] y) {
        a = Exp (x)
        b = Sub (a, one)
        twice = Concat <axis = 0> (a, a)
        y = Reshape (b, four)
    }""",
    one=np.float32(1),
    four=np.array([-1, 4], np.int64),
)
GROWN = ["x", "a", "b", "twice", "y"]

randoms = st.randoms(use_true_random=False)
every_workers = pytest.mark.parametrize("workers", WORKERS)
every_histograms = pytest.mark.parametrize("histograms", [True, False])


def samples_of(count=13, seed=1):
    """Pictures of the same size but of very different ranges."""
    random = np.random.default_rng(seed)
    scales = np.exp2(random.integers(-9, 9, (count, 1, 1, 1))).astype(np.float32)
    return open_samples(pictures(count) * scales, input_specs(CNN))


def as_plain(found):
    """Everything in it, to be compared."""
    return found.tensors, [*map(tuple, found.done)], dict(found.skipped)


# Workers, order, split


@every_histograms
def test_any_number_of_workers_finds_the_same(histograms):
    run = Run(histograms=histograms)
    found = [
        as_plain(collect(CNN, TENSORS, samples_of(), replace(run, workers=workers)))
        for workers in (*WORKERS, 40)
    ]
    assert found == found[:1] * 4
    assert (found[0][0]["x"].histogram is not None) == histograms


@every_workers
@pytest.mark.parametrize("skip_bad", [True, False])
@pytest.mark.parametrize("wanted", [{"a"}, {"y", "x"}, {"twice"}, {"b", "unknown"}])
def test_histograms_of_some_tensors_are_those_of_all(workers, skip_bad, wanted):
    samples = open_samples(list(numbers(9, 1, 4)), input_specs(GROWING))
    both = [frozenset(wanted), True]
    some, whole = (
        collect(GROWING, GROWN, samples, Run(each, skip_bad, workers)).tensors for each in both
    )
    parts = {"twice": {"a"}, "y": {"b"}}
    counted = {part for name in wanted for part in parts.get(name, {name})}
    for name, found in some.items():
        known = counted >= parts.get(name, {name})
        bare = replace(whole[name], histogram=None, zeros=0)
        assert found == (whole[name] if known else bare)


def test_a_run_of_some_histograms_goes_on_from_a_part():
    samples, run = samples_of(), Run(frozenset({"a"}))
    start = collect_part(CNN, TENSORS, samples.between(0, 5), run)
    found = collect(CNN, TENSORS, samples, run, start)
    assert found.tensors == collect(CNN, TENSORS, samples, run).tensors
    assert [n for n, each in found.tensors.items() if each.histogram] == ["a"]


@pytest.mark.parametrize("repeat", range(3))
@every_workers
def test_what_is_found_is_what_the_raw_values_give(workers, repeat):
    data = numbers(9, 1, 4, seed=repeat) * np.float32(3)
    samples = open_samples(list(data), input_specs(GROWING))
    found = collect(GROWING, GROWN, samples, replace(ALL, workers=workers)).tensors
    assert found["x"] == statistics_of(data, samples=9)
    assert found["y"] == found["b"]
    assert found["twice"].histogram.counts.sum() == 2 * found["a"].count == 72
    assert found["twice"].low_sum == found["a"].low_sum


@thoroughly(8)
@given(st.permutations(range(13)), st.sampled_from(WORKERS))
def test_any_order_of_samples_finds_the_same(order, workers):
    samples = samples_of()
    shuffled = replace(samples, chosen=order)
    found = collect(CNN, TENSORS, shuffled, replace(ALL, workers=workers))
    assert found.tensors == collect(CNN, TENSORS, samples, ALL).tensors


@thoroughly(8)
@given(st.sets(st.integers(1, 12)), randoms, st.sampled_from(WORKERS))
def test_any_split_merged_in_any_order_is_the_whole(cuts, random, workers):
    samples = samples_of()
    ends = [0, *sorted(cuts), 13]
    spans = list(pairwise(ends))
    random.shuffle(spans)
    parts = []
    for first, end in spans:
        found = collect_part(
            CNN, TENSORS, samples.between(first, end), replace(ALL, workers=workers)
        )
        parts.append(Collected(found.tensors, [(first, end)], found.skipped))
    whole = reduce(Collected.merged, parts, NOTHING)
    assert as_plain(whole) == as_plain(collect(CNN, TENSORS, samples, ALL))


@thoroughly(8)
@given(st.sets(st.integers(0, 12)), st.sampled_from(WORKERS))
def test_a_run_goes_on_from_any_gaps(chosen, workers):
    samples = samples_of()
    start = NOTHING
    for at in chosen:
        one = collect_part(CNN, TENSORS, samples.between(at, at + 1), ALL)
        start = start.merged(Collected(one.tensors, [(at, at + 1)]))
    steps = []
    run = replace(ALL, workers=workers, progress=lambda: steps.append(1))
    found = collect(CNN, TENSORS, samples, run, start)
    assert as_plain(found) == as_plain(collect(CNN, TENSORS, samples, ALL))
    assert len(steps) == 13 - len(chosen)


@thoroughly(200)
@given(st.sets(st.integers(0, 30)), st.integers(31, 40))
def test_what_is_outside_of_spans_is_the_rest(done, count):
    spans = [(at, at + 1) for at in done]
    left = {at for first, end in outside(spans, count) for at in range(first, end)}
    assert left == set(range(count)) - done
    merged = NOTHING.merged(Collected({}, spans))
    assert outside(merged.done, count) == outside(spans, count)
    assert all(a[1] < b[0] for a, b in pairwise(merged.done))


@cache
def each_by_itself(dark):
    """200 samples, the first ``dark`` of zeros, and what is found of each, put together."""
    data = numbers(200, 1, 8, 8)
    data[:dark] = 0
    samples = open_samples(data[:, None], input_specs(CNN))
    parts = [collect_part(CNN, TENSORS, samples.between(k, k + 1), ALL) for k in range(200)]
    return samples, reduce(Statistics.merged, [part.tensors["y"] for part in parts])


@pytest.mark.thinned
@every_workers
@pytest.mark.parametrize("dark", [0, 40])
def test_many_samples_in_any_order_find_the_same_as_each_by_itself(workers, dark):
    samples, whole = each_by_itself(dark)
    for order in (range(200), range(199, -1, -1)):
        shuffled = replace(samples, chosen=order)
        found = collect(CNN, TENSORS, shuffled, replace(ALL, workers=workers))
        assert found.tensors["y"] == whole


@every_workers
def test_samples_are_never_mixed_though_the_first_ones_are_alike(workers):
    made = model(
        """g (float[N, 4] x) => (float[] y) {
            m = ReduceMax <keepdims = 1> (x, zero)
            y = Sub (x, m)
        }""",
        opset=18,
        zero=np.array([0], np.int64),
    )
    data = numbers(200, 1, 4)
    data[:80] = 1
    samples = open_samples(data, input_specs(made))
    found = collect(made, ["x", "y"], samples, replace(ALL, workers=workers)).tensors
    assert (found["y"].low, found["y"].high) == (0, 0)


@every_workers
def test_counting_by_numpy_finds_the_same(workers, monkeypatch):
    run = replace(ALL, workers=workers)
    expected = as_plain(collect(CNN, TENSORS, samples_of(), run))
    monkeypatch.setattr(MODULE, "fastest_counter", NumpyCounter)
    assert as_plain(collect(CNN, TENSORS, samples_of(), run)) == expected


@every_workers
def test_saving_all_the_time_changes_nothing(workers, monkeypatch):
    samples = samples_of(40)
    expected = as_plain(collect(CNN, TENSORS, samples, ALL))
    monkeypatch.setattr(MODULE, "CHECKPOINT_SECONDS", 2e-3)
    saved = []
    for skip_bad in (False, True):
        run = Run(True, skip_bad, workers, lambda: sleep(0.001), saved.append)
        assert as_plain(collect(CNN, TENSORS, samples, run)) == expected
    assert saved
    for each in saved:
        counted = sum(end - first for first, end in each.done)
        assert all(seen.samples == counted for seen in each.tensors.values())


# Bad samples


BAD = {
    "unreadable": lambda path: path.write_bytes(b"no array"),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-4]),
    "wrong shape": lambda path: np.save(path, numbers(1, 1, 8, 7)),
    "NaN": lambda path: np.save(path, pictures(1) * np.float32(np.nan)),
    "overflow": lambda path: np.save(path, np.full((1, 1, 8, 8), 3e38, np.float32)),
    "gone": lambda path: path.unlink(),
}


def folder_with_bad(folder, bad, count=12):
    """A folder of samples; ``bad`` gives kinds of BAD by position."""
    for at in range(count):
        save(folder, f"{at}.npy", pictures(1, seed=at) * np.float32(2.0 ** (at % 5)))
    samples = open_samples(folder, input_specs(CNN))
    for at, kind in bad.items():
        BAD[kind](folder / f"{at}.npy")
    return samples


@pytest.mark.thinned
@every_workers
@every_histograms
@pytest.mark.parametrize("where", [range(6), range(3, 9), [11, 0, 4, 5, 10, 2]])
def test_skipping_bad_samples_is_a_run_without_them(tmp_path, workers, histograms, where):
    bad = dict(zip(where, BAD, strict=True))
    samples = folder_with_bad(tmp_path, bad)
    run = Run(histograms, skip_bad=True, workers=workers)
    found = collect(CNN, TENSORS, samples, run)
    good = samples.without({f"{at}.npy" for at in bad})
    expected = collect(CNN, TENSORS, good, Run(histograms))
    assert found.tensors == expected.tensors
    assert found.samples == len(good) == 6
    assert set(found.skipped) == {f"{at}.npy" for at in bad}
    assert all(f"{name}" in why for name, why in found.skipped.items())


@every_workers
def test_skipping_without_bad_samples_changes_nothing(workers):
    run = replace(ALL, skip_bad=True, workers=workers)
    found = collect(CNN, TENSORS, samples_of(), run)
    assert as_plain(found) == as_plain(collect(CNN, TENSORS, samples_of(), ALL))


@pytest.mark.thinned
@every_workers
@pytest.mark.parametrize("first", BAD)
def test_without_skipping_the_first_bad_sample_by_position_is_the_error(
    tmp_path, workers, first
):
    others = [kind for kind in BAD if kind != first]
    bad = {3: first, **dict(zip(range(4, 9), others, strict=True))}
    samples = folder_with_bad(tmp_path, bad)
    run = replace(ALL, workers=workers)
    for _ in range(5):
        with pytest.raises(DataError, match=r"\b3\.npy"):
            collect(CNN, TENSORS, samples, run)


@every_workers
def test_a_sample_whose_activations_overflow_is_named_with_the_tensor(workers):
    data = numbers(10, 1, 4)
    data[[2, 6]] = 100
    samples = open_samples(list(data), input_specs(GROWING))
    with pytest.raises(DataError, match=r"^data\[2\]: tensor 'a' holds NaN or infinite"):
        collect(GROWING, GROWN, samples, replace(ALL, workers=workers))
    found = collect(GROWING, GROWN, samples, replace(ALL, workers=workers, skip_bad=True))
    assert set(found.skipped) == {"data[2]", "data[6]"}
    assert found.tensors["x"] == statistics_of(np.delete(data, [2, 6], 0), samples=8)


@every_workers
def test_what_onnxruntime_refuses_at_run_time_is_a_bad_sample(workers):
    made = model(
        "g (float[N, M] x) => (float[] y) { a = Relu (x) y = MatMul (a, w) }", w=numbers(4, 2)
    )
    feeds = [numbers(2, 4, seed=i) if i % 3 else numbers(2, 5) for i in range(9)]
    samples = open_samples(feeds, input_specs(made))
    with pytest.raises(ModelError, match=r"data\[0\]"):
        collect(made, ["a", "y"], samples, replace(ALL, workers=workers))
    run = replace(ALL, workers=workers, skip_bad=True)
    found = collect(made, ["x", "a", "y"], samples, run)
    assert set(found.skipped) == {"data[0]", "data[3]", "data[6]"}
    good = open_samples([f for i, f in enumerate(feeds) if i % 3], input_specs(made))
    assert found.tensors == collect(made, ["x", "a", "y"], good, ALL).tensors


@every_workers
def test_if_all_samples_are_bad_the_error_says_so(tmp_path, workers):
    samples = folder_with_bad(tmp_path, dict.fromkeys(range(12), "NaN"))
    run = replace(ALL, skip_bad=True, workers=workers)
    with pytest.raises(DataError, match=r"none of 12 samples could be used: .*NaN"):
        collect(CNN, TENSORS, samples, run)


def test_a_run_may_have_skipped_samples_in_the_part_before(tmp_path):
    samples = folder_with_bad(tmp_path, {1: "NaN", 7: "overflow"})
    run = replace(ALL, skip_bad=True)
    begun = collect_part(CNN, TENSORS, samples.between(0, 5), run)
    found = collect(CNN, TENSORS, samples, run, begun)
    assert as_plain(found) == as_plain(collect(CNN, TENSORS, samples, run))
    assert found.samples == 10


# Exceptions from outside


@every_workers
@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_an_exception_of_the_progress_callback_ends_the_run_and_what_was_found_is_saved(
    workers, error
):
    samples, saved, steps = samples_of(), [], []

    def progress():
        steps.append(1)
        if len(steps) == 6:
            raise error

    run = replace(ALL, workers=workers, progress=progress, save=saved.append)
    with pytest.raises(error):
        collect(CNN, TENSORS, samples, run)
    assert len(saved) == 1
    assert 6 <= saved[0].samples <= len(samples)
    assert saved[0].tensors["x"].samples == saved[0].samples
    found = collect(CNN, TENSORS, samples, ALL, saved[0])
    assert as_plain(found) == as_plain(collect(CNN, TENSORS, samples, ALL))


@every_workers
def test_an_exception_while_saving_ends_the_run(workers, monkeypatch):
    monkeypatch.setattr(MODULE, "CHECKPOINT_SECONDS", 2e-3)

    def full(found):
        raise OSError("no space left on device")

    before = threading.active_count()
    with pytest.raises(OSError, match="no space left"):
        run = replace(ALL, workers=workers, progress=lambda: sleep(0.001), save=full)
        collect(CNN, TENSORS, samples_of(60), run)
    assert threading.active_count() == before


@every_workers
@pytest.mark.parametrize("counter", [NumpyCounter, fastest_counter])
@pytest.mark.parametrize("count", [13, 100])
def test_nothing_is_saved_after_a_sample_that_was_counted_in_part(
    workers, counter, count, monkeypatch
):
    monkeypatch.setattr(MODULE, "fastest_counter", counter)
    monkeypatch.setattr(MODULE, "CHECKPOINT_SECONDS", 60.0)
    saved, left = [], iter(range(5))

    def torn(self):
        if next(left, None) is None:
            raise MemoryError
        end_sample(self)

    end_sample = Accumulator.end_sample
    monkeypatch.setattr(Accumulator, "end_sample", torn)
    run = replace(ALL, workers=workers, save=saved.append)
    with pytest.raises(MemoryError):
        collect(CNN, TENSORS, samples_of(count), run)
    assert saved == []


@every_workers
def test_each_sample_is_read_once(tmp_path, workers, monkeypatch):
    samples = folder_with_bad(tmp_path, {4: "NaN"})
    read = Counter()
    source = type(samples.source)
    original = source.read

    def counted(self, index):
        read[index] += 1
        return original(self, index)

    monkeypatch.setattr(source, "read", counted)
    collect(CNN, TENSORS, samples, replace(ALL, workers=workers, skip_bad=True))
    assert read == Counter(range(12))


def test_workers_run_no_more_than_there_are_samples():
    one = open_samples(pictures(1), FREE_BATCH)
    found = collect(CNN, TENSORS, one, replace(ALL, workers=64))
    assert found.samples == 1
