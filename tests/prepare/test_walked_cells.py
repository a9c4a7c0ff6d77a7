"""Loops and Scans of cells are LSTM, GRU and RNN, with the results that onnxruntime has."""

import numpy as np
import onnx
import pytest
from hypothesis import example, given
from onnx import helper

from calibration import Session
from opsets.errors import UsageError
from opsets.target import load_target
from qpasses import quantize, verify
from qpasses.ir.folding import fold_constants
from qpasses.ir.interchange import import_graph, prepared_model
from qpasses.ir.rewriting import Context, run_passes
from qpasses.ir.settings import Settings
from qpasses.ir.shapes import infer_shapes
from qpasses.prepare.recognize_looped_cell import RecognizeLoopedCell
from qpasses.prepare.recognize_scanned_cell import RecognizeScannedCell
from qpasses.prepare.sequence_to_scan_output import SequenceToScanOutput
from tests.support.thoroughness import thoroughly
from tests.support.walked_cells import Walk, walks
from tests.support.written_cells import GATES, Writing, writings

COUNTS = ["number", "condition", "length", "length condition"]


def rewritten(model, *passes):
    graph = import_graph(infer_shapes(model, inside=False), are_apart=True)
    fold_constants(graph)
    context = Context(Settings(load_target("onnx")))
    run_passes(passes, graph, context)
    return graph, context


def ops(graph):
    return [
        node.op for node in graph.nodes if node.op in ("LSTM", "GRU", "RNN", "Loop", "Scan")
    ]


def is_the_same(model, graph, feed):
    models = prepared_model(graph), model
    names = [each.name for each in model.graph.output]
    ours, theirs = (Session(each, optimize=False).run(names, feed) for each in models)
    for found, expected in zip(ours, theirs, strict=True):
        assert found.shape == expected.shape
        scale = np.abs(expected).max(initial=1)
        assert np.abs(found - expected).max(initial=0) <= 1e-4 * scale


def is_net(walk):
    """Whether a node of ONNX can say it: one whose state may be repeated for all rows not."""
    may_repeat = walk.is_free and walk.how.rows == 1 and walk.first != "input"
    return walk.how.is_said_by_onnx and not may_repeat


@thoroughly(300)
@given(walks(writings(), COUNTS))
@example(Walk(Writing("LSTM", rows=1, order="ifco")))
@example(Walk(Writing("LSTM", peepholes=True, is_coupled=True)))
@example(Walk(Writing("GRU", linear_before_reset=True, blend=1), is_reversed=True))
@example(Walk(Writing("RNN"), fewer=2))
@example(Walk(Writing("GRU"), extra_size=0))
@example(Walk(Writing("GRU"), extra_size=1))
def test_a_loop_of_cells_is_the_net_and_computes_what_it_did(walk):
    model, feed = walk.loop()
    graph, _ = rewritten(model, RecognizeLoopedCell())
    assert ops(graph) == [walk.how.op if is_net(walk) else "Loop"]
    is_the_same(model, graph, feed)


@thoroughly(200)
@given(walks(writings(), ["number"]))
@example(Walk(Writing("LSTM"), axis=1, is_reversed=True, fewer=1, kept_axis=2))
@example(Walk(Writing("GRU"), axis=-2, kept_axis=-2))
def test_a_scan_of_cells_is_the_net_and_computes_what_it_did(walk):
    model, feed = walk.scan()
    graph, _ = rewritten(model, RecognizeScannedCell())
    assert ops(graph) == [walk.how.op if is_net(walk) else "Scan"]
    is_the_same(model, graph, feed)


def as_list(model, axis):
    """``model``, a Loop that gives each hidden state, where it puts them into a list."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    loop = made.graph.node[-1]
    body = next(each.g for each in loop.attribute if each.name == "body")
    body.node.remove(next(each for each in body.node if each.output[0] == "kept"))
    insert = helper.make_node("SequenceInsert", ["list", "h_new"], ["longer"], "insert")
    body.node.append(insert)
    list_of = helper.make_tensor_sequence_value_info
    body.input.append(list_of("list", onnx.TensorProto.FLOAT, None))
    body.output[-1].CopyFrom(list_of("longer", onnx.TensorProto.FLOAT, None))
    loop.input.append("empty")
    loop.output[-1] = "filled"
    begin = helper.make_node("SequenceEmpty", [], ["empty"], "begin", dtype=1)
    made.graph.node.insert(0, begin)
    join = helper.make_node(
        "ConcatFromSequence", ["filled"], ["all"], "join", axis=axis, new_axis=1
    )
    made.graph.node.append(join)
    return made


@pytest.mark.parametrize("axis", [0, 1, -2])
@pytest.mark.parametrize("op", GATES)
def test_hidden_states_in_a_list_are_those_of_all_steps(op, axis):
    model, feed = Walk(Writing(op)).loop()
    model = as_list(model, axis)
    graph, _ = rewritten(model, SequenceToScanOutput(), RecognizeLoopedCell())
    assert ops(graph) == [op]
    assert not {"SequenceEmpty", "ConcatFromSequence"} & {node.op for node in graph.nodes}
    is_the_same(model, graph, feed)


@pytest.mark.parametrize("way", ["loop", "scan"])
def test_a_net_takes_no_node_in_that_the_user_wants_left_alone(way):
    """It was gone when its name was looked for: no node was called so."""
    model, feed = getattr(Walk(Writing("LSTM")), way)()
    whole = next(each for each in model.graph.node if each.op_type in ("Loop", "Scan"))
    whole.name = "net"
    body = next(each.g for each in whole.attribute if each.name == "body")
    inner = next(each for each in body.node if each.op_type == "MatMul")
    inner.name = "inner"
    feeds = [{name: each * scale for name, each in feed.items()} for scale in (0.5, 1.0)]
    free = quantize(model, feeds)
    assert "IntLstm" in [node.op_type for node in free.model.graph.node]
    for pattern in ("net/body/inner", "net"):
        result = quantize(model, feeds, nodes_to_exclude=[pattern])
        floats = {each["name"] for each in result.report["summary"]["float_nodes"]}
        assert "net/body/inner" in floats
        assert verify(result.model, model, feeds).verdict == result.verdict
    with pytest.raises(UsageError, match="no node is called 'net/body/innner'"):
        quantize(model, feeds, nodes_to_exclude=["net/body/innner"])
