"""Ops of two tensors, sums and means: integer where what they read is on integers."""

import numpy as np
import pytest

import qpasses
from tests.support.small_models import model, numbers

NORM = """
    mean = ReduceMean <axes = [-1]> (x) d = Sub (x, mean) s = Mul (d, d)
    var = ReduceMean <axes = [-1]> (s) e = Add (var, eps) root = Sqrt (e)
"""


def feeds(*names, shape=(4, 2, 3)):
    sizes = range(4)
    return [{n: numbers(*shape, seed=10 * s + i) for i, n in enumerate(names)} for s in sizes]


def quantized(text, samples, **constants):
    made = model(text, opset=17, **constants)
    result = qpasses.quantize(made, samples)
    again = qpasses.verify(result.model, made, samples)
    assert again.verdict == result.verdict
    return result


def ops(result):
    return {node.op_type for node in result.model.graph.node if node.domain}


def sqnr(result):
    return result.report["accuracy"]["outputs"][0]["sqnr_db"]


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Max", "MatMul"])
def test_an_op_of_two_inputs_is_integer(op):
    right = "float[N, 3, 2] z" if op == "MatMul" else "float[N, 2, 3] z"
    text = f"g (float[N, 2, 3] x, {right}) => (float[N, 2, K] y) {{ y = {op} (x, z) }}"
    samples = feeds("x", "z")
    if op == "MatMul":
        samples = [{"x": f["x"], "z": f["z"].reshape(4, 3, 2)} for f in samples]
    result = quantized(text, samples)
    assert result.verdict == "ok"
    assert sqnr(result) > 30


@pytest.mark.parametrize("op", ["ReduceMean", "ReduceSum"])
def test_a_reduction_of_an_input_that_is_the_output_is_integer(op):
    axes = "(x, last)" if op == "ReduceSum" else "<axes = [-1]> (x)"
    text = f"g (float[N, 2, 3] x) => (float[N, 2, 1] y) {{ y = {op} {axes} }}"
    result = quantized(text, feeds("x"), last=np.array([-1]))
    assert result.verdict == "ok"
    assert ops(result) <= {"IntReduce", "IntGlobalAveragePool"}


@pytest.mark.parametrize(
    ("square", "expected"),
    [("Abs (d)", {"IntGemm"}), ("Mul (d, d)", {"IntGemm", "IntLayerNorm"})],
)
def test_a_norm_written_out_in_front_stays_float_if_it_is_not_recognized(square, expected):
    body = f"{NORM.replace('Mul (d, d)', square)} n = Div (d, root) y = MatMul (n, w)"
    text = f"g (float[N, 2, 3] x) => (float[N, 2, 4] y) {{ {body} }}"
    constants = {"eps": np.float32(1e-5), "w": numbers(3, 4)}
    result = quantized(text, feeds("x"), **constants)
    assert ops(result) == expected
    assert sqnr(result) > 30


def test_a_sum_of_floats_stays_float_and_one_with_a_residual_does_not():
    text = """g (float[N, 2, 3] x, float[N, 2, 3] z)
    => (float[N, 2, 3] y, float[N, 2, 1] both) {
        p = ReduceProd <axes = [2]> (x)
        q = ReduceProd <axes = [2]> (z)
        [floats] both = Add (p, q)
        a = MatMul (x, w) [residual] t = Add (p, a) y = MatMul (t, w)
    }"""
    result = quantized(text, feeds("x", "z"), w=numbers(3, 3))
    reasons = {n["name"]: n["reason"] for n in result.report["summary"]["float_nodes"]}
    assert reasons["floats"] == "Add of two tensors none of which is on integers"
    assert "residual" not in reasons


SEVERAL_AXES = {
    "Add (x, c)": "IntAdd",
    "Add (c, x)": "IntAdd",
    "Sub (x, c)": "IntSub",
    "Sub (c, x)": "IntSub",
    "Mul (x, c)": "IntMul",
    "Div (x, c)": "IntMul",
    "Max (x, c)": "LutPair",
    "Mul (c, x)": "IntMul",
}


@pytest.mark.thinned
@pytest.mark.parametrize("shape", [(2, 3), (1, 2, 3), (5, 1, 1, 1), (4, 2, 3)])
@pytest.mark.parametrize("expression", SEVERAL_AXES)
def test_a_constant_along_several_axes_is_an_operand(expression, shape):
    sizes = ", ".join(map(str, np.broadcast_shapes((4, 2, 3), shape)))
    text = f"g (float[4, 2, 3] x) => (float[{sizes}] y) {{ [it] y = {expression} }}"
    c = (np.abs(numbers(*shape, seed=5)) + 0.3).astype(np.float32)
    result = quantized(text, feeds("x"), c=c)
    made_of = {"LutPair", "Lut"} if SEVERAL_AXES[expression] == "IntMul" else set()
    assert result.verdict == "ok"
    assert ops(result) <= {SEVERAL_AXES[expression], *made_of}
    assert sqnr(result) > 30
