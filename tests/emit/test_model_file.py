"""Weights beside the model: a file of their own, which comes with the model or not at all."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from google.protobuf.message import EncodeError

import qpasses
from calibration import Session, held_weights
from calibration.held_weights import serialized_size
from qpasses import api
from qpasses.emit import model_file
from qpasses.load.reading import digest
from tests.support.commands import MODEL, USAGE, Desk, assert_refused, read_json, run
from tests.support.small_models import layered, numbers


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path, layered(), numbers(3, 8, 6, 6))


@pytest.fixture
def small_messages(monkeypatch):
    """Of so many bytes that the weights do not fit into one."""
    monkeypatch.setattr(model_file, "LARGEST", 10_000)


def weights_of(desk):
    return desk.folder / "out.onnx.data"


def files(desk):
    return {each.name: each.read_bytes() for each in desk.folder.iterdir()}


def test_the_weights_lie_beside_the_model_and_all_else_is_as_usual(desk):
    assert desk.quantize().code == 0
    usual = onnx.load(desk.output)
    evidence = (desk.folder / "out.evidence.json").read_bytes()
    assert not weights_of(desk).exists()
    assert desk.quantize("--save-as-external-data").code == 0
    assert desk.output.stat().st_size < serialized_size(usual) - 9000
    light = onnx.load(desk.output, load_external_data=False)
    apart = [t for t in light.graph.initializer if t.data_location == t.EXTERNAL]
    places = [{each.key: each.value for each in t.external_data} for t in apart]
    assert {each["location"] for each in places} == {"out.onnx.data"}
    assert all(int(each["offset"]) % 4096 == 0 for each in places)
    whole = onnx.load(desk.output)
    for tensor in whole.graph.initializer:
        tensor.ClearField("data_location")
    assert whole == usual
    assert (desk.folder / "out.evidence.json").read_bytes() == evidence
    assert not [each for each in read_json(desk.report)["warnings"] if ".data" in each]
    assert desk.verify().code == 0
    assert read_json(desk.report)["summary"]["verdict"] == "ok"
    assert run("inspect", desk.output).code == 0


def test_onnxruntime_and_the_checker_take_both_files_wherever_they_are_together(desk):
    assert desk.quantize().code == 0
    usual, feed = Session(onnx.load(desk.output)), {"x": numbers(1, 8, 6, 6)}
    assert desk.quantize("--save-as-external-data").code == 0
    moved = desk.folder / "moved"
    moved.mkdir()
    for each in (desk.output, weights_of(desk)):
        each.rename(moved / each.name)
    onnx.checker.check_model(moved / "out.onnx")
    ours = Session(moved / "out.onnx").run(None, feed)
    np.testing.assert_array_equal(ours, usual.run(None, feed))


@pytest.mark.parametrize("held", [False, True])
def test_a_model_too_large_for_a_message_is_written_apart_and_read_again(
    desk, small_messages, monkeypatch, held
):
    usual = qpasses.quantize(layered(), [{"x": row[None]} for row in numbers(3, 8, 6, 6)])
    if held:
        monkeypatch.setattr(held_weights, "HELD_FROM", 1 << 10)
        monkeypatch.setattr(held_weights, "LARGE", 1 << 8)
    ended = desk.quantize()
    assert ended.code == 0, ended.err
    (warning,) = [each for each in read_json(desk.report)["warnings"] if "2 GB" in each]
    assert "out.onnx.data" in warning
    assert desk.verify().code == 0
    assert read_json(desk.report)["summary"]["verdict"] == "ok"
    assert run("inspect", desk.output).code == 0
    assert digest(onnx.load(desk.output)) == read_json(desk.report)["integer_model"]["sha256"]
    tensors = [onnx.load(desk.output).graph.initializer, usual.model.graph.initializer]
    for pair in zip(*tensors, strict=True):
        np.testing.assert_array_equal(*map(onnx.numpy_helper.to_array, pair))
    assert not held_weights.any_held()


def test_the_emitted_model_is_written_before_it_takes_its_weights_in(desk, monkeypatch):
    monkeypatch.setattr(held_weights, "HELD_FROM", 1 << 10)
    monkeypatch.setattr(held_weights, "LARGE", 1 << 8)
    seen, usual = [], api.files_of

    def files_of(made, *others):
        seen.append(held_weights.names_held(made))
        return usual(made, *others)

    monkeypatch.setattr(api, "files_of", files_of)
    result = qpasses.quantize(desk.model, desk.data, desk.output)
    assert seen == [True]
    assert not any(t.external_data for t in result.model.graph.initializer)
    assert result.model == onnx.load(desk.output)


def test_what_is_too_large_even_without_its_weights_is_refused_by_name(desk, monkeypatch):
    class Rest:
        def SerializeToString(self, **_):  # noqa: N802 - as protobuf calls it
            raise EncodeError("too large")

    monkeypatch.setattr(model_file, "without_weights_apart", lambda *_: Rest())
    ended = desk.quantize("--save-as-external-data")
    assert_refused(ended, MODEL, f"{desk.output}: the model without its weights is larger")
    assert not desk.output.exists()
    assert not weights_of(desk).exists()


@pytest.mark.parametrize("emit", ["qdq", "standard"])
def test_every_way_out_may_have_its_weights_beside_it(desk, emit):
    assert desk.quantize("--emit", emit, "--save-as-external-data").code == 0
    made = onnx.load(desk.output)
    assert weights_of(desk).stat().st_size > 9000
    result = qpasses.quantize(
        layered(), [{"x": row[None]} for row in numbers(3, 8, 6, 6)], emit=emit
    )
    assert digest(made) == digest(result.model)


def test_a_quantized_model_with_weights_beside_it_is_integerized(desk):
    assert desk.quantize("--emit", "qdq", "--save-as-external-data").code == 0
    integer = desk.folder / "integer.onnx"
    options = "-o", integer, "--save-as-external-data"
    assert run("integerize", desk.output, *options).code == 0
    assert (desk.folder / "integer.onnx.data").exists()
    against = "--against", desk.output, "--data", desk.data
    assert run("verify", integer, *against).code == 0


def test_a_result_is_saved_apart_and_verified_from_memory_and_from_there(tmp_path):
    feeds = [{"x": row[None]} for row in numbers(3, 8, 6, 6)]
    result = qpasses.quantize(layered(), feeds)
    output = tmp_path / "out.onnx"
    result.save(output, save_as_external_data=True)
    assert {each.name for each in tmp_path.iterdir()} == {
        *("out.onnx", "out.onnx.data", "out.evidence.json")
    }
    assert qpasses.verify(output, layered(), feeds).verdict == "ok"
    assert qpasses.verify(result.model, layered(), feeds).verdict == "ok"


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("refused", ["out.evidence.json", "out.onnx.data", "out.onnx"])
def test_all_files_appear_together_or_none_does(desk, monkeypatch, refused, older):
    if older:
        for name in ("out.evidence.json", "out.onnx.data", "out.onnx"):
            (desk.folder / name).write_bytes(b"older")
    before = files(desk)
    usual = Path.replace

    def replace(path, target):
        if target.name == refused and path.read_bytes() != b"older":
            raise OSError(28, "No space left on device")
        return usual(path, target)

    monkeypatch.setattr(Path, "replace", replace)
    options = "--data", desk.data, "-o", desk.output, "--save-as-external-data"
    assert_refused(run("quantize", desk.model, *options), USAGE, refused, "No space left")
    assert files(desk) == before


def test_weights_of_the_input_are_never_written_over(tmp_path, small_messages):
    onnx.save(
        layered(),
        tmp_path / "float.onnx",
        save_as_external_data=True,
        location="out.onnx.data",
        size_threshold=0,
    )
    np.save(tmp_path / "x.npy", numbers(1, 8, 6, 6))
    before = (tmp_path / "out.onnx.data").read_bytes()
    for options in ([], ["--save-as-external-data"]):
        given = "--data", tmp_path / "x.npy", "-o", tmp_path / "out.onnx", *options
        ended = run("quantize", tmp_path / "float.onnx", *given)
        assert_refused(ended, USAGE, "out.onnx.data: is an input: choose another name")
        assert (tmp_path / "out.onnx.data").read_bytes() == before


def test_weights_that_are_lost_or_cut_short_are_refused_in_one_line(desk):
    assert desk.quantize("--save-as-external-data").code == 0
    weights = weights_of(desk).read_bytes()
    weights_of(desk).write_bytes(weights[:5000])
    assert_refused(desk.verify(), MODEL, "out.onnx.data", "copied or downloaded whole")
    weights_of(desk).unlink()
    assert_refused(desk.verify(), MODEL, "in a file that is missing")


def test_one_pass_writes_a_large_model_apart_too(desk, small_messages):
    ended = run("opt", desk.model, "-p", "canonicalize-gemm", "-o", desk.output)
    assert ended.code == 0, ended.err
    assert weights_of(desk).exists()
    assert len(onnx.load(desk.output).graph.node) > 0
