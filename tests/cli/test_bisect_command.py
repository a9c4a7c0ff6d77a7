"""qpasses bisect and export --to vectors, as they are typed."""

import numpy as np
import pytest

import qpasses
from qpasses.load.integer_model import read_integer_model
from tests.bench.bisecting import DATA, few_bits, pictures, quantized
from tests.support.commands import MODEL, USAGE, assert_refused, read_json, run
from tests.support.emulated_device import RULES, Device, save_dump


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bisect")
    path = folder / "digits.int8.onnx"
    path.write_bytes(quantized("digits_cnn").SerializeToString())
    ended = run(
        *("export", path, "--to", "vectors", "--data", DATA / "test.npz"),
        *("--samples", 2, "-o", folder / "vectors"),
    )
    assert (ended.code, ended.err) == (0, "")
    assert "15 stored tensors" in ended.out
    assert f"{folder / 'vectors'} is written" in ended.out
    return folder


def bisect(desk, dump, *options):
    return run(
        *("bisect", desk / "digits.int8.onnx", "--dump", dump),
        *("--data", desk / "vectors" / "samples", *options),
    )


@pytest.fixture
def dump(desk, tmp_path):
    """A device's, which is right, as files of its own names."""
    read = read_integer_model(qpasses.inspect(desk / "digits.int8.onnx").model, "digits")
    feeds = []
    for path in sorted((desk / "vectors" / "samples").iterdir()):
        with np.load(path) as real:
            feeds.append({"image": real["image"]})
    return save_dump(tmp_path / "dump", [Device(read).run(feed) for feed in feeds])


def spoil(dump, name, change):
    for path in dump.glob(f"*/{name}_quantized.npy"):
        np.save(path, change(np.load(path)))


def test_what_is_equal_ends_with_0(desk, dump):
    ended = bisect(desk, dump)
    assert (ended.code, ended.out) == (0, "equal: 15 tensors of 2 samples\n")


def test_what_differs_ends_with_1_and_names_the_first_node(desk, dump, tmp_path):
    spoil(dump, "head/relu", lambda codes: codes ^ np.uint8(1))
    ended = bisect(desk, dump, "--json", tmp_path / "found.json")
    assert ended.code == 1
    assert "differs first at node 'head/conv' (IntConv); 15 tensors of 2 samples" in ended.out
    report = read_json(tmp_path / "found.json")
    assert report["first"] == {"node": "head/conv", "tensor": "head/relu_quantized"}
    assert report["verdict"] == "differs"
    (fault, *_) = (each for each in report["tensors"] if each["status"] == "differs")
    assert fault["differences"] == [
        [-1, fault["differing"] - fault["differences"][1][1]],
        [1, fault["differences"][1][1]],
    ]


def test_what_cannot_be_read_ends_with_2_and_is_said(desk, dump):
    spoil(dump, "head/relu", lambda codes: codes[:, :3])
    ended = bisect(desk, dump)
    assert ended.code == USAGE
    assert "unread: head/relu_quantized 0000.npz: has the shape [1, 3, 4, 4]" in ended.out
    assert "what could be read is equal: 14 tensors of 2 samples" in ended.out


def test_missing_tensors_are_named(desk, dump):
    for path in dump.glob("*/head/relu_quantized.npy"):
        path.unlink()
    spoil(dump, "head/max_pool", lambda codes: codes ^ np.uint8(1))
    ended = bisect(desk, dump)
    assert "1 tensor is not in the dump: head/relu_quantized" in ended.out
    assert "the fault is in one of head/conv, head/max_pool, which lie between" in ended.out


def test_a_layout_is_said_once_for_all_tensors(desk, dump):
    for path in dump.rglob("*.npy"):
        codes = np.load(path)
        np.save(path, np.moveaxis(codes, 1, -1) if codes.ndim > 2 else codes)
    ended = bisect(desk, dump)
    assert ended.code == 0
    assert len([line for line in ended.out.splitlines() if "laid out NHWC" in line]) == 1


def test_the_rule_of_a_device_is_printed(tmp_path):
    model = few_bits("half_up")
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    device = Device(read_integer_model(model, "m"), RULES["down"].codes)
    np.savez(tmp_path / "data.npz", image=np.concatenate([f["image"] for f in pictures(3)]))
    dump = save_dump(tmp_path / "dump", [device.run(feed) for feed in pictures(3)])
    ended = run("bisect", path, "--dump", dump, "--data", tmp_path / "data.npz")
    assert ended.code == 1
    assert "one rule explains every node: down" in ended.out


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (lambda folder: folder / "nowhere", "does not exist"),
        (lambda folder: _made(folder / "empty"), "holds no .npy and no .npz file"),
        (lambda folder: _written(folder / "text.txt"), "a .npz or .npy file, is needed"),
        (lambda folder: _written(folder / "no.npz"), "cannot be read as a .npz"),
        (lambda folder: _saved(folder / "other", "conv9"), "no stored tensor of the model"),
    ],
)
def test_a_dump_that_is_none_is_refused_in_one_line(desk, tmp_path, prepare, said):
    assert_refused(bisect(desk, prepare(tmp_path)), USAGE, said)


def _made(path):
    path.mkdir()
    return path


def _written(path):
    path.write_text("no array")
    return path


def _saved(path, name):
    path.mkdir()
    np.save(path / f"{name}.npy", np.zeros(3, np.uint8))
    return path


def test_a_float_model_is_refused(desk):
    ended = run("bisect", DATA / "digits_cnn.onnx", "--dump", desk / "vectors")
    assert_refused(ended, MODEL, "digits_cnn.onnx")


def test_options_of_samples_need_samples(desk):
    path = desk / "digits.int8.onnx"
    ended = run("bisect", path, "--dump", desk / "vectors", "--samples", 1)
    assert_refused(ended, USAGE, "samples is about data")
    assert_refused(run("export", path, "--to", "vectors"), USAGE, "--data")
    assert_refused(run("export", path, "--data", "random:1"), USAGE, "data with to 'tosa'")
