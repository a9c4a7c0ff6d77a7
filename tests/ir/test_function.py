"""Functions of one number as small ONNX models: their text, and what they compute."""

import base64

import numpy as np
import pytest

from opsets.errors import ModelError
from qpasses.ir.elementwise import ELEMENTWISE
from qpasses.ir.function import Function
from qpasses.ir.graph import constant
from qpasses.ir.interchange import import_graph
from tests.support.small_models import model

OPSET = 21

EVERYWHERE = np.linspace(-4, 4, 161)
POSITIVE = np.linspace(0.05, 6, 120)
INSIDE_ONE = np.linspace(-0.95, 0.95, 77)

OPS = {
    "Abs (x)": EVERYWHERE,
    "Acos (x)": INSIDE_ONE,
    "Acosh (x)": POSITIVE + 1,
    "Add (x, half)": EVERYWHERE,
    "Asin (x)": INSIDE_ONE,
    "Asinh (x)": EVERYWHERE,
    "Atan (x)": EVERYWHERE,
    "Atanh (x)": INSIDE_ONE,
    "Ceil (x)": EVERYWHERE,
    "Celu <alpha = 0.7> (x)": EVERYWHERE,
    "Clip (x, half, two)": EVERYWHERE,
    "Cos (x)": EVERYWHERE,
    "Cosh (x)": EVERYWHERE,
    "Div (two, x)": POSITIVE,
    "Elu <alpha = 0.7> (x)": EVERYWHERE,
    "Erf (x)": EVERYWHERE,
    "Exp (x)": EVERYWHERE,
    "Floor (x)": EVERYWHERE,
    "Gelu (x)": EVERYWHERE,
    'Gelu <approximate = "tanh"> (x)': EVERYWHERE,
    "HardSigmoid <alpha = 0.3, beta = 0.4> (x)": EVERYWHERE,
    "HardSwish (x)": EVERYWHERE,
    "LeakyRelu <alpha = 0.1> (x)": EVERYWHERE,
    "Log (x)": POSITIVE,
    "Max (x, half, two)": EVERYWHERE,
    "Mean (x, half, x)": EVERYWHERE,
    "Min (half, x)": EVERYWHERE,
    "Mish (x)": EVERYWHERE,
    "Mod <fmod = 1> (x, two)": EVERYWHERE,
    "Mul (x, half)": EVERYWHERE,
    "Neg (x)": EVERYWHERE,
    "PRelu (x, half)": EVERYWHERE,
    "Pow (x, half)": POSITIVE,
    "Pow (x, cube)": EVERYWHERE,
    "Reciprocal (x)": POSITIVE,
    "Relu (x)": EVERYWHERE,
    "Round (x)": EVERYWHERE,
    "Selu (x)": EVERYWHERE,
    "Shrink <bias = 0.5, lambd = 1.5> (x)": EVERYWHERE,
    "Sigmoid (x)": EVERYWHERE,
    "Sign (x)": EVERYWHERE,
    "Sin (x)": EVERYWHERE,
    "Sinh (x)": EVERYWHERE,
    "Softplus (x)": EVERYWHERE,
    "Softsign (x)": EVERYWHERE,
    "Sqrt (x)": POSITIVE,
    "Sub (two, x)": EVERYWHERE,
    "Sum (x, half, two)": EVERYWHERE,
    "Tan (x)": INSIDE_ONE,
    "Tanh (x)": EVERYWHERE,
    "ThresholdedRelu <alpha = 0.7> (x)": EVERYWHERE,
}
"""Every elementwise op, and numbers for which it is defined."""

CONSTANTS = {"half": np.float32(0.5), "two": np.float32(2), "cube": np.int64(3)}

SILU = "s = Sigmoid (x) y = Mul (x, s)"

every_op = pytest.mark.parametrize("op", OPS)


def function_of(body, given="x", result="y", **constants):
    """What ONNX's text makes of ``given``: ``result``."""
    text = f"g (float[N] {given}) => (float[N] {result}) {{ {body} }}"
    graph = import_graph(model(text, opset=OPSET, **constants))
    nodes = [node for node in graph.nodes if constant(node.outputs[0]) is None]
    return Function.of(nodes, graph.inputs, graph.outputs[0], OPSET)


def of_op(op):
    return function_of(f"y = {op}", **{k: v for k, v in CONSTANTS.items() if k in op})


def test_there_is_a_case_of_every_elementwise_op():
    assert {op.split()[0] for op in OPS} == ELEMENTWISE


# Text


@every_op
def test_its_text_holds_the_whole_function(op):
    function = of_op(op)
    again = Function.from_text(function.as_text())
    assert again == function
    assert again.as_text() == function.as_text()
    assert again.as_text().isascii()


