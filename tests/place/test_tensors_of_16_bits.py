"""Tensors that a user wants in 16 bits: whatever reads and writes them, all is integer."""

import numpy as np
import pytest

from opsets.realised import takes_words
from opsets.target import load_target, target_names
from qpasses import quantize, verify
from qpasses.ir.metadata import read_record
from tests.support.small_models import model, numbers

ALL = {"tensor_types": [".*=int16"]}


def made(body, shape=(2, 4), ends="float[A,B] y", values=None, **options):
    sizes = ",".join(map(str, shape))
    constants = {"c": np.float32([1, 2, -1, 0.5]), "one": np.float32([2])}
    constants |= {
        "m": numbers(4, 3, seed=9),
        "low": np.float32(-2.0),
        "high": np.float32(-0.75),
    }
    net = model(f"g (float[{sizes}] x) => ({ends}) {{ {body} }}", opset=21, **constants)
    feeds = [{"x": numbers(*shape, seed=3) if values is None else np.float32(values)}]
    result = quantize(net, feeds, **(ALL | options))
    assert verify(result.model, net, feeds).verdict == result.verdict
    return result


def ops(result):
    return [node.op_type for node in result.model.graph.node]


TWO = "float[A,B] y, float[A,B] t"


def test_inputs_and_outputs_of_16_bits_may_be_integers():
    result = made("y = Relu (x)", integer_io=True)
    kinds = [each.type.tensor_type.elem_type for each in result.model.graph.input]
    kinds += [each.type.tensor_type.elem_type for each in result.model.graph.output]
    assert (kinds, ops(result)) == ([5, 5], ["IntRescale"])  # 5 is INT16


@pytest.mark.thinned
@pytest.mark.parametrize(
    "body",
    [
        "t = PRelu (x, c) y = Relu (t)",
        "t = Mul (x, one) y = Max (t, c)",
        "t = Sigmoid (x) y = PRelu (t, c)",
        "t = Sigmoid (x) u = Mul (t, c) y = Clip (u)",
    ],
)
def test_chains_that_differ_by_channel_are_tables_whatever_is_made_beside(body):
    result = made(body, ends=TWO)
    assert result.verdict == "ok", result.report["summary"]["float_nodes"]
    assert {"LutPerChannel", "LutInterpolatedPerChannel"} & {*ops(result)}


def test_a_scale_beyond_64_bits_of_another_is_proved():
    result = made("y = Clip (x, low, high)", (1, 2), values=[[-1e24, 1e24]])
    assert "IntRescale" in ops(result) and result.verdict == "ok"


def test_targets_that_take_them():
    taking = {name for name in target_names() if takes_words(load_target(name))}
    assert taking == {"exact", "litert", "onnx", "tflm", "tosa"}


@pytest.mark.parametrize("types", [{}, ALL])
def test_a_normalization_of_many_axes_runs(types):
    """Its kernel knows windows of three: axes of which they have one cell are joined."""
    constants = {name: numbers(3, seed=k) ** 2 + 1 for k, name in enumerate("gbmv")}
    body = "y = BatchNormalization (x, g, b, m, v)"
    net = model(f"g (float[2,3,2,1,2,2] x) => (float[] y) {{ {body} }}", opset=21, **constants)
    feeds = [{"x": numbers(2, 3, 2, 1, 2, 2)}]
    result = quantize(net, feeds, **types)
    assert ops(result)[1] == "IntConv"
    assert verify(result.model, net, feeds).verdict == result.verdict == "ok"


def test_sizes_of_tensors_of_16_bits_are_read_where_they_are_stored():
    result = made("t = Sub (x, c) y = Abs (t) n = Shape (t)", ends="float[A,B] y, int64[2] n")
    assert result.verdict == "ok" and ops(result).count("DequantizeLinear") == 1


TOSA = {
    "a layer": "t = MatMul (x, m) y = Relu (t)",
    "a layer of two tensors": "u = Transpose (x) y = MatMul (x, u)",
    "a sum": "t = Relu (x) y = Add (x, t)",
    "a difference": "t = Sigmoid (x) y = Sub (x, t)",
    "a product": "t = Sigmoid (x) y = Mul (x, t)",
    "a square": "y = Mul (x, x)",
    "a mean": "y = ReduceMean (x)",
    "a table": "y = Tanh (x)",
    "a slope": "y = LeakyRelu (x)",
    "a norm": "y = LayerNormalization (x, c)",
    "a quotient of one tensor": "t = Abs (x) u = Add (t, one) y = Div (x, u)",
    "a join": "t = Relu (x) y = Concat <axis = 0> (x, t)",
}


@pytest.mark.thinned
@pytest.mark.parametrize("kind", TOSA)
def test_target_tosa_has_16_bits_of(kind):
    result = made(TOSA[kind], target="tosa", accuracy="fast")
    assert result.verdict == "ok" and not result.report["summary"]["float_nodes"]
    assert not [each for each in result.report["warnings"] if "stays in 8 bits" in each]
    stored = read_record(result.model)[0].tensors.values()
    assert {each.dtype for each in stored} == {"int16"}


@pytest.mark.thinned
@pytest.mark.parametrize("types", [".*=int16", "x=int16", "y=int16"])
@pytest.mark.parametrize(
    ("window", "spatial"),
    [
        ("AveragePool <kernel_shape = [2, 2]>", 4),
        ("AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]>", 4),
        ("GlobalAveragePool", 5),
    ],
)
def test_both_ends_of_a_pool_with_one_scale_have_as_many_bits(window, spatial, types):
    size = [1, 2, spatial, spatial]
    net = model(
        f"g (float[{','.join(map(str, size))}] x) => (float[] y) {{ y = {window} (x) }}"
    )
    feeds = [{"x": numbers(*size, seed=k)} for k in range(3)]
    found = quantize(net, feeds, target="tosa", tensor_types=[types], accuracy="fast")
    assert verify(found.model, net, feeds).verdict == found.verdict == "ok"
    stored = read_record(found.model)[0].tensors.values()
    assert {(each.dtype, each.scale) for each in stored} == {
        ("int16", next(iter(stored)).scale)
    }


def test_a_pool_of_more_cells_than_its_reciprocal_divides_stays_in_float():
    net = model(
        "g (float[1,1,96,96] x) => (float[] y) { y = AveragePool <kernel_shape=[91, 91]> (x) }"
    )
    feeds = [{"x": numbers(1, 1, 96, 96)}]
    found = quantize(net, feeds, target="tosa", tensor_types=[".*=int16"], accuracy="fast")
    (left,) = found.report["summary"]["float_nodes"]
    assert left["reason"] == "AveragePool of more than 8,192 cells"


def test_what_target_tosa_has_not_in_16_bits_keeps_8_and_is_named():
    body = "t = Transpose (x) s = ReduceSum (t) u = Abs (s) v = Add (u, one) y = Div (t, v)"
    result = made(body, target="tosa", accuracy="fast")
    assert result.verdict == "ok" and ops(result).count("LutPair") == 1
    warnings = [each for each in result.report["warnings"] if "stays" in each]
    reasons = [each.partition(" stays in 8 bits: ")[2] for each in warnings]
    assert {*reasons} == {
        f"Div {does} for target 'tosa'" for does in ("takes 8 bits", "writes no 16 bits")
    }
