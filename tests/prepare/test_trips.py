"""How often a Loop runs is what onnxruntime counts, or is not said."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from calibration import Session
from qpasses.ir.interchange import import_graph
from qpasses.ir.shapes import infer_shapes
from qpasses.prepare.recognition.trips import Trips
from tests.support.thoroughness import thoroughly
from tests.support.written_cells import value

INT, BOOL, FLOAT = TensorProto.INT64, TensorProto.BOOL, TensorProto.FLOAT


def loop(most, start, step, shift, limit, is_greater, is_kept):
    """A Loop of a counter from ``start`` on, while it and ``shift`` are below ``limit``.

    ``most``: the number of steps, None where it is not given; ``is_kept``: the condition that
    comes in must hold too.
    """
    numbers = {"step": step, "shift": shift, "limit": limit}
    nodes = [
        helper.make_node("Add", ["k", "step"], ["k_new"]),
        helper.make_node("Sub", ["k_new", "shift"], ["shifted"]),
        helper.make_node("Cast", ["shifted"], ["wide"], to=FLOAT),
        helper.make_node("Cast", ["limit"], ["wide_limit"], to=FLOAT),
        helper.make_node("Greater", ["wide_limit", "wide"], ["below"])
        if is_greater
        else helper.make_node("Less", ["wide", "wide_limit"], ["below"]),
        helper.make_node("And", ["below", "more"] if is_kept else ["below", "below"], ["go"]),
        helper.make_node("Identity", ["i"], ["seen"]),
    ]
    body = helper.make_graph(
        nodes,
        "body",
        [value("i", kind=INT), value("more", kind=BOOL), value("k", kind=INT)],
        [value("go", kind=BOOL), value("k_new", kind=INT), value("seen", kind=INT)],
        [numpy_helper.from_array(np.array(v), name) for name, v in numbers.items()],
    )
    given = {"yes": np.array(True), "start": np.array(start)}
    if most is not None:
        given["most"] = np.array(most)
    inputs = ["" if most is None else "most", "yes", "start"]
    node = helper.make_node("Loop", inputs, ["last", "all"], "loop", body=body)
    graph = helper.make_graph(
        [node],
        "counted",
        [],
        [value("last", kind=INT), value("all", None, kind=INT)],
        [numpy_helper.from_array(values, name) for name, values in given.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def said(model):
    (node,) = import_graph(infer_shapes(model, inside=False), are_apart=True).nodes
    return Trips(node).length()


small, whether = st.integers(-3, 6), st.booleans()
most_steps = st.none() | st.integers(0, 8)


@thoroughly(200)
@given(most_steps, st.tuples(small, st.integers(1, 2), small, small, whether, whether))
@example(3, (0, 1, 0, 3, False, False))
@example(None, (0, 1, 0, 3, True, True))
@example(None, (5, 1, 0, 3, False, False))
@example(0, (0, 1, 0, 3, False, True))
def test_a_constant_number_of_steps_is_what_is_counted(most, given):
    model = loop(most, *given)
    (_, seen) = Session(model, optimize=False).run(None, {})
    assert said(model) == (len(seen) if given[1] == 1 and most != 0 else None)


def test_a_limit_that_is_data_is_not_said():
    model = loop(3, 0, 1, 0, 3, False, False)
    model.graph.input.append(value("most", kind=INT))
    del model.graph.initializer[-1]
    assert said(model) is None


@pytest.mark.parametrize("most", [2**31 - 1, 2**63 - 1])
def test_a_limit_that_is_none_leaves_the_other(most):
    assert said(loop(most, 0, 1, 0, 3, False, False)) == 3
