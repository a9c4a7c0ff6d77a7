"""Samples: files in, feeds out, one at a time, in natural order; and the ranges they give."""

import numpy as np
import pytest

from calibration import InputSpec, Range, Run, collect, input_specs, open_samples
from opsets.errors import DataError
from tests.support.feeds import (
    BATCH_OF_FOUR,
    FLOAT,
    FREE_BATCH,
    ONE_PICTURE,
    TWO_INPUTS,
    assert_feeds,
    names_of,
)
from tests.support.small_models import cnn, every_tensor, model, numbers, pictures, save


def test_the_inputs_of_a_model_are_those_without_an_initializer():
    text = """g (float[N, 4] x, int64 n, float[4, 3] w) => (float[N, 3] y) {
        y = MatMul (x, w)
    }"""
    w = numbers(4, 3)
    specs = input_specs(model(text, opset=9, ir_version=3, w=w))
    assert specs == [
        InputSpec("x", FLOAT, (None, 4)),
        InputSpec("n", np.dtype(np.int64), ()),
    ]


@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_a_folder_and_a_stacked_file_give_the_same_feeds(tmp_path, kind):
    data = pictures(5)
    stacked = save(tmp_path, f"all.{kind}", data if kind == "npy" else {"x": data})
    folder = tmp_path / "each"
    folder.mkdir()
    for i, picture in enumerate(data):
        one = picture[None]
        save(folder, f"{i}.{kind}", one if kind == "npy" else {"x": one})
    expected = [{"x": picture[None]} for picture in data]
    assert_feeds(open_samples(stacked, FREE_BATCH), expected)
    assert_feeds(open_samples(folder, FREE_BATCH), expected)


def test_files_come_in_natural_order(tmp_path):
    ordered = ["1.npy", "2.npy", "10.npy", "a1b2.npy", "a1b10.npy", "a2b1.npy", "b.npy"]
    for name in sorted(ordered):
        save(tmp_path, name, pictures(1))
    assert names_of(open_samples(tmp_path, ONE_PICTURE)) == ordered


def test_a_folder_may_mix_npy_and_npz_and_hold_other_files(tmp_path):
    data = pictures(3)
    save(tmp_path, "0.npz", {"x": data[:1]})
    save(tmp_path, "1.npy", data[1:2])
    save(tmp_path, "2.npz", {"x": data[2:]})
    (tmp_path / "labels.txt").write_text("0 1 2")
    samples = open_samples(tmp_path, ONE_PICTURE)
    assert names_of(samples) == ["0.npz", "1.npy", "2.npz"]
    assert_feeds(samples, [{"x": data[i : i + 1]} for i in range(3)])


def test_npz_serves_several_inputs(tmp_path):
    a, b = numbers(6, 3), numbers(6, 2)
    stacked = save(tmp_path, "all.npz", {"b": b, "a": a})
    expected = [{"a": a[i : i + 1], "b": b[i : i + 1]} for i in range(6)]
    assert_feeds(open_samples(stacked, TWO_INPUTS), expected)
    folder = tmp_path / "each"
    folder.mkdir()
    for i, feed in enumerate(expected):
        save(folder, f"{i}.npz", feed)
    assert_feeds(open_samples(folder, TWO_INPUTS), expected)


def test_npy_does_not_serve_several_inputs(tmp_path):
    path = save(tmp_path, "all.npy", numbers(6, 3))
    with pytest.raises(DataError, match=r"all\.npy.*2 inputs \('a', 'b'\).*\.npz"):
        open_samples(path, TWO_INPUTS)


def test_inputs_with_different_numbers_of_samples_are_refused(tmp_path):
    path = save(tmp_path, "all.npz", {"a": numbers(6, 3), "b": numbers(5, 2)})
    with pytest.raises(DataError, match=r"all\.npz.*'a' 6, 'b' 5"):
        open_samples(path, TWO_INPUTS)


@pytest.mark.parametrize(
    ("specs", "batch"), [(FREE_BATCH, 1), (ONE_PICTURE, 1), (BATCH_OF_FOUR, 4)]
)
def test_stacked_samples_are_split_into_batches_of_the_models_size(tmp_path, specs, batch):
    data = pictures(8)
    expected = [{"x": data[i : i + batch]} for i in range(0, 8, batch)]
    assert_feeds(open_samples(save(tmp_path, "all.npy", data), specs), expected)
    whole = data.reshape(-1, batch, 1, 8, 8)
    assert_feeds(open_samples(save(tmp_path, "whole.npy", whole), specs), expected)


def test_a_number_of_rows_that_does_not_fill_the_batches_is_refused(tmp_path):
    path = save(tmp_path, "all.npy", pictures(6))
    with pytest.raises(DataError, match=r"'x' has 6 rows.*batch size 4"):
        open_samples(path, BATCH_OF_FOUR)


@pytest.mark.parametrize("specs", [FREE_BATCH, ONE_PICTURE])
def test_a_file_may_hold_one_picture_without_its_batch_dimension(tmp_path, specs):
    picture = pictures(1)[0]
    save(tmp_path, "0.npy", picture)
    save(tmp_path, "1.npz", {"x": picture})
    assert_feeds(open_samples(tmp_path, specs), [{"x": picture[None]}] * 2)


