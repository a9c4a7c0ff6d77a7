"""Targets whose nodes have one width: who writes 16 bits reads 8 stored anew as 16."""

import json

import numpy as np
import onnx
import pytest

from opsets.target import load_target
from qpasses import quantize, verify
from qpasses.load.integer_model import read_integer_model
from qpasses.lowering.numbers.word_numbers import unlike_widths
from tests.support.small_models import model, numbers
from tests.support.words_net import words_feeds, words_net

TARGETS = ("litert", "tflm")
CONSTANTS = {"k": numbers(4, 4, 3, 3) / 3, "l": numbers(4, 4, 1, 1, seed=1)}
SAMPLES = [{"x": numbers(1, 4, 8, 8, seed=seed)} for seed in range(4)]


def made(body, types, target="litert", **constants):
    net = model(
        f"g (float[1,4,8,8] x) => (float[A,B,C,D] y) {{ {body} }}",
        opset=21,
        **CONSTANTS,
        **constants,
    )
    result = quantize(net, SAMPLES, target=target, tensor_types=types)
    assert verify(result.model, net, SAMPLES).verdict == result.verdict == "ok"
    return result


def widths(result):
    """By node: its op, and whether each stored tensor that it reads or writes has 16 bits."""
    read = read_integer_model(result.model, "it")
    known = read.record.tensors
    return {
        node.name: (
            node.op,
            [
                known[t.name].dtype == "int16"
                for t in (*node.inputs, *node.outputs)
                if t.name in known
            ],
        )
        for node in read.graph.nodes
    }


def reasons(result):
    return " ".join(map(str, result.report["warnings"]))


@pytest.mark.parametrize("target", TARGETS)
def test_a_node_that_writes_16_bits_reads_8_stored_anew(target):
    result = made("[it] y = Conv (x, k)", ["y=int16"], target)
    found = widths(result)
    assert found["x_rescaled_quantize"] == ("IntRescale", [False, True])
    assert found["it"] == ("IntConv", [True, True])
    entries = read_integer_model(result.model, "it").record.nodes
    (x,), (y,) = (entries["x_rescaled_quantize"].scales[name] for name in "xy")
    assert x == 128 * y  # no level is rounded


@pytest.mark.parametrize("target", TARGETS)
def test_a_node_that_writes_8_bits_reads_16_stored_anew(target):
    body = "u = Conv (x, l) [it] y = Add (u, x)"
    found = widths(made(body, ["[xy]=int16"], target))
    assert found["Conv"] == ("IntConv", [False, False])
    assert found["it"] == ("IntRescaledAdd", [True, True, True])


def test_what_no_node_reads_or_writes_beside_others_of_16_bits_has_8_and_says_so():
    result = made("u = Conv (x, k) y = Conv (u, l)", ["x=int16"])
    assert not any(any(each) for _, each in widths(result).values())
    assert "Conv reads 8 bits: nodes of target 'litert' have one width" in reasons(result)


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("node", "constants"),
    [
        ("Sigmoid (u)", {}),
        ("Exp (u)", {}),
        ("Softmax (u)", {}),
        ("LayerNormalization (u, g)", {"g": numbers(6)}),
        ('Resize <mode = "linear"> (u, , , s)', {"s": np.array([1, 4, 9, 5])}),
        ("ReduceSum (u, a)", {"a": np.array([3])}),
    ],
)
@pytest.mark.parametrize("target", TARGETS)
def test_what_tflite_has_not_in_16_bits_has_8(node, constants, target):
    body = f"u = Conv (x, k) v = {node} y = Identity (v)"
    result = made(body, [".*=int16"], target, **constants)
    op = node.split(" ")[0]
    tables = {"Sigmoid": "Lut", "Exp": "Lut", "Softmax": "GemmlowpSoftmax"}
    kinds = {"LayerNormalization": "IntLayerNorm", "Resize": "IntResize"}
    kinds |= {"ReduceSum": "IntReduce"}
    (ends,) = [each for name, each in widths(result).values() if name == (tables | kinds)[op]]
    assert not any(ends)
    assert f"{op} writes no 16 bits for target {target!r}" in reasons(result)


@pytest.mark.thinned
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("options", [{"tensor_types": [".*=int16"]}, {"accuracy": "best"}])
def test_a_net_of_most_kinds_is_verified(target, options):
    result = quantize(words_net(), words_feeds(8), target=target, **options)
    assert result.verdict == "ok" and result.report["summary"]["float_nodes"] == []
    assert verify(result.model, words_net(), words_feeds(8)).verdict == "ok"
    found = {name: ends for name, (op, ends) in widths(result).items() if op != "IntRescale"}
    assert all(len(set(ends)) < 2 for ends in found.values())
    assert sum(any(ends) for ends in found.values()) >= 5


def test_a_graph_of_two_widths_is_found():
    """Made for a target whose nodes have any width, judged by one whose nodes have one."""
    result = made("[it] y = Conv (x, k)", ["y=int16"], "tosa")
    assert widths(result)["it"] == ("IntConv", [False, True])
    forged = onnx.ModelProto.FromString(result.model.SerializeToString())
    entry = next(e for e in forged.metadata_props if e.key == "qpasses.configuration")
    settings = json.loads(entry.value)
    settings["target"]["word_ends"] = "alike"
    entry.value = json.dumps(settings)
    net = model(
        "g (float[1,4,8,8] x) => (float[A,B,C,D] y) { [it] y = Conv (x, k) }",
        opset=21,
        **CONSTANTS,
    )
    found = verify(forged, net, SAMPLES).report["summary"]
    assert any("tensors of 8 and of 16 bits" in each for each in found["problems"])


def test_a_lowering_declines_two_widths_by_name():
    target = load_target("litert")
    assert unlike_widths(target, "Conv", "int16", "int16") == ""
    assert "no Conv between tensors of 8 and of 16 bits" in unlike_widths(
        target, "Conv", "int8", "int16"
    )
    assert unlike_widths(load_target("tosa"), "Conv", "int8", "int16") == ""
