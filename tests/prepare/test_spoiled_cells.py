"""Cells with a fault in them: whatever becomes of them computes what they did."""

import numpy as np
import onnx
from hypothesis import given
from hypothesis import strategies as st

from calibration import Session
from opsets.errors import ModelError
from qpasses.prepare.recognize_looped_cell import RecognizeLoopedCell
from qpasses.prepare.recognize_scanned_cell import RecognizeScannedCell
from qpasses.prepare.recognize_unrolled_cells import RecognizeUnrolledCells
from tests.prepare.test_walked_cells import is_the_same, rewritten
from tests.support.thoroughness import thoroughly
from tests.support.unrolled_cells import unrolled
from tests.support.walked_cells import walks
from tests.support.written_cells import writings

OTHERS = {
    "Add": ["Sub", "Mul", "Max"],
    "Sub": ["Add", "Mul"],
    "Mul": ["Add", "Sub", "Div"],
    "Sigmoid": ["Tanh", "HardSigmoid", "Exp"],
    "HardSigmoid": ["Sigmoid", "Relu"],
    "Tanh": ["Sigmoid", "Relu", "Sin"],
    "Relu": ["Tanh", "Abs"],
    "Softsign": ["Tanh"],
    "LeakyRelu": ["Relu"],
    "Less": ["LessOrEqual", "Greater"],
    "Identity": ["Neg"],
}


def spoiled(model, draw):
    """``model`` with one node of its steps changed: its op, what it reads, or a weight.

    Loops must have a number of steps that ends them whatever their condition becomes.
    """
    graph = model.graph
    bodies = [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
    inside = bodies[0] if bodies else graph
    how = draw(st.sampled_from(["op", "op", "input", "turn", "weight"]))
    nodes = [each for each in inside.node if how != "op" or each.op_type in OTHERS]
    node = draw(st.sampled_from(nodes))
    if how == "op":
        node.op_type = draw(st.sampled_from(OTHERS[node.op_type]))
    elif how == "input":
        place = draw(st.integers(0, len(node.input) - 1))
        before = [*inside.node][: [*inside.node].index(node)]
        names = [name for each in before for name in each.output]
        names += [each.name for each in (*inside.input, *inside.initializer)]
        node.input[place] = draw(st.sampled_from(names or [node.input[place]]))
    elif how == "turn":
        node.input[:] = [*node.input][::-1]
    else:
        floats = [t for t in inside.initializer if t.data_type == onnx.TensorProto.FLOAT]
        if floats:
            tensor = draw(st.sampled_from(floats))
            values = onnx.numpy_helper.to_array(tensor) * np.float32(1.5)
            tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    return model


def runs(model, feed):
    try:
        onnx.checker.check_model(model, full_check=True)
        found = Session(model, optimize=False).run(None, feed)
    except (ModelError, onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return False
    return all(np.isfinite(each).all() and np.abs(each).max(initial=0) < 1e3 for each in found)


def stays_the_same(made, recognition, draw):
    model, feed = made
    model = spoiled(model, draw)
    if runs(model, feed):
        graph, _ = rewritten(model, recognition)
        is_the_same(model, graph, feed)


@thoroughly(1000)
@given(walks(writings(), ["number", "length"]), st.data())
def test_a_loop_with_a_fault_computes_what_it_did(walk, data):
    stays_the_same(walk.loop(), RecognizeLoopedCell(), data.draw)


@thoroughly(1000)
@given(walks(writings(), ["number"]), st.data())
def test_a_scan_with_a_fault_computes_what_it_did(walk, data):
    stays_the_same(walk.scan(), RecognizeScannedCell(), data.draw)


@thoroughly(1000)
@given(unrolled(writings()), st.data())
def test_steps_with_a_fault_compute_what_they_did(cells, data):
    stays_the_same(cells.made(), RecognizeUnrolledCells(), data.draw)
