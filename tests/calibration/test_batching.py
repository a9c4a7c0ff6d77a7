"""Batches of samples: only where rows are apart and kernels add in the same order."""

import numpy as np
import pytest
from onnx import shape_inference

from calibration import Run, collect, input_specs, open_samples
from calibration.accumulator import Accumulator
from calibration.batching import (
    MOST_BYTES,
    MOST_SAMPLES,
    SHARE,
    are_alike,
    batch_size,
    is_the_same,
    joined_feed,
    signature,
)
from calibration.observed_model import ShownModel
from calibration.rowwise import is_rowwise
from calibration.samples import Samples
from calibration.tally import SLOTS
from tests.support.small_models import model, numbers

POOLED = shape_inference.infer_shapes(
    model(
        """g (float[N, 7, 8] x) => (float[N, 5] y) {
            c = MatMul (x, w)
            m = ReduceMean <axes = [1], keepdims = 0> (c)
            y = MatMul (m, v)
        }""",
        w=numbers(8, 33),
        v=numbers(33, 5),
    )
)

ONES = np.ones((1, 1, 4), np.float32)
THREE = np.ones(3, np.float32)

NOT_ROWWISE = {
    "a constant with more axes": model(
        "g (float[N, 4] x) => (float[A, B, 4] y) { y = Add (x, c) }", c=ONES
    ),
    "a single number with more axes": model(
        "g (float[N] x) => (float[A, N] y) { y = Add (x, c) }", c=ONES[:1, :1, 0]
    ),
    "a scalar and a scalar": model(
        "g (float x) => (float y) { y = Add (x, c) }", c=ONES[0, 0, 0]
    ),
    "indices of a pool": model(
        """g (float[N, 3, 4, 4] x) => (float[N, 3, 2, 2] y) {
            p, i = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
            y = Cast <to = 1> (i)
        }"""
    ),
    "a normalization by the batch": model(
        """g (float[N, 3, 4, 4] x) => (float[N, 3, 4, 4] y) {
            y = BatchNormalization <training_mode = 1> (x, s, s, s, s)
        }""",
        s=THREE,
    ),
}


@pytest.mark.parametrize("case", NOT_ROWWISE)
def test_models_whose_rows_meet_or_move_are_not_rowwise(case):
    assert not is_rowwise(shape_inference.infer_shapes(NOT_ROWWISE[case]))


def test_tensors_of_unknown_rank_are_not_paired():
    text = """g (float[N, 3, 3] x, float[N, 3] z) => (float[A, B, C] y) {
        a = Relu (x)
        b = Relu (z)
        y = Add (a, b)
    }"""
    assert not is_rowwise(model(text))


def test_first_samples_of_zeros_do_not_make_a_batch_look_harmless():
    assert is_rowwise(POOLED)
    real, zero = numbers(800, 1, 7, 8), np.zeros((70, 1, 7, 8), np.float32)
    found = [
        collect(
            POOLED,
            ["x", "c", "m", "y"],
            open_samples(list(np.concatenate(parts)), input_specs(POOLED)),
            Run(histograms=True),
        ).tensors
        for parts in ((zero, real), (real, zero))
    ]
    assert found[0] == found[1]


# How many at once


def feeds_of(count, *shape, dtype=np.float32):
    return [{"x": numbers(*shape, seed=k).astype(dtype)} for k in range(count)]


