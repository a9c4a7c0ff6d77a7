"""Sizes where inference ends are those of a run on made-up numbers."""

import numpy as np

import qpasses
from qpasses.ir.interchange import import_graph, prepared_model
from qpasses.ir.run_sizes import run_sizes
from tests.support.small_models import model, numbers

CUT = """g (float[1, n, 4] x) => (float[1, m, k] y) {
    zeros = Constant <value_ints = [0, 0]> ()
    both = Constant <value_ints = [0, 1]> ()
    rows = Shape <end = 2> (x)
    narrow = Cast <to = 6> (rows)
    least = Min (narrow, most)
    last = Cast <to = 7> (least)
    [cut] c = Slice (table, zeros, last, both)
    [first] f = MatMul (x, w)
    [sum] s = Add (f, c)
    [turn] t = Transpose <perm = [0, 2, 1]> (s)
    [scores] p = MatMul (s, t)
    [shares] a = Softmax (p)
    [mix] y = MatMul (a, s)
}"""
FEEDS = [{"x": numbers(1, 5, 4, seed=seed)} for seed in range(3)]


def net():
    """Positions as transformers cut them from a table; no inference follows Min."""
    constants = {"table": numbers(1, 9, 4), "w": numbers(4, 4), "most": np.int32([1, 9])}
    return model(CUT, opset=17, **constants)


def sizes(given, names, **inputs):
    return run_sizes(prepared_model(import_graph(given)), inputs, names)


def test_a_size_that_follows_from_those_of_inputs_is_known():
    assert sizes(net(), ["s", "p"], x=[1, 5, 4]) == {"s": [1, 5, 4], "p": [1, 5, 5]}
    assert sizes(net(), ["s"], x=[1, 9, 4]) == {"s": [1, 9, 4]}


def test_a_size_that_a_number_makes_is_not():
    text = """g (float[2] x, int64[1] n) => (float[m] y) { [wide] y = Expand (one, n) }"""
    given = model(text, opset=17, one=np.float32([1]))
    assert sizes(given, ["y"], x=[2], n=[1]) == {}


def test_a_size_that_follows_from_numbers_is_not_though_there_is_one_on_each_run():
    text = """g (float[8] x) => (float[m] y) {
        p = Greater (x, zero) [found] n = NonZero (p) [taken] y = Gather (x, n)
    }"""
    given = model(text, opset=17, zero=np.float32(0))
    assert sizes(given, ["p", "n", "y"], x=[8]) == {"p": [8]}


def test_a_model_that_does_not_run_on_such_numbers_says_nothing():
    assert sizes(net(), ["s"], x=[1, 10, 4]) == {}
    assert sizes(net(), ["s"]) == {}


def test_products_and_rows_of_such_sizes_are_integer_and_verified():
    made = qpasses.quantize(net(), FEEDS)
    assert made.report["summary"]["integer_only"], made.report["summary"]["float_nodes"]
    ops = {node.name: node.op_type for node in made.model.graph.node}
    assert (ops["scores"], ops["shares"]) == ("IntMatMul", "TableSoftmax")
    found = qpasses.verify(made.model, net(), FEEDS)
    assert found.verdict == made.verdict == "ok"
    assert made.report["summary"]["macs"] == 5 * 4 * 4 + 2 * 5 * 5 * 4


def test_another_length_of_rows_in_the_record_is_found():
    made = qpasses.quantize(net(), FEEDS)
    for each in made.model.metadata_props:
        if each.key == "qpasses.sizes":
            each.value = each.value.replace("5", "4")
    assert qpasses.verify(made.model, net(), FEEDS).verdict == "failed"
