"""Where samples come from: files, ONNX test data, readers and iterables, made-up numbers."""

import gc
import tempfile
import weakref
import zipfile
from itertools import count, islice
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper

from calibration import InputSpec, Preprocessing, collect, input_specs, open_samples
from opsets.errors import DataError, UsageError
from tests.support.feeds import (
    BATCH_OF_FOUR,
    FLOAT,
    FREE_BATCH,
    TWO_INPUTS,
    assert_feeds,
    names_of,
)
from tests.support.small_models import cnn, numbers, pictures, save
from tests.support.thoroughness import thoroughly


def message_of(error, *arguments):
    """The message of opening and reading ``arguments``, which ends in ``error``: one line."""
    with pytest.raises(error) as raised:
        list(open_samples(*arguments))
    assert raised.type is error
    assert len(str(raised.value).splitlines()) == 1
    return str(raised.value)


# Files and folders


def test_errors_of_reading_name_the_file_and_errors_of_fit_the_sample(tmp_path):
    save(tmp_path, "0.npy", b"no array")
    assert message_of(DataError, tmp_path, FREE_BATCH).startswith(f"{tmp_path / '0.npy'}: ")
    save(tmp_path, "0.npy", numbers(1, 1, 8, 7))
    assert message_of(DataError, tmp_path, FREE_BATCH).startswith("0.npy: input 'x' has shape")
    path = save(tmp_path, "all.npy", numbers(3, 1, 8, 7))
    assert message_of(DataError, path, FREE_BATCH).startswith("all.npy[0]: input 'x'")
    path = save(tmp_path, "all.npz", {"z": numbers(3, 1, 8, 8), "y": numbers(3)})
    assert message_of(DataError, path, FREE_BATCH).startswith(
        f"{path}: no array for input 'x'"
    )


def test_an_entry_of_a_npz_that_is_no_array_is_left_out_or_refused(tmp_path):
    path = save(tmp_path, "all.npz", {"x": pictures(2)})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("notes.txt", "not an array")
    samples = open_samples(path, FREE_BATCH)
    assert samples.notes == ["no inputs of the model, left out of samples: 'notes.txt'"]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x", "not an array")
    assert "'x' has shape []" in message_of(DataError, path, FREE_BATCH)


@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_a_file_that_is_cut_off_anywhere_is_refused_by_name(tmp_path, kind):
    content = pictures(1) if kind == "npy" else {"x": pictures(1)}
    whole = save(tmp_path, f"0.{kind}", content).read_bytes()
    for size in range(0, len(whole), 7):
        path = save(tmp_path, f"0.{kind}", whole[:size])
        assert str(path) in message_of(DataError, path, FREE_BATCH)


def test_samples_may_hold_no_numbers(tmp_path):
    specs = [InputSpec("x", FLOAT, (None, None))]
    path = save(tmp_path, "all.npy", numbers(6, 0))
    assert_feeds(open_samples(path, specs), [{"x": numbers(1, 0)}] * 6)


def test_names_of_files_may_be_any(tmp_path):
    names = ["1.npy", "01.npy", "1²3.npy", "²", "é.npy", "NPY.NPY"]
    for name in names:
        save(tmp_path, "made.npy", pictures(1)).rename(tmp_path / name)
    found = names_of(open_samples(tmp_path, FREE_BATCH))
    assert found == ["01.npy", "1.npy", "1²3.npy", "NPY.NPY", "é.npy"]


def test_hidden_files_and_folders_inside_are_no_array_samples(tmp_path):
    save(tmp_path, "0.npy", pictures(1))
    save(tmp_path, "._0.npy", b"what some systems leave beside a file")
    (tmp_path / "older").mkdir()
    save(tmp_path / "older", "1.npy", pictures(1))
    assert names_of(open_samples(tmp_path, FREE_BATCH)) == ["0.npy"]


def test_a_path_that_leads_through_a_file_is_named(tmp_path):
    path = save(tmp_path, "0.npy", pictures(1)) / "deeper"
    assert str(path) in message_of(DataError, path, FREE_BATCH)


def test_paths_are_the_files_behind_all_samples_also_of_those_left_out(tmp_path):
    for i in range(5):
        save(tmp_path, f"{i}.npy", pictures(1))
    files = [tmp_path / f"{i}.npy" for i in range(5)]
    assert list(open_samples(tmp_path, FREE_BATCH, 2).paths) == files
    assert list(open_samples(str(files[0]), FREE_BATCH).paths) == files[:1]