@pytest.mark.parametrize(
    "text",
    [
        "no base 64",
        "äöü",
        "QQ",  # padding is missing
        base64.b64encode(b"no protocol buffer").decode(),
        base64.b64encode(b"\xff" * 40).decode(),
        function_of(SILU).as_text()[:-4],
        "%" + function_of(SILU).as_text(),
    ],
)
def test_other_text_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"function|ASCII"):
        Function.from_text(text)


def test_names_and_what_nobody_computes_with_leave_no_trace():
    """Neither names of tensors and nodes, nor of the graph, nor documentation, nor order."""
    plain = function_of(SILU)
    assert function_of("[n] q = Sigmoid (a) [m] b = Mul (a, q)", "a", "b") == plain
    assert plain.ops == ["Sigmoid", "Mul"]
    made = model(f"other (float[N] x) => (float[N] y) {{ {SILU} }}", opset=OPSET)
    made.doc_string = made.graph.node[0].doc_string = "what it is"
    graph = import_graph(made)
    assert Function.of(graph.nodes, graph.inputs, graph.outputs[0], OPSET) == plain


def test_the_order_of_attributes_does_not_matter():
    ways = ("alpha = 0.3, beta = 0.4", "beta = 0.4, alpha = 0.3")
    texts = {function_of(f"y = HardSigmoid <{each}> (x)").as_text() for each in ways}
    assert len(texts) == 1


def test_attributes_constants_and_opset_are_part_of_it():
    bodies = ["Elu (x)", "Elu <alpha = 0.5> (x)", "Mul (x, half)", "Mul (x, two)"]
    assert len({of_op(body).as_text() for body in bodies}) == len(bodies)
    graph = import_graph(model("g (float[N] x) => (float[N] y) { y = Elu (x) }"))
    older = Function.of(graph.nodes, graph.inputs, graph.outputs[0], 17)
    assert older != of_op("Elu (x)")
    assert [each.version for each in older.model.opset_import] == [17]


def test_one_number_in_whatever_shape_is_the_same_constant():
    shapes = [(), (1,), (1, 1, 1)]
    texts = {
        function_of("y = Mul (x, k)", k=np.full(shape, 0.3, np.float32)).as_text()
        for shape in shapes
    }
    assert len(texts) == 1


# What it computes


@every_op
def test_float32_in_onnxruntime_is_close_to_float64(op):
    function, x = of_op(op), OPS[op].astype(np.float32)
    found, real = function.run(x), function.real(x.astype(np.float64))
    assert (found.dtype, real.dtype) == (np.float32, np.float64)
    assert found.shape == real.shape == x.shape
    np.testing.assert_allclose(found, real, rtol=2e-5, atol=2e-6)


@every_op
def test_float64_is_more_than_float32(op):
    """No step in between rounds to float32: what lies closer together than that differs.

    But for Erf, which onnx's evaluator rounds.
    """
    x = np.array([1 / 3, 1 / 3 + 2.0**-40]) + (1.5 if op.startswith("Acosh") else 0)
    first, second = of_op(op).real(x)
    flat = {"Ceil", "Floor", "Round", "Sign", "Clip", "Max", "ThresholdedRelu", "Shrink"}
    assert (first == second) == (op.split()[0] in {*flat, "Erf"})


@pytest.mark.parametrize("op", ["Log (x)", "Sqrt (x)", "Acosh (x)", "Pow (x, half)"])
def test_both_are_nan_where_it_is_not_defined(op):
    function, x = of_op(op), np.array([-2.0, -1.0])
    assert np.isnan(function.real(x)).all()
    assert np.isnan(function.run(x.astype(np.float32))).all()


@pytest.mark.parametrize(("op", "end"), [("Log (x)", -np.inf), ("Reciprocal (x)", np.inf)])
def test_both_are_infinite_at_poles(op, end):
    function = of_op(op)
    assert function.real(np.zeros(2)).tolist() == [end, end]
    assert function.run(np.zeros(2, np.float32)).tolist() == [end, end]


def test_a_tensor_that_is_read_twice_is_one():
    x = np.array([-1.5, 0.0, 2.0])
    found = function_of("a = Mul (x, x) b = Sub (a, x) y = Add (b, a)").real(x)
    assert found.tolist() == (2 * x * x - x).tolist()


def test_a_left_out_bound_stays_left_out():
    function = function_of("y = Clip (x, , two)", two=np.float32(2))
    assert function.run(np.float32([-9, 9])).tolist() == [-9, 2]


def test_what_the_evaluator_cannot_do_is_a_model_error():
    function = function_of(SILU)
    function.model.graph.node[0].op_type = "NoSuchOp"
    with pytest.raises(ModelError, match="NoSuchOp"):
        function.real(np.zeros(2))
    with pytest.raises(ModelError):
        function.run(np.zeros(2, np.float32))


@pytest.mark.parametrize("nothing", ["", base64.b64encode(b"").decode()])
def test_an_empty_model_is_a_model_error(nothing):
    function = Function.from_text(nothing)
    with pytest.raises(ModelError):
        function.real(np.zeros(2))