def test_a_file_of_a_folder_may_hold_a_larger_batch_where_the_model_leaves_it_free(tmp_path):
    save(tmp_path, "0.npy", pictures(3))
    save(tmp_path, "1.npy", pictures(1))
    assert_feeds(open_samples(tmp_path, FREE_BATCH), [{"x": pictures(3)}, {"x": pictures(1)}])


@pytest.mark.parametrize(
    ("limit", "used"),
    [(1, [0]), (2, [0, 2]), (3, [0, 1, 3]), (5, range(5)), (99, range(5)), (None, range(5))],
)
def test_the_limit_keeps_samples_at_even_distances(tmp_path, limit, used):
    data = pictures(5)
    stacked, folder = save(tmp_path, "all.npy", data), tmp_path / "each"
    folder.mkdir()
    for i in range(5):
        save(folder, f"{i}.npy", data[i : i + 1])
    expected = [{"x": data[i : i + 1]} for i in used]
    for path in (stacked, folder):
        assert_feeds(open_samples(path, ONE_PICTURE, limit), expected)
        assert_feeds(open_samples(path, ONE_PICTURE).spread(limit or 5), expected)
    assert names_of(open_samples(folder, ONE_PICTURE, limit)) == [f"{i}.npy" for i in used]


def test_the_limit_is_at_least_one(tmp_path):
    path = save(tmp_path, "all.npy", pictures(2))
    with pytest.raises(DataError, match="at least 1, got 0"):
        open_samples(path, ONE_PICTURE, 0)


def test_int64_samples_pass_unchanged(tmp_path):
    ids = np.arange(12, dtype=np.int64).reshape(4, 3) + (1 << 40)
    specs = [InputSpec("ids", np.dtype(np.int64), (None, 3))]
    expected = [{"ids": ids[i : i + 1]} for i in range(4)]
    assert_feeds(open_samples(save(tmp_path, "ids.npy", ids), specs), expected)


def test_a_scalar_input_takes_one_number_of_the_stack_per_sample(tmp_path):
    specs = [*FREE_BATCH, InputSpec("gain", FLOAT, ())]
    data, gain = pictures(3), numbers(3)
    path = save(tmp_path, "all.npz", {"x": data, "gain": gain})
    expected = [{"x": data[i : i + 1], "gain": np.asarray(gain[i])} for i in range(3)]
    assert_feeds(open_samples(path, specs), expected)


def test_samples_can_be_iterated_twice(tmp_path):
    samples = open_samples(save(tmp_path, "all.npy", pictures(3)), ONE_PICTURE)
    assert names_of(samples) == names_of(samples) == ["all.npy[0]", "all.npy[1]", "all.npy[2]"]


def test_files_are_read_when_they_are_reached(tmp_path):
    for i in range(4):
        save(tmp_path, f"{i}.npy", pictures(1))
    save(tmp_path, "4.npy", b"\x93NUMPY, and then nothing of use")
    samples = iter(open_samples(tmp_path, ONE_PICTURE))
    assert [next(samples)[0] for _ in range(4)] == ["0.npy", "1.npy", "2.npy", "3.npy"]
    with pytest.raises(DataError, match=r"4\.npy: cannot be read"):
        next(samples)


def test_a_broken_file_that_the_limit_leaves_out_is_never_read(tmp_path):
    for i in range(4):
        save(tmp_path, f"{i}.npy", pictures(1))
    save(tmp_path, "1.npy", b"")
    assert names_of(open_samples(tmp_path, ONE_PICTURE, 2)) == ["0.npy", "2.npy"]


def test_collect_gives_the_smallest_and_largest_value_of_every_tensor(tmp_path):
    made, data = cnn(), pictures(6)
    names = ["x", *(tensor for node in made.graph.node for tensor in node.output)]
    samples = open_samples(save(tmp_path, "all.npy", data), input_specs(made))
    steps = []
    found = collect(made, names, samples, Run(progress=lambda: steps.append(1))).tensors
    assert list(found) == names
    assert len(steps) == 6

    runs = [every_tensor(made, {"x": picture[None]}) for picture in data]
    seen = {name: np.concatenate([run[name] for run in runs]) for name in names[1:]}
    for name, values in {"x": data, **seen}.items():
        assert found[name].range == Range(float(values.min()), float(values.max())), name


def test_collect_names_the_sample_and_the_tensor_that_overflows(tmp_path):
    made, data = cnn(), pictures(6)
    data[4] *= np.float32(1e38)
    samples = open_samples(save(tmp_path, "all.npy", data), input_specs(made))
    with pytest.raises(DataError, match=r"all\.npy\[4\]: tensor 'a' holds NaN or infinite"):
        collect(made, ["x", "a", "y"], samples)


def test_collect_says_which_tensor_never_held_a_value(tmp_path):
    text = "g (float[N, 4] x) => (float[N, 3] y) { y = MatMul (x, w) }"
    made = model(text, w=numbers(4, 3))
    save(tmp_path, "0.npy", numbers(0, 4))
    samples = open_samples(tmp_path, input_specs(made))
    with pytest.raises(DataError, match="'x' held no values"):
        collect(made, ["x", "y"], samples)
