"""Sizes that a float model says of its outputs in another way than of its inputs."""

import numpy as np
import pytest
from onnx import helper

import qpasses
from tests.support.small_models import model, numbers

NET = """g (float[N, 8] x) => (float[SIZE, 4] y) {
    z = Unsqueeze (x, axis)
    all, last = GRU <hidden_size = 8> (z, w, r)
    h = Squeeze (last, axis)
    y = Gemm <transB = 1> (h, v, b)
}"""
WEIGHTS = {"w": numbers(1, 24, 8), "r": numbers(1, 24, 8, seed=3), "axis": np.array([0])}
WEIGHTS |= {"v": numbers(4, 8, seed=1), "b": numbers(4, seed=2)}
FEEDS = [{"x": numbers(2, 8, seed=seed)} for seed in range(6)]


def quantized(size):
    """A Q/DQ model whose output has that size, and what is made of it."""
    given = qpasses.quantize(model(NET.replace("SIZE", size), **WEIGHTS), FEEDS, emit="qdq")
    return given.model, qpasses.integerize(given.model, FEEDS).model


def problems(integer, given, feeds=FEEDS):
    return qpasses.verify(integer, given, feeds).report["summary"]["problems"]


@pytest.mark.parametrize("size", ["N", "Gemmy_dim_0", "3"])
def test_a_name_or_number_that_an_exporter_made_up_is_no_problem(size):
    given, integer = quantized(size)
    assert problems(integer, given) == []


@pytest.mark.thinned
@pytest.mark.parametrize("size", ["N", "Gemmy_dim_0", "3"])
@pytest.mark.parametrize("other", ["another", 2, 5])
def test_what_is_said_otherwise_is_one(size, other):
    given, integer = quantized(size)
    (value,) = (v for v in integer.graph.value_info if v.name.startswith("y_float_quantized"))
    value.type.CopyFrom(
        helper.make_tensor_type_proto(value.type.tensor_type.elem_type, [other, 4])
    )
    assert any(value.name in each for each in problems(integer, given))


def test_a_size_that_only_the_model_names_keeps_its_name():
    given = model(
        """g (float[N, 8] x) => (float[M, 4] y, int64[2, FOUND] z) {
            m = MatMul (x, w) y = Relu (m) z = NonZero (y)
        }""",
        w=numbers(8, 4),
    )
    feeds = [{"x": numbers(3, 8, seed=seed)} for seed in range(4)]
    made = qpasses.quantize(given, feeds)
    sizes = [
        [dim.dim_value or dim.dim_param for dim in each.type.tensor_type.shape.dim]
        for each in made.model.graph.output
    ]
    assert sizes == [["N", 4], [2, "FOUND"]]
    assert problems(made.model, given, feeds) == []


@pytest.mark.parametrize("sizes", [[1, 1, 4], [2, 1, 3], None])
def test_a_last_state_that_nothing_reads_is_as_large_as_that_of_a_step(sizes):
    """A fault of the campaign survived: no tensor of the float model is meant by it."""
    net = model(
        "g (float[6, 1, 4] x) => (float[] y) { y = LSTM <hidden_size = 3> (x, w, r) }",
        w=numbers(1, 12, 4),
        r=numbers(1, 12, 3, seed=1),
    )
    feeds = [{"x": numbers(6, 1, 4, seed=k)} for k in range(3)]
    made = qpasses.quantize(net, feeds).model
    node = next(each for each in made.graph.node if each.op_type == "IntLstm")
    value = next(each for each in made.graph.value_info if each.name == node.output[1])
    if sizes is None:
        value.type.tensor_type.ClearField("shape")
    else:
        for dim, size in zip(value.type.tensor_type.shape.dim, sizes, strict=True):
            dim.dim_value = size
    problems = qpasses.verify(made, net, feeds).report["summary"]["problems"]
    assert any(f"{value.name!r} is said to have sizes" in each for each in problems), problems
