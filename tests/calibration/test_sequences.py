"""Models whose inputs are sequences or optional values: fed from Python and from files."""

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import helper, numpy_helper

import qpasses
from calibration import input_specs, open_samples
from opsets.errors import DataError

FLOAT = onnx.TensorProto.FLOAT


def model():
    """MatMul of a tensor, plus the first element of a sequence; an optional sequence too."""
    text = """<ir_version: 8, opset_import: ["": 18]>
    g (float[2, 8] x) => (float[2, 4] y, bool given) <int64 zero = {0}>
    {
        [product] p = MatMul (x, w)
        [pick] e = SequenceAt (parts, zero)
        [sum] s = Add (p, e)
        [behind] y = Relu (s)
        [ask] given = OptionalHasElement (more)
    }"""
    made = onnx.parser.parse_model(text)
    weights = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    made.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    optional = helper.make_optional_type_proto(sequence)
    made.graph.input.extend(
        helper.make_value_info(name, kind)
        for name, kind in (("parts", sequence), ("more", optional))
    )
    return made


def feed(seed=0, **other):
    random = np.random.default_rng(seed)
    parts = [random.normal(size=(2, 4)).astype(np.float32) for _ in range(1 + seed % 3)]
    given = {"x": random.normal(size=(2, 8)).astype(np.float32), "parts": parts, "more": parts}
    return given | other


def written(folder: Path, feeds):
    for index, given in enumerate(feeds):
        place = folder / f"test_data_set_{index}"
        place.mkdir()
        contents = [
            numpy_helper.from_array(given["x"]),
            numpy_helper.from_list(given["parts"]),
            numpy_helper.from_optional(given["more"]),
        ]
        for number, content in enumerate(contents):
            (place / f"input_{number}.pb").write_bytes(content.SerializeToString())
    return folder


def same(one, other):
    return all(
        all(np.array_equal(*pair) for pair in zip(one[name], other[name], strict=True))
        for name in one
    )


@pytest.fixture(scope="module")
def from_python():
    return qpasses.quantize(model(), [feed(seed) for seed in range(6)])


def test_what_is_no_tensor_is_known_by_what_it_holds():
    assert [spec.holds for spec in input_specs(model())] == [
        "tensor",
        "sequence",
        "optional sequence",
    ]
    assert str(input_specs(model())[2]) == "'more': optional sequence of float32"


def test_what_hangs_on_a_sequence_stays_in_float_and_the_rest_becomes_integer(from_python):
    left = from_python.report["summary"]["float_nodes"]
    assert [each["op_type"] for each in left] == ["SequenceAt"]
    made = [node.op_type for node in from_python.model.graph.node if node.domain == "qpasses"]
    assert made == ["IntGemm", "IntAdd"]
    kinds = [value.type.WhichOneof("value") for value in from_python.model.graph.input]
    assert kinds == ["tensor_type", "sequence_type", "optional_type"]


@pytest.mark.parametrize("data", [True, False], ids=["on samples", "without samples"])
def test_such_a_model_can_be_verified(from_python, data):
    samples = [feed(9)] if data else None
    checked = qpasses.verify(from_python.model, model(), samples)
    assert checked.report["summary"]["problems"] == []


def test_files_of_test_data_give_the_model_that_python_gives(from_python, tmp_path):
    feeds = [feed(seed) for seed in range(6)]
    found = open_samples(written(tmp_path, feeds), input_specs(model()))
    assert all(same(given, read) for given, (_, read) in zip(feeds, found, strict=True))
    made = qpasses.quantize(model(), tmp_path)
    assert made.model.graph == from_python.model.graph


def test_one_set_of_test_data_is_one_sample(tmp_path):
    folder = written(tmp_path, [feed(4)]) / "test_data_set_0"
    (found,) = open_samples(folder, input_specs(model()))
    assert same(found[1], feed(4))


def test_what_is_optional_may_be_absent(tmp_path):
    folder = written(tmp_path, [feed(4)])
    (folder / "test_data_set_0" / "input_2.pb").unlink()
    (found,) = open_samples(folder, input_specs(model()))
    assert found[1]["more"] is None
    given = feed()
    del given["more"]
    (found,) = open_samples([given], input_specs(model()))
    assert found[1]["more"] is None


def test_an_array_for_a_sequence_holds_its_elements(tmp_path):
    stacked = feed(2) | {
        "parts": np.stack(feed(2)["parts"]),
        "more": np.stack(feed(2)["more"]),
    }
    np.savez(tmp_path / "one.npz", **stacked)
    (found,) = open_samples(tmp_path, input_specs(model()))
    assert same(found[1], feed(2))


WRONG = [
    (
        feed(x=[np.zeros((2, 8), np.float32)]),
        "input 'x' is given a list, it takes 'x': float32",
    ),
    (
        feed(parts=None),
        "input 'parts' is given nothing, it takes 'parts': sequence of float32",
    ),
    (feed(parts=[np.zeros(3)]), "input 'parts' is float64, the model takes float32"),
    (
        feed(parts=[1.0]),
        "input 'parts' is of type list, expected a numpy array (for a sequence: a list",
    ),
]


@pytest.mark.parametrize(("given", "message"), WRONG)
def test_what_does_not_fit_is_an_error_that_names_the_input(given, message):
    with pytest.raises(DataError, match=r"data\[0\]: ") as raised:
        open_samples([given], input_specs(model())).read(0)
    assert message in str(raised.value)


def test_no_sequences_are_made_up():
    with pytest.raises(DataError, match="random data are tensors, not input 'parts'"):
        open_samples("random:3", input_specs(model()))


def test_a_file_of_another_kind_is_an_error_that_names_it(tmp_path):
    folder = written(tmp_path, [feed(4)]) / "test_data_set_0"
    (folder / "input_1.pb").write_bytes(b"\xff")
    with pytest.raises(DataError, match=r"input_1\.pb: cannot be read as a sequence"):
        open_samples(folder, input_specs(model())).read(0)
