"""Branches of quantized models that nothing runs: the model says how they store tensors."""

from functools import cache

import numpy as np

import qpasses
from tests.support.small_models import model, numbers

TEXT = """g (float[3, 1, 4] x, bool c) => (float[2, 1, 4] y) {
    h = MatMul (x, w)
    [choice] y = If (c) <
        then_branch = yes () => (float[2, 1, 4] a) { A, a = NET (h, W, R) },
        else_branch = no () => (float[2, 1, 4] b) { B, b = NET (h, W, R) }
    >
}"""
"""Of both directions, so that there is more than one node: what is turned is stored, too."""


@cache
def quantized(op, gates):
    """A model whose tensors carry Q/DQ pairs, and samples of both branches in turns."""
    net = f'{op} <hidden_size = 4, direction = "bidirectional">'
    weights = {"W": numbers(2, gates * 4, 4, seed=1), "R": numbers(2, gates * 4, 4, seed=2)}
    original = model(TEXT.replace("NET", net), opset=21, w=numbers(4, 4), **weights)
    feeds = [
        {"x": numbers(3, 1, 4, seed=seed), "c": np.array(seed % 2 == 0)} for seed in range(6)
    ]
    return qpasses.quantize(original, feeds, emit="qdq").model, feeds


def reasons(made):
    return {e["name"]: e["reason"] for e in made.report["summary"]["float_nodes"]}


def verified(made, source, feeds):
    found = qpasses.verify(made.model, source, feeds)
    return found.report["summary"]["problems"], found.verdict


def test_without_samples_both_branches_are_as_the_model_says():
    source, feeds = quantized("GRU", 3)
    made = qpasses.integerize(source)
    assert (reasons(made), made.verdict) == ({}, "ok")
    assert verified(made, source, feeds) == ([], "ok")


def test_cells_that_nothing_tells_leave_their_node_in_float():
    source, feeds = quantized("LSTM", 4)
    made = qpasses.integerize(source)
    left = reasons(made)
    assert left
    assert all("its cells, a value" in reason for reason in left.values()), left
    assert verified(made, source, feeds) == ([], "incomplete")


def test_with_samples_cells_are_known():
    source, feeds = quantized("LSTM", 4)
    made = qpasses.integerize(source, feeds)
    assert (reasons(made), made.verdict) == ({}, "ok")
    assert verified(made, source, feeds) == ([], "ok")


def test_a_branch_that_no_sample_takes_stays_float_with_what_it_stores():
    source, feeds = quantized("LSTM", 4)
    taken = [{**each, "c": np.array(True)} for each in feeds]
    made = qpasses.integerize(source, taken)
    assert {*reasons(made).values()} == {"no sample runs body 'else' of 'choice'"}
    assert verified(made, source, feeds) == ([], "incomplete")
