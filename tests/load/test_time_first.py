"""Recurrent nets with rows first, which onnxruntime refuses, run as those with time first."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import qpasses
from calibration import Session
from opsets.errors import ModelError
from qpasses.load.upgrade import runnable
from tests.support.recurrent_nets import GATES, WAYS, Net

GIVEN = {"x": (1, 0, 2), "first_h": (1, 0, 2), "first_c": (1, 0, 2)}
MADE = {"y": (2, 0, 1, 3), "h": (1, 0, 2), "c": (1, 0, 2)}
"""How what has time first is transposed to what has rows first."""


def rows_first(net):
    """The net, and the model of the same numbers with rows first, with a feed for each."""
    model, feed = net.made()
    other = onnx.ModelProto()
    other.CopyFrom(model)
    other.graph.node[-1].attribute.append(helper.make_attribute("layout", 1))
    turned = {
        name: values.transpose(GIVEN.get(name, range(values.ndim)))
        for name, values in feed.items()
    }
    for value in other.graph.input:
        for dim, size in zip(
            value.type.tensor_type.shape.dim, turned[value.name].shape, strict=True
        ):
            dim.dim_value = size
    return (model, feed), (other, turned)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("op", GATES)
def test_rows_come_first_and_results_are_the_same(op, way):
    outputs = frozenset("yhc" if op == "LSTM" else "yh")
    net = Net(
        op, way, 4, 3, first_h="input", first_c="input", lengths="input", outputs=outputs
    )
    (model, feed), (other, turned) = rows_first(net)
    with pytest.raises(ModelError, match="layout"):
        Session(other, optimize=False)
    expected = Session(model, optimize=False).run(None, feed)
    found = Session(runnable(other, Path("net.onnx")), optimize=False).run(None, turned)
    for value, ours, theirs in zip(model.graph.output, found, expected, strict=True):
        assert np.array_equal(ours, theirs.transpose(MADE[value.name]))


def test_a_net_with_time_first_stays_as_it_is():
    model, _ = Net("GRU").made()
    assert runnable(model, Path("net.onnx")) is model


def test_a_net_in_a_branch_is_one_too():
    _, (model, _) = rows_first(Net("RNN"))
    node = model.graph.node.pop()
    branches = {
        name: helper.make_graph([node], name, [], list(model.graph.output))
        for name in ("then_branch", "else_branch")
    }
    for name, branch in branches.items():
        branch.node[0].output[0] = branch.output[0].name = name
    model.graph.node.append(helper.make_node("If", ["ask"], ["y"], **branches))
    ask = helper.make_tensor_value_info("ask", onnx.TensorProto.BOOL, [])
    model.graph.input.append(ask)
    Session(runnable(model, Path("net.onnx")), optimize=False)


def test_a_net_with_rows_first_is_quantized_and_verified(tmp_path):
    _, (model, turned) = rows_first(Net("LSTM", "bidirectional"))
    path = tmp_path / "net.onnx"
    onnx.save(model, path)
    result = qpasses.quantize(path, [turned])
    assert qpasses.verify(result.model, path, [turned]).verdict in ("ok", "incomplete")