def test_a_batch_is_no_larger_than_each_of_its_limits():
    assert MOST_SAMPLES == SLOTS == 64
    assert batch_size(1, 1 << 40) == batch_size(0, 1 << 40) == MOST_SAMPLES
    assert batch_size(MOST_BYTES // 5, 1 << 40) == 5
    assert batch_size(MOST_BYTES // 5 + 1, 1 << 40) == 4
    assert batch_size(MOST_BYTES + 1, 1 << 40) == 0
    assert batch_size(1, 7 * SHARE) == batch_size(1, 8 * SHARE - 1) == 7
    assert batch_size(1, 2 * SHARE - 1) == 1


def test_only_single_samples_of_one_shape_are_alike():
    alike = feeds_of(4, 1, 4)
    assert are_alike(alike)
    assert are_alike(alike[:1])
    assert not are_alike(feeds_of(4, 2, 4))
    assert not are_alike(feeds_of(4))
    assert not are_alike([*alike, *feeds_of(1, 1, 5)])
    assert are_alike([{**feed, "z": np.float32([1])} for feed in alike])
    assert not are_alike([{**feed, "z": np.float32(1)} for feed in alike])


def test_feeds_are_joined_in_order():
    feeds = [{**feed, "n": np.array([[k]])} for k, feed in enumerate(feeds_of(3, 1, 2, 2))]
    found = joined_feed(feeds)
    assert signature(found) == {"x": (3, 2, 2), "n": (3, 1)}
    np.testing.assert_array_equal(found["n"], [[0], [1], [2]])
    np.testing.assert_array_equal(found["x"][1:2], feeds[1]["x"])


# Whether the bits are the same


def same(made, tensors, feeds):
    with ShownModel(made, tensors) as shown:
        return is_the_same(shown, feeds)


APART = model(
    "g (float[N, 4] x) => (float[N, 4] y) { a = Exp (x) y = Neg (a) }",
)
MEETING = model(
    """g (float[N, 4] x) => (float[N, 4] y) {
        a = Relu (x)
        m = ReduceMax <axes = [0], keepdims = 1> (x)
        y = Sub (x, m)
    }"""
)


def test_rows_that_are_apart_give_the_same_bits():
    for count in (1, 2, 64):
        assert same(APART, ["a", "y"], feeds_of(count, 1, 4))
    assert same(APART, [], feeds_of(3, 1, 4))


@pytest.mark.parametrize("tensors", [["a", "y"], ["y", "a"], ["a", "m"], ["y"]])
def test_one_tensor_whose_bits_differ_is_enough(tensors):
    assert not same(MEETING, tensors, feeds_of(3, 1, 4))
    assert same(MEETING, ["a"], feeds_of(3, 1, 4))


@pytest.mark.parametrize("value", [0, 1, -3, 1e30, 1e-30, np.nan, np.inf])
def test_feeds_that_are_all_alike_do_not_hide_what_meets(value):
    feeds = [{"x": np.full((1, 4), value, np.float32)}] * 3
    assert not same(MEETING, ["y"], feeds)
    assert same(APART, ["a", "y"], feeds)
    half = [{"x": np.float16([[value] * 4])}] * 3 if abs(value) < 1e4 else []
    made = model("g (float16[N, 4] x) => (float[N, 4] y) { y = Cast <to = 1> (x) }")
    assert not half or same(made, ["y"], half)


def test_numbers_stay_near_those_of_the_samples():
    made = model(
        """g (float[N, 4] x) => (float[N, 4] y) {
            a = Sub (x, hundred)
            b = Relu (a)
            m = ReduceMax <axes = [0], keepdims = 1> (b)
            y = Sub (b, m)
        }""",
        hundred=np.float32([100]),
    )
    assert not same(made, ["y"], [{"x": np.full((1, 4), 400, np.float32)}] * 3)


def test_whole_numbers_that_are_all_alike_do_not_hide_what_meets():
    made = model(
        """g (int64[N, 4] x) => (float[N, 4] y) {
            m = ReduceMax <axes = [0], keepdims = 1> (x)
            d = Sub (x, m)
            y = Cast <to = 1> (d)
        }"""
    )
    assert not same(made, ["y"], [{"x": np.zeros((1, 4), np.int64)}] * 3)


def test_signs_of_zeros_are_bits_too():
    made = model(
        """g (float[N, 1] x) => (float[N, 1] y) {
            s = Shape (x)
            n = Gather (s, first)
            f = Cast <to = 1> (n)
            d = Sub (two, f)
            y = Mul (x, d)
            z = Mul (y, nothing)
        }""",
        first=np.array([0], np.int64),
        two=np.float32([2.5]),
        nothing=np.float32([0]),
    )
    assert not same(made, ["z"], feeds_of(3, 1, 1))


def test_numbers_are_never_moved_out_of_their_type():
    feeds = [{"x": np.full((1, 4), 6e4, np.float16)}] * 3
    made = model("g (float16[N, 4] x) => (float[N, 4] y) { y = Cast <to = 1> (x) }")
    with np.errstate(all="raise"):
        assert same(made, ["y"], feeds)


def test_feeds_stay_as_they_are():
    feeds = feeds_of(3, 1, 4)
    before = [feed["x"].copy() for feed in feeds]
    same(APART, ["y"], feeds)
    for feed, array in zip(feeds, before, strict=True):
        np.testing.assert_array_equal(feed["x"], array)


# A run


@pytest.fixture
def batches(monkeypatch):
    """How many samples were counted at once, each time."""
    found, begin = [], Accumulator.begin

    def noted(self, batch, *held_back):
        found.append(batch)
        begin(self, batch, *held_back)

    monkeypatch.setattr(Accumulator, "begin", noted)
    return found


def run(made, tensors, data, **options):
    samples = open_samples(data, input_specs(made))
    return collect(made, tensors, samples, Run(histograms=True, workers=1, **options))


def test_small_samples_are_counted_in_batches(batches):
    found = run(APART, ["x", "a", "y"], list(numbers(330, 1, 4)))
    assert max(batches) == 10
    made = model("g (float[1, 4] x) => (float[1, 4] y) { a = Exp (x) y = Neg (a) }")
    batches.clear()
    assert run(made, ["x", "a", "y"], list(numbers(330, 1, 4))).tensors == found.tensors
    assert set(batches) == {1}


def test_samples_whose_rows_meet_are_counted_one_by_one(batches):
    run(MEETING, ["x", "a"], list(numbers(330, 1, 4)))
    assert set(batches) == {1}


@pytest.mark.parametrize("shape", [(1, 5), (3, 4), (0, 4)])
def test_where_the_first_samples_are_not_alike_all_are_counted_one_by_one(batches, shape):
    made = model("g (float[N, M] x) => (float[N, M] y) { a = Exp (x) y = Neg (a) }")
    data = [*numbers(330, 1, 4)]
    data[4] = numbers(*shape)
    found = run(made, ["x", "a", "y"], data)
    assert set(batches) == {1}
    assert found.tensors["y"].count == sum(array.size for array in data)


def test_a_batch_with_other_shapes_or_a_bad_sample_is_counted_one_by_one(batches):
    made = model("g (float[N, M] x) => (float[N, M] y) { a = Exp (x) y = Neg (a) }")
    data = [*numbers(330, 1, 4)]
    data[100], data[111] = numbers(1, 5), np.full((1, 4), 1e3, np.float32)
    found = run(made, ["x", "a", "y"], data, skip_bad=True)
    assert {10, 1} <= set(batches)
    assert set(found.skipped) == {"data[111]"}
    assert found.tensors["y"].samples == 329
    assert found.tensors["y"].count == 329 * 4 + 1
    one = model("g (float[1, M] x) => (float[1, M] y) { a = Exp (x) y = Neg (a) }")
    assert run(one, ["x", "a", "y"], data, skip_bad=True).tensors == found.tensors


@pytest.mark.parametrize("bad", [np.full((1, 4), 1e3, np.float32), np.full((1, 4), np.nan)])
def test_a_bad_first_sample_is_reported_by_its_name(bad):
    data = [bad.astype(np.float32), *numbers(330, 1, 4)]
    found = run(APART, ["x", "a", "y"], data, skip_bad=True)
    assert set(found.skipped) == {"data[0]"}
    assert found.tensors == run(APART, ["x", "a", "y"], data[1:]).tensors


@pytest.mark.parametrize("tensors", [["y"], ["x", "m"], ["m"]])
def test_no_more_large_samples_are_read_at_once_than_a_batch_holds(tensors, monkeypatch):
    wide = model(
        """g (float[N, 4, SIZE] x) => (float[N, 4, 1] m) {
            y = Relu (x)
            m = ReduceMean <axes = [2]> (y)
        }"""
    )
    data = [np.zeros((1, 4, MOST_BYTES // 32), np.float32)] * 640  # half of a batch each
    read, begin, taken, between = Samples.read, Accumulator.begin, [], []

    def noted(self, position):
        taken.append(position)
        return read(self, position)

    def begun(self, batch, *held_back):
        between.append(len(taken))
        taken.clear()
        begin(self, batch, *held_back)

    monkeypatch.setattr(Samples, "read", noted)
    monkeypatch.setattr(Accumulator, "begin", begun)
    run(wide, tensors, data)
    assert sum(between) >= 640
    assert max(between) <= 3
