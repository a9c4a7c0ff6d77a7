"""Weights that are held: the same files come of a model that is too large for one message."""

import hashlib
import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import qpasses
from calibration import held_weights
from calibration.held_weights import hold, holding, is_held, serialized_parts, with_held
from opsets import row_blocks
from opsets.errors import ModelError
from qpasses.checking.known import Known
from qpasses.checking.simulated import simulated
from qpasses.checking.translation import check
from qpasses.ir.graph import constant
from qpasses.ir.rewriting import Context
from qpasses.load.integer_model import read_integer_model
from qpasses.load.reading import digest, read_model
from qpasses.prepare.canonical import prepare
from tests.support.commands import run
from tests.support.small_models import layered, numbers


@pytest.fixture
def limits(monkeypatch):
    """Lowered, so that every matrix is held, and rows are few at once."""
    for limit in ("HELD_FROM", "MANY"):
        monkeypatch.setattr(held_weights, limit, 1 << 10)
    monkeypatch.setattr(held_weights, "LARGE", 1 << 8)
    monkeypatch.setattr(row_blocks, "AT_ONCE", 300)
    with holding():  # what a test reads by itself
        yield


@pytest.fixture
def files(tmp_path):
    """The model with its weights in a file beside it, and a sample."""
    onnx.save(layered(), tmp_path / "net.onnx", save_as_external_data=True, size_threshold=0)
    np.savez(tmp_path / "x.npz", x=numbers(1, 8, 6, 6))
    return tmp_path


def all_of(folder, name):
    """What the commands make of net.onnx: the files, and what verify and inspect say."""
    made, data = folder / f"{name}.onnx", ["--data", folder / "x.npz"]
    assert run("quantize", folder / "net.onnx", *data, "-o", made).code == 0
    report = folder / f"{name}.json"
    checked = run("verify", made, "--against", folder / "net.onnx", *data, "--json", report)
    assert checked.code == 0, checked.err
    assert run("inspect", made).code == 0
    evidence = made.with_suffix(".evidence.json")
    checks = json.loads(report.read_text())["checks"]
    return made.read_bytes(), evidence.read_bytes(), checks["qdq"], checks["float_graph"]


def test_files_and_findings_are_the_same_where_weights_are_held(files, request):
    usual = all_of(files, "usual")
    request.getfixturevalue("limits")
    assert all_of(files, "held") == usual
    assert not held_weights.any_held()


def test_no_command_writes_weights_into_one_message(files, limits, monkeypatch):
    """The checker and shape inference get the model without them."""
    most = 4 * (8 * 8 * 9 + 32 * 288)
    for module, name in (
        (onnx.checker, "check_model"),
        (onnx.shape_inference, "infer_shapes"),
    ):
        usual = getattr(module, name)

        def light(given, *others, usual=usual, **options):
            assert given.ByteSize() < most
            return usual(given, *others, **options)

        monkeypatch.setattr(module, name, light)
    all_of(files, "light")


def test_a_quantized_model_is_integerized_with_held_weights(files, request):
    data = ["--data", files / "x.npz"]
    qdq = files / "qdq.onnx"
    run("quantize", files / "net.onnx", *data, "--emit", "qdq", "-o", qdq)
    usual, held = files / "usual.onnx", files / "held.onnx"
    assert run("integerize", qdq, "-o", usual).code == 0
    request.getfixturevalue("limits")
    assert run("integerize", qdq, "-o", held).code == 0
    assert held.read_bytes() == usual.read_bytes()


def test_weights_of_a_quantized_original_are_there_once_for_its_simulation(limits):
    feed = {"x": numbers(1, 8, 6, 6)}
    qdq = qpasses.quantize(layered(), [feed], emit="qdq").model
    read = read_integer_model(qpasses.integerize(qdq).model, "made")
    context = Context(read.settings)
    real = prepare(with_held(qdq), feed, context)
    known, about = Known.of(real, context.given), (read.record, read.settings, read.about)
    found = simulated(check(read.graph, *about, real, known=known).pair)
    weights = [
        constant(node.inputs[1])
        for node in real.nodes
        if node.op in ("Conv", "Gemm", "MatMul")
    ]
    shown = [t for t in found.model.graph.initializer if is_held(t)]
    assert {*map(id, weights)} <= {id(held_weights.values_of(tensor)) for tensor in shown}
    assert len(shown) == len(weights)


def test_the_digest_is_that_of_the_whole_model(limits):
    whole = layered()
    whole.graph.initializer[0].doc_string = "first"
    whole.graph.doc_string = whole.producer_name = "made by hand"
    expected = hashlib.sha256(whole.SerializeToString(deterministic=True)).hexdigest()
    with holding():
        light = with_held(whole)
        assert any(map(is_held, light.graph.initializer))
        assert light.ByteSize() < whole.ByteSize() / 4
        assert digest(light) == digest(whole) == expected
        parts = b"".join(map(bytes, serialized_parts(light)))
    assert parts == whole.SerializeToString(deterministic=True)


def test_a_model_given_in_memory_stays_as_it_is(limits):
    given = layered()
    before = given.SerializeToString(deterministic=True)
    made = qpasses.quantize(given, [{"x": numbers(1, 8, 6, 6)}])
    assert given.SerializeToString(deterministic=True) == before
    assert made.model is not None
    assert all(t.data_location != TensorProto.EXTERNAL for t in made.model.graph.initializer)


def test_a_file_of_weights_that_is_cut_short_is_refused_in_one_line(files, limits):
    location = onnx.load(files / "net.onnx", load_external_data=False).graph.initializer[0]
    weights = files / location.external_data[0].value
    weights.write_bytes(weights.read_bytes()[:2000])
    with pytest.raises(ModelError, match=r"net\.onnx: the weights 'w.*copied or downlo"):
        read_model(files / "net.onnx")


def test_the_same_array_has_one_place_as_long_as_it_is_held():
    values = np.ones(4, np.float32)
    with holding():
        one, two = hold("one", values), hold("two", values)
        assert one.external_data == two.external_data
        np.testing.assert_array_equal(held_weights.values_of(two), values)
    assert not is_held(one)


def test_what_is_released_is_forgotten_as_soon_as_it_is_taken_in(limits):
    light = with_held(layered())
    shared = light.graph.initializer.add()
    shared.CopyFrom(next(t for t in light.graph.initializer if is_held(t)))
    shared.name = "shared"
    made = held_weights.released(light)
    assert not held_weights.any_held()
    first = next(t for t in made.graph.initializer if t.name == "w1")
    assert shared.raw_data == first.raw_data
    del made.graph.initializer[-1]
    assert made == layered()
