"""The order of nodes: topological, whatever the depth."""

import random

import numpy as np
import pytest

import qpasses
from opsets.errors import ModelError
from qpasses.ir.interchange import import_graph
from qpasses.ir.order import sort_nodes
from tests.support.small_models import model, numbers

DEEP = 600


def row(count):
    """So many convolutions in a row."""
    lines = [f"t{i + 1} = Conv (t{i}, w)" for i in range(count)]
    text = f"g (float[1, 2, 3, 3] t0) => (float[1, 2, 3, 3] t{count}) {{ {' '.join(lines)} }}"
    return model(text, opset=17, w=np.float32([[0.7, -0.7], [0.7, 0.7]]).reshape(2, 2, 1, 1))


def test_many_nodes_in_a_row_come_through():
    made = qpasses.quantize(row(DEEP), [{"t0": numbers(1, 2, 3, 3)}])
    assert made.verdict == "ok"
    assert [node.op_type for node in made.model.graph.node].count("IntConv") == DEEP


def test_shuffled_nodes_are_put_in_order():
    graph = import_graph(row(DEEP))
    ordered = list(graph.nodes)
    random.Random(0).shuffle(graph.nodes)
    assert graph.nodes != ordered
    sort_nodes(graph)
    assert graph.nodes == ordered


def test_those_of_one_level_stay_as_they_are_found():
    text = """g (float[2] x) => (float[2] y) {
        [a] p = Abs (x) [b] q = Neg (x) [c] r = Exp (q) [d] y = Add (p, r)
    }"""
    graph = import_graph(model(text, opset=17))
    assert [node.name for node in graph.nodes] == ["a", "b", "c", "d"]
    graph.nodes = graph.nodes[::-1]
    sort_nodes(graph)
    assert [node.name for node in graph.nodes] == ["a", "b", "c", "d"]


def test_nodes_in_a_circle_are_an_error_that_names_one():
    graph = import_graph(row(3))
    graph.nodes[0].inputs[0] = graph.nodes[1].outputs[0]
    with pytest.raises(ModelError, match="reads what follows from it"):
        sort_nodes(graph)
