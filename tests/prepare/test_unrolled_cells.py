"""Cells that are written out are LSTM, GRU and RNN, with the results that onnxruntime has."""

import pytest
from hypothesis import example, given

import qpasses
from opsets.target import load_target
from qpasses.ir.interchange import import_graph
from qpasses.ir.rewriting import Context, run_passes
from qpasses.ir.settings import Settings
from qpasses.ir.shapes import infer_shapes
from qpasses.prepare.recognize_unrolled_cells import RecognizeUnrolledCells
from tests.prepare.test_walked_cells import is_the_same, ops, rewritten
from tests.support.thoroughness import thoroughly
from tests.support.unrolled_cells import Unrolled, unrolled
from tests.support.written_cells import GATES, Writing, writings


@thoroughly(300)
@given(unrolled(writings()))
@example(Unrolled(Writing("LSTM", steps=4, order="ifco", is_gemm=True), axis=1, shown="all"))
@example(Unrolled(Writing("GRU", steps=2, linear_before_reset=True, blend=1), parts="split"))
@example(Unrolled(Writing("LSTM", steps=3, peepholes=True), parts="slice", is_reversed=True))
@example(Unrolled(Writing("RNN", steps=1)))
def test_written_out_cells_are_the_net_and_compute_what_they_did(cells):
    model, feed = cells.made()
    graph, _ = rewritten(model, RecognizeUnrolledCells())
    steps = recognized_steps(cells)
    assert ops(graph) == ([cells.how.op] if steps else [])
    for node in graph.nodes:
        if node.op in GATES:
            assert node.inputs[0].shape[0] == steps
    is_the_same(model, graph, feed)


def recognized_steps(cells):
    """How many are one net: a first one from constants is folded, but for one from zeros.

    Where x and the state stand beside each other nothing is.
    """
    is_joined = cells.how.product == "joined" and cells.how.op != "GRU"
    if cells.how.peepholes and cells.how.op == "LSTM":  # of a constant c they are folded
        is_joined &= cells.first != "constant"
    is_known = cells.first == "zero"
    folded = cells.first != "input" and not is_joined and not is_known
    steps = cells.how.steps - folded
    return steps * (cells.how.is_said_by_onnx and steps > 1)


@pytest.mark.parametrize("op", GATES)
def test_layers_that_are_written_out_are_a_net_each(op):
    model, feed = Unrolled(Writing(op, size=2, hidden=2), shown="all", layers=3).made()
    graph, _ = rewritten(model, RecognizeUnrolledCells())
    assert ops(graph) == [op] * 3
    assert not {"Gather", "Concat"} & {node.op for node in graph.nodes}
    is_the_same(model, graph, feed)


def test_many_steps_take_no_time_for_each_pair_of_them():
    model, _ = Unrolled(Writing("LSTM", steps=600, size=2, hidden=2), shown="all").made()
    graph, _ = rewritten(model, RecognizeUnrolledCells())
    assert ops(graph) == ["LSTM"]


def test_an_excluded_node_of_a_step_keeps_it():
    model, _ = Unrolled(Writing("RNN")).made()
    graph = import_graph(infer_shapes(model))
    context = Context(Settings(load_target("onnx")))
    context.selection.excluded["h2_node"] = "so"
    run_passes([RecognizeUnrolledCells()], graph, context)
    assert ops(graph) == []


def test_steps_that_read_rows_of_other_sizes_stay():
    model, feed = Unrolled(Writing("RNN", rows=1, size=1, hidden=1, steps=2)).made()
    first = next(node for node in model.graph.node if node.op_type == "Gather")
    first.input[0] = "h0"
    graph, _ = rewritten(model, RecognizeUnrolledCells())
    assert ops(graph) == []
    is_the_same(model, graph, feed)


@pytest.mark.parametrize("opset", [18, 20, 21])
def test_nets_are_raised_to_an_opset_of_states_in_16_bits(opset):
    cells = Unrolled(Writing("LSTM", steps=4, order="ifco"), axis=1, shown="all")
    model, feed = cells.made()
    model.opset_import[0].version = opset
    result = qpasses.quantize(model, [feed] * 3)
    assert [each.op for each in result.evidence if each.op.startswith("Int")] == ["IntLstm"]
    assert qpasses.verify(result.model, model, [feed] * 3).verdict == result.verdict
