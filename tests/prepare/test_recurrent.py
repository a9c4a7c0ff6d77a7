"""LSTM, GRU and RNN nodes in one canonical form, with the results that onnxruntime has."""

import numpy as np
import pytest
from hypothesis import example, given

from calibration import Session
from opsets.target import load_target
from qpasses.ir.interchange import import_graph, prepared_model
from qpasses.ir.rewriting import Context, run_passes
from qpasses.ir.settings import Settings
from qpasses.ir.shapes import infer_shapes
from qpasses.prepare.canonicalize_recurrent import CanonicalizeRecurrent
from qpasses.prepare.reverse_time import ReverseTime
from qpasses.prepare.split_directions import SplitDirections
from tests.support.recurrent_nets import ALPHA, BETA, GATES, WAYS, Net, nets
from tests.support.thoroughness import thoroughly

PASSES = SplitDirections(), ReverseTime(), CanonicalizeRecurrent()


def canonical(model):
    graph = import_graph(infer_shapes(model))
    run_passes(PASSES, graph, Context(Settings(load_target("onnx"))))
    return graph


def recurrent(graph):
    return [node for node in graph.nodes if node.op in GATES]


@thoroughly(400)
@given(nets())
@example(Net("RNN", "bidirectional", outputs=frozenset("h")))
@example(Net("GRU", "reverse", lengths="input", outputs=frozenset("yh")))
@example(Net("LSTM", "bidirectional", lengths="constant", first_h="input", first_c="zero"))
@example(
    Net("LSTM", peepholes="constant", said={"input_forget": 1, "clip": 0.25}, first_c="input")
)
@example(
    Net(
        "LSTM",
        said={
            "input_forget": 1,
            "activations": ["HardSigmoid", "Tanh", "Tanh"],
            "activation_beta": [0.25],
        },
    )
)
@example(
    Net(
        "GRU",
        "bidirectional",
        said={
            "activations": ["HardSigmoid", "LeakyRelu", "HardSigmoid", "Affine"],
            "activation_alpha": [0.25, 0.5],
            "activation_beta": [0.75],
        },
    )
)
def test_a_canonical_net_computes_what_it_did(net):
    model, feed = net.made()
    graph = canonical(model)
    models = prepared_model(graph), model
    ours, theirs = (Session(each, optimize=False).run(None, feed) for each in models)
    for found, expected in zip(ours, theirs, strict=True):
        assert found.shape == expected.shape
        finite = np.isfinite(expected)
        assert np.array_equal(found[~finite], expected[~finite], equal_nan=True)
        scale = np.abs(expected[finite]).max(initial=1)
        assert np.abs(found[finite] - expected[finite]).max(initial=0) <= 1e-4 * scale
    for node in recurrent(graph):
        assert not {"direction", "layout"} & set(node.attrs)
        assert node.outputs[0].name and node.inputs[1].shape[0] == 1
        names = node.attrs.get("activations", [])
        for what, takers in (("alpha", ALPHA), ("beta", BETA)):
            given = node.attrs.get(f"activation_{what}", [])
            assert len(given) == sum(name in takers for name in names)
        states = [(5, net.first_h), (6, net.first_c)][: 1 + (node.op == "LSTM")]
        for place, how in states:
            is_given = len(node.inputs) > place and not node.inputs[place].is_empty()
            assert is_given == (how in ("constant", "input"))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("how", ["zero", "expanded"])
def test_states_of_zeros_are_left_out_in_any_size(how, way):
    model, _ = Net("LSTM", way, first_h=how, first_c=how, peepholes="zero").made()
    for node in recurrent(canonical(model)):
        assert len(node.inputs) == 4


def test_a_state_that_is_zero_in_one_direction_is_left_out_there():
    net = Net("GRU", "bidirectional", first_h="constant")
    model, _ = net.made()
    values = next(each for each in model.graph.initializer if each.name == "first_h")
    numbers = np.frombuffer(values.raw_data, np.float32).copy().reshape(2, -1)
    numbers[0] = 0
    values.raw_data = numbers.tobytes()
    forward, backward = recurrent(canonical(model))
    assert len(forward.inputs) == 4 and len(backward.inputs) == 6


def test_results_that_nobody_reads_are_not_written():
    model, _ = Net("LSTM", outputs=frozenset("yhc")).made()
    del model.graph.output[1:]
    (node,) = recurrent(canonical(model))
    assert [each.name for each in node.outputs] == ["y"]
