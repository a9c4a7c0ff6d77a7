"""The models that the onnx package brings along: converted from PyTorch, and classic CNNs."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import qpasses
from calibration import Session
from qpasses.emit.overloads import with_bodies
from tests.support.onnx_package import DATA, classic
from tests.support.thoroughness import slow

OTHER_FAMILIES = {
    "Embedding": "a Gather of float weights",
    "SoftM": "Softmax on its own",
    "Softmax": "Softmax on its own",
    "Softmin": "Softmax on its own",
    "softmax": "Softmax on its own",
    "LogSoftmax": "LogSoftmax on its own",
}
"""What a name holds, and why the model stays in float."""

CONVERTED = sorted(
    path.name
    for path in (DATA / "pytorch-converted").iterdir()
    if not any(part in path.name for part in OTHER_FAMILIES)
)

CLASSICS = {
    "squeezenet": "",
    "shufflenet": "",
    "inception_v2": "r161",
    "resnet50": "r46",
    "densenet121": "r293",
}
"""The tensor to end with: behind both kinds of block and what is between them, all repeats."""

LONG = ("inception_v2", "densenet121", "shufflenet")


def given(folder):
    """The inputs and the output that come with a converted model."""
    arrays = {
        path.stem: numpy_helper.to_array(onnx.load_tensor(path))
        for path in (folder / "test_data_set_0").iterdir()
    }
    model = onnx.load(folder / "model.onnx")
    weights = {tensor.name for tensor in model.graph.initializer}
    names = [value.name for value in model.graph.input if value.name not in weights]
    feed = {name: arrays[f"input_{index}"] for index, name in enumerate(names)}
    return model, feed, arrays["output_0"]


def same_in_both_bodies(model, feed):
    """The first output, which the bodies and the optimizer do not change."""
    runs = [
        Session(with_bodies(model, flavour), optimize=optimize).run(None, feed)[0]
        for flavour in ("onnxruntime", "portable")
        for optimize in (False, True)
    ]
    for other in runs[1:]:
        np.testing.assert_array_equal(runs[0], other)
    return runs[0]


def sqnr_db(real, found):
    noise = np.square(real - found, dtype=np.float64).sum()
    return 10 * np.log10(np.square(real, dtype=np.float64).sum() / noise)


@pytest.mark.thinned
@pytest.mark.parametrize("name", CONVERTED)
def test_a_model_converted_from_pytorch_is_integer_and_close_to_its_output(name):
    model, feed, expected = given(DATA / "pytorch-converted" / name)
    result = qpasses.quantize(model, [feed])
    assert (result.verdict, result.report["summary"]["because"]) == ("ok", [])
    assert result.report["summary"]["integer_only"]
    (found,) = Session(result.model).run(None, feed)
    assert found.shape == expected.shape
    assert sqnr_db(expected, found) > 35
    verified = qpasses.verify(result.model, model, [feed])
    assert verified.verdict == "ok"
    bodies = verified.report["checks"]["bodies"]
    assert [bodies[f"elements_differing_{how}optimized"] for how in ("", "un")] == [0, 0]


@pytest.mark.parametrize("name", [slow(name) if name in LONG else name for name in CLASSICS])
def test_a_classic_network_with_random_weights_is_integer_and_close_to_float(name):
    model = classic(name, until=CLASSICS[name])
    weights = {tensor.name for tensor in model.graph.initializer}
    (entrance,) = (value for value in model.graph.input if value.name not in weights)
    shape = [dim.dim_value for dim in entrance.type.tensor_type.shape.dim]
    rng = np.random.default_rng(1)
    feeds = [{entrance.name: rng.standard_normal(shape).astype(np.float32)} for _ in range(3)]
    result = qpasses.quantize(model, feeds)
    summary = result.report["summary"]
    assert (result.verdict, summary["because"], summary["float_nodes"]) == ("ok", [], [])
    assert summary["integer_mac_share"] == 1.0
    found = same_in_both_bodies(result.model, feeds[0])
    (real,) = Session(model).run(None, feeds[0])
    assert sqnr_db(real, found) > 15