def test_descriptions_say_how_many_of_what_and_where(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = Path("each")
    folder.mkdir()
    for i in range(3):
        save(folder, f"{i}.npy", pictures(1))
    stacked = save(Path(), "all.npz", {"x": pictures(6)})
    one = save(Path(), "one.npz", {"x": pictures(1)})

    def described(*arguments):
        return open_samples(*arguments).description

    assert described(folder, FREE_BATCH) == "3 samples in each"
    assert described(stacked, FREE_BATCH) == "6 samples in all.npz"
    assert described(stacked, FREE_BATCH, 4) == "4 of 6 samples in all.npz"
    assert described(one, FREE_BATCH, 4) == "1 sample in one.npz"
    assert described("random:8", input_specs(cnn()), 2) == "2 of 8 samples of random numbers"
    assert described([pictures(1)] * 2, FREE_BATCH) == "2 samples of a list"
    assert described(Reader(3), FREE_BATCH, 2) == "2 samples of a data reader"
    assert open_samples(stacked, FREE_BATCH, 4).spread(2).description.startswith("2 of 6")


@thoroughly(100)
@given(st.integers(1, 300), st.integers(1, 300))
def test_chosen_samples_are_as_many_as_asked_for_in_order_and_evenly_apart(total, limit):
    chosen = open_samples(f"random:{total}", FREE_BATCH[:0], limit).chosen
    assert list(chosen) == [i * total // min(limit, total) for i in range(min(limit, total))]
    gaps = np.diff([*chosen, total])
    assert gaps.max() - gaps.min() <= 1
    assert gaps.min() >= 1


# ONNX test data


def data_set(folder, *tensors):
    """Write input_0.pb, input_1.pb, ... (arrays, or the bytes of files) into a new folder."""
    folder.mkdir()
    for i, tensor in enumerate(tensors):
        if isinstance(tensor, np.ndarray):
            tensor = numpy_helper.from_array(tensor, f"tensor {i}").SerializeToString()
        (folder / f"input_{i}.pb").write_bytes(tensor)
    return folder


def test_onnx_test_data_give_one_sample_per_set_in_natural_order(tmp_path):
    for i in (0, 2, 10):
        place = data_set(tmp_path / f"test_data_set_{i}", numbers(1, 3, seed=i), numbers(1, 2))
        (place / "output_0.pb").write_bytes(b"never read")
    (tmp_path / "model.onnx").write_bytes(b"never read")
    (tmp_path / "test_data_0.npz").write_bytes(b"never read")
    (tmp_path / "input_0.pb").write_bytes(b"never read")
    samples = open_samples(tmp_path, TWO_INPUTS)
    assert names_of(samples) == [f"test_data_set_{i}" for i in (0, 2, 10)]
    expected = [{"a": numbers(1, 3, seed=i), "b": numbers(1, 2)} for i in (0, 2, 10)]
    assert_feeds(samples, expected)
    assert samples.description == f"3 test data sets in {tmp_path}"
    assert [path.name for path in samples.paths] == [
        "input_0.pb",
        "input_1.pb",
        "output_0.pb",
    ] * 3
    assert_feeds(open_samples(tmp_path, TWO_INPUTS, 2), expected[:2])


def test_one_test_data_set_may_be_given_by_itself(tmp_path, monkeypatch):
    place = data_set(tmp_path / "mine", numbers(1, 3), numbers(1, 2))
    expected = [{"a": numbers(1, 3), "b": numbers(1, 2)}]
    assert_feeds(open_samples(place, TWO_INPUTS), expected)
    monkeypatch.chdir(place)
    assert names_of(open_samples(".", TWO_INPUTS)) == ["mine"]


a, b = numbers(1, 3), numbers(1, 2)
ELSEWHERE = onnx.TensorProto(
    dims=[1, 2], data_type=1, data_location=onnx.TensorProto.EXTERNAL
).SerializeToString()
BAD_SETS = {
    "one missing": ([a], "input_1.pb", "no such file"),
    "one too many": ([a, b, b], "input_2.pb", "no such input"),
    "no tensor": ([a, b"\xff no tensor"], "input_1.pb", "cannot be read"),
    "empty": ([a, b""], "input_1.pb", "cannot be read"),
    "cut off": ([a, numpy_helper.from_array(b).SerializeToString()[:-3]], "input_1.pb", ""),
    "wrong type": ([a, b.astype(np.float64)], "input_1.pb", "'b' is float64"),
    "wrong shape": ([a, a], "input_1.pb", "'b' has shape [1, 3]"),
    "sequence": ([a, numpy_helper.from_list([b]).SerializeToString()], "input_1.pb", "sequen"),
    "optional": (
        [a, numpy_helper.from_optional(b).SerializeToString()],
        "input_1.pb",
        "a sequence or an optional value",
    ),
    "external": ([a, ELSEWHERE], "input_1.pb", "another file"),
}


@pytest.mark.parametrize("name", BAD_SETS)
def test_test_data_that_do_not_fit_are_refused_by_file(tmp_path, name):
    tensors, culprit, reason = BAD_SETS[name]
    place = data_set(tmp_path / "test_data_set_0", *tensors)
    message = message_of(DataError, tmp_path, TWO_INPUTS)
    assert message.startswith(f"{place / culprit}: ")
    assert reason in message


# Readers and iterables


class Reader:
    """Has the methods of onnxruntime.quantization.CalibrationDataReader."""

    def __init__(self, feeds, dtype=np.float32):
        self.asked = 0
        self.feeds = iter({"x": pictures(1, seed=i).astype(dtype)} for i in range(feeds))

    def get_next(self):
        self.asked += 1
        return next(self.feeds, None)

    def __iter__(self):
        return self

    def __next__(self):
        raise AssertionError("get_next() is what counts")


@pytest.fixture
def spools(tmp_path, monkeypatch):
    """The temporary folders that are there once all garbage is collected."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def folders():
        gc.collect()
        return list(tmp_path.iterdir())

    return folders


def test_a_reader_is_asked_until_none_and_can_be_iterated_again():
    reader = Reader(3)
    samples = open_samples(reader, FREE_BATCH)
    expected = [{"x": pictures(1, seed=i)} for i in range(3)]
    for _ in range(2):
        assert_feeds(samples, expected)
    assert names_of(samples) == [f"get_next()[{i}]" for i in range(3)]
    assert reader.asked == 4
    assert samples.paths == ()


def test_a_reader_is_asked_no_more_often_than_the_limit_says():
    reader = Reader(10)
    samples = open_samples(reader, FREE_BATCH, 4)
    assert_feeds(samples, [{"x": pictures(1, seed=i)} for i in range(4)])
    assert reader.asked == 4
    endless = (pictures(1, seed=i) for i in count())
    assert_feeds(
        open_samples(endless, FREE_BATCH, 2), [{"x": pictures(1, seed=i)} for i in range(2)]
    )
    np.testing.assert_array_equal(next(endless), pictures(1, seed=2))


@pytest.mark.parametrize("make", [list, tuple, iter, lambda feeds: (feed for feed in feeds)])
def test_iterables_give_dicts_or_arrays_of_the_only_input(make):
    data = [pictures(1, seed=i) for i in range(3)]
    expected = [{"x": array} for array in data]
    for feeds in (data, expected, [array[0] for array in data]):
        samples = open_samples(make(feeds), FREE_BATCH)
        assert_feeds(samples, expected)
        assert names_of(samples) == [f"data[{i}]" for i in range(3)]


def test_a_list_is_there_as_a_whole_so_the_limit_spreads(spools):
    data = [pictures(1, seed=i) for i in range(5)]
    samples = open_samples(data, FREE_BATCH, 2)
    assert names_of(samples) == ["data[0]", "data[2]"]
    assert spools() == []


def test_an_array_is_a_stack_of_samples():
    data = pictures(8)
    for stack in (data, data.reshape(2, 4, 1, 8, 8)):
        expected = [{"x": data[:4]}, {"x": data[4:]}]
        assert_feeds(open_samples(stack, BATCH_OF_FOUR), expected)
    assert names_of(open_samples(data, FREE_BATCH, 2)) == ["data[0]", "data[4]"]
    message = message_of(DataError, numbers(3, 3), TWO_INPUTS)
    assert (
        message
        == "data: the model has 2 inputs ('a', 'b'): use dicts with one array per input"
    )


def test_several_inputs_and_numbers_without_dimensions_come_from_dicts():
    specs = [*TWO_INPUTS, InputSpec("in/gain file", FLOAT, ())]
    feeds = [
        {"b": numbers(1, 2, seed=i), "a": numbers(1, 3, seed=i), "in/gain file": np.float32(i)}
        for i in range(3)
    ]
    expected = [feed | {"in/gain file": np.asarray(feed["in/gain file"])} for feed in feeds]
    for data in (feeds, iter(feeds)):
        assert_feeds(open_samples(data, specs), expected)


def test_a_feed_that_is_reused_by_its_source_is_kept_as_it_was_given():
    def one_buffer():
        buffer = np.zeros((1, 1, 8, 8), np.float32)
        for i in range(3):
            buffer[:] = i
            yield {"x": buffer}

    expected = [{"x": np.full((1, 1, 8, 8), i, np.float32)} for i in range(3)]
    assert_feeds(open_samples(one_buffer(), FREE_BATCH), expected)


BAD_FEEDS = {
    "text": ("x", ["is of type str", "dict"]),
    "a list": ([pictures(1)], ["is of type list", "dict"]),
    "none": (None, ["is of type NoneType"]),
    "no array": ({"x": [1.0]}, ["'x'", "type list", "numpy array"]),
    "float64": ({"x": pictures(1).astype(np.float64)}, ["'x' is float64", "float32"]),
    "shape": (pictures(1)[..., :7], ["'x' has shape [1, 1, 8, 7]"]),
    "NaN": (pictures(1) * np.float32(np.nan), ["'x' holds NaN"]),
    "other names": (
        {"y": pictures(1), "z": pictures(1)},
        ["no array for input 'x'", "'y', 'z'", "--inputs x=y"],
    ),
    "no input": ({}, ["no array for input 'x'"]),
}


@pytest.mark.thinned
@pytest.mark.parametrize("name", BAD_FEEDS)
@pytest.mark.parametrize("make", [list, iter])
def test_a_feed_that_does_not_fit_is_named_by_its_position(name, make, spools):
    bad, reasons = BAD_FEEDS[name]
    message = message_of(DataError, make([pictures(1), pictures(1), bad]), FREE_BATCH)
    assert message.startswith("data[2]: ")
    for reason in reasons:
        assert reason in message
    assert spools() == []


def test_a_feed_that_does_not_fit_is_the_last_that_is_taken():
    reader = Reader(3, dtype=np.float64)
    with pytest.raises(DataError, match=r"get_next\(\)\[0\]: input 'x' is float64"):
        open_samples(reader, FREE_BATCH)
    assert reader.asked == 1


def test_an_array_alone_does_not_serve_several_inputs():
    message = message_of(DataError, iter([numbers(1, 3)]), TWO_INPUTS)
    assert message.startswith("data[0]: the model has 2 inputs ('a', 'b'): use a dict")


def test_what_a_source_raises_comes_through_and_leaves_nothing_behind(spools):
    def failing():
        yield pictures(1)
        raise LookupError("the disk is gone")

    with pytest.raises(LookupError, match="the disk is gone"):
        open_samples(failing(), FREE_BATCH)
    reader = Reader(2)
    reader.feeds = failing()
    with pytest.raises(LookupError, match="the disk is gone"):
        open_samples(reader, FREE_BATCH)
    assert spools() == []


def test_kept_feeds_are_removed_with_the_last_samples_that_read_them(spools):
    samples = open_samples(Reader(4), FREE_BATCH)
    assert len(spools()) == 1
    part = samples.spread(2)
    del samples
    assert len(spools()) == 1
    assert_feeds(part, [{"x": pictures(1, seed=i)} for i in (0, 2)])
    del part
    assert spools() == []


def test_feeds_are_taken_one_at_a_time(spools):
    alive, most = weakref.WeakSet(), []

    class Counted(np.ndarray):
        __hash__ = object.__hash__

    def feeds():
        for seed in range(20):
            yield {"x": counted(seed)}

    def counted(seed):
        array = pictures(1, seed=seed).view(Counted)
        alive.add(array)
        most.append(len(alive))
        return array

    samples = open_samples(feeds(), FREE_BATCH)
    assert most == [1] * 20
    assert len(alive) == 0
    assert_feeds(samples, [{"x": pictures(1, seed=i)} for i in range(20)])


@pytest.mark.parametrize("empty", [[], iter([]), Reader(0), pictures(0)])
def test_a_source_that_gives_nothing_is_refused(empty, spools):
    assert message_of(DataError, empty, FREE_BATCH) == "data: holds no samples"
    assert spools() == []


@pytest.mark.parametrize("data", [7, None, b"bytes", {"x": pictures(1)}, len, object()])
def test_data_of_other_kinds_are_refused_with_a_list_of_what_is_taken(data):
    message = message_of(UsageError, data, FREE_BATCH)
    assert message.startswith(f"data of type {type(data).__name__}: ")
    for way in (".npy", ".npz", "pictures", "ONNX test data", "random:N", "get_next()"):
        assert way in message


def test_ranges_are_the_same_from_every_kind_of_source(tmp_path):
    made, data = cnn(), pictures(4)
    (tmp_path / "pb").mkdir()
    for i, picture in enumerate(data):
        data_set(tmp_path / "pb" / f"test_data_set_{i}", picture[None])
    sources = [save(tmp_path, "all.npy", data), tmp_path / "pb", data, list(data), iter(data)]
    found = [
        collect(made, ["x", "a", "y"], open_samples(source, input_specs(made)))
        for source in sources
    ]
    assert found == [found[0]] * len(found)


# Made-up numbers


KINDS = [
    InputSpec("x", FLOAT, (None, 100, 100)),
    InputSpec("ids", np.dtype(np.int64), (2, 1000)),
    InputSpec("mask", np.dtype(np.bool_), (1000,)),
    InputSpec("gain", np.dtype(np.float16), ()),
]


def test_random_data_are_normal_floats_and_zeros_and_ones():
    samples = open_samples("random:3", KINDS)
    assert names_of(samples) == ["random[0]", "random[1]", "random[2]"]
    assert samples.random
    assert samples.paths == ()
    for _, feed in samples:
        assert feed["x"].shape == (1, 100, 100)
        assert abs(feed["x"].mean()) < 0.05
        assert abs(feed["x"].std() - 1) < 0.05
        assert set(feed["ids"].flat) == {0, 1}
        assert set(feed["mask"].flat) == {False, True}


def test_a_random_sample_depends_on_its_number_and_the_input_alone():
    feeds = [feed for _, feed in open_samples("random:3", KINDS)]
    again = [feed for _, feed in open_samples("random:9", KINDS[:1])]
    for i in range(3):
        np.testing.assert_array_equal(feeds[i]["x"], again[i]["x"])
    values = [feed["x"].tobytes() for feed in again]
    assert len(set(values)) == 9
    twins = open_samples("random:1", [InputSpec(name, FLOAT, (4,)) for name in "ab"])
    _, feed = next(iter(twins))
    assert feed["a"].tobytes() != feed["b"].tobytes()


def test_other_samples_are_not_random(tmp_path):
    assert not open_samples(save(tmp_path, "all.npy", pictures(1)), FREE_BATCH).random


@pytest.mark.parametrize(
    "data", ["random:0", "random:x", "random:", "random:-1", "random:1.5", "random:9999999"]
)
def test_random_data_need_a_number_of_samples(data):
    message = message_of(UsageError, data, FREE_BATCH)
    assert message == f"{data}: write random:N for N samples, N from 1 to 999999"


def test_random_data_need_fixed_sizes_behind_the_batch():
    specs = [*FREE_BATCH, InputSpec("audio", FLOAT, (1, None))]
    message = message_of(DataError, "random:3", specs)
    assert message == (
        "random:3: random data need fixed sizes, not input 'audio': float32[1, ?]: give "
        "--input-shape audio:1,?, numbers for ?"
    )


def test_random_data_are_not_made_up_for_text():
    specs = [InputSpec("words", np.dtype(object), (1,))]
    assert "'words'" in message_of(DataError, "random:3", specs)


def test_only_text_asks_for_random_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = Path("random:3")
    assert "random:3: no such file" in message_of(DataError, path, FREE_BATCH)


# Preprocessing is for pictures


def test_preprocessing_is_refused_for_all_other_samples(tmp_path):
    never = (pytest.fail("preprocessing is checked first") for _ in range(1))
    place = data_set(tmp_path / "test_data_set_0", pictures(1))
    arrays = tmp_path / "arrays"
    arrays.mkdir()
    stacked = save(arrays, "all.npy", pictures(1))
    for data in (
        stacked,
        arrays,
        place,
        tmp_path,
        "random:2",
        never,
        Reader(1),
        [pictures(1)],
    ):
        message = message_of(UsageError, data, FREE_BATCH, None, Preprocessing())
        assert "only pictures are preprocessed" in message
        assert message.startswith(f"{data}: " if isinstance(data, str | Path) else "data: ")


def test_nothing_is_lost_of_a_long_one_shot_source():
    samples = open_samples(islice((pictures(1, seed=i) for i in count()), 150), FREE_BATCH)
    assert len(samples) == 150
    assert_feeds(samples.spread(3), [{"x": pictures(1, seed=i)} for i in (0, 50, 100)])
