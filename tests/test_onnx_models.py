"""The models that the onnx package brings along: converted from PyTorch, and classic CNNs."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import qpasses
from calibration import Session
from qpasses.overloads import with_bodies

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"

OTHER_FAMILIES = {
    "Embedding": "a Gather of float weights",
    "SoftM": "Softmax on its own",
    "Softmax": "Softmax on its own",
    "Softmin": "Softmax on its own",
    "softmax": "Softmax on its own",
    "LogSoftmax": "LogSoftmax",
}
"""What a name holds, and why the model stays in float."""

CONVERTED = sorted(
    path.name
    for path in (DATA / "pytorch-converted").iterdir()
    if not any(part in path.name for part in OTHER_FAMILIES)
)

CLASSICS = ("squeezenet", "shufflenet", "inception_v2", "resnet50", "densenet121")

ROLES = {
    ("BatchNormalization", 1): (1, 0.2),
    ("BatchNormalization", 4): (1, 0.2),
    ("Mul", 1): (1, 0.2),
}
"""Mean and deviation of what an op reads at an input, where it is no weight or bias."""


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


@pytest.mark.parametrize("name", CONVERTED)
def test_a_model_converted_from_pytorch_is_integer_and_close_to_its_output(name):
    model, feed, expected = given(DATA / "pytorch-converted" / name)
    result = qpasses.quantize(model, [feed])
    assert (result.verdict, result.report["summary"]["because"]) == ("ok", [])
    assert result.report["summary"]["integer_only"]
    found = same_in_both_bodies(result.model, feed)
    assert found.shape == expected.shape
    assert sqnr_db(expected, found) > 35
    assert qpasses.verify(result.model, model, [feed]).verdict == "ok"


def classic(name, seed=0):
    """The logits of a network with random weights: in the package all are equal."""
    model = onnx.load(DATA / "light" / f"light_{name}.onnx")
    if model.graph.node[-1].op_type == "Softmax":
        model.graph.output[0].name = model.graph.node.pop().input[0]
    rng = np.random.default_rng(seed)
    sizes = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    readers = {name: node for node in reversed(model.graph.node) for name in node.input}
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape":
            continue
        shape, name = sizes[node.input[0]].tolist(), node.output[0]
        while readers[name].op_type == "Unsqueeze":
            name = readers[name].output[0]
        reader = readers[name]
        place = ROLES.get((reader.op_type, list(reader.input).index(name)))
        mean, deviation = place or (0, np.sqrt(2 / max(np.prod(shape[1:]), 20)))
        values = (mean + deviation * rng.standard_normal(shape)).astype(np.float32)
        values = np.abs(values) if place else values
        made = helper.make_node(
            "Constant", [], list(node.output), value=numpy_helper.from_array(values)
        )
        node.CopyFrom(made)
    return model


@pytest.mark.parametrize("name", CLASSICS)
def test_a_classic_network_with_random_weights_is_integer_and_close_to_float(name):
    model = classic(name)
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
