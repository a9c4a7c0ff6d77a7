"""Quantized nodes whose scales a model computes: left as they are, by name."""

import numpy as np
import onnx.parser
import pytest

import qpasses


def model(body, more=""):
    weights = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
    text = f"""<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
    g (float[4, 8] a{more}) => (float[4, 8] y)
    <uint8 zero = {{128}}, float fixed = {{0.05}}> {{ {body} }}"""
    made = onnx.parser.parse_model(text)
    made.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    return made


def feeds(**more):
    random = np.random.default_rng(1)
    return [{"a": random.normal(size=(4, 8)).astype(np.float32), **more} for _ in range(8)]


BETWEEN = """
    [product] h = MatMul (a, w)
    [store] q = QuantizeLinear (h, s, zero)
    [own] p = QLinearMatMul (q, s, zero, q8, fixed, zero, fixed, zero)
    [read] r = DequantizeLinear (p, fixed, zero)
    [behind] y = MatMul (r, w)
"""


def left(result):
    return {each["name"]: each["reason"] for each in result.report["summary"]["float_nodes"]}


@pytest.fixture(scope="module")
def between():
    made = model(BETWEEN, ", float s")
    codes = np.random.default_rng(2).integers(0, 256, (8, 8)).astype(np.uint8)
    made.graph.initializer.append(onnx.numpy_helper.from_array(codes, "q8"))
    return made, qpasses.quantize(made, feeds(s=np.float32(0.05)))


def test_a_product_whose_scale_is_an_input_is_left_and_all_around_it_becomes_integer(between):
    _, result = between
    assert result.verdict == "incomplete"
    assert left(result) == {
        "store": "QuantizeLinear with a scale found at run time",
        "own": "QLinearMatMul that has no form with Q/DQ (a warning says why)",
    }
    ops = [node.op_type for node in result.model.graph.node if node.domain == "qpasses"]
    assert ops == ["IntGemm", "IntGemm"]
    assert any("its scale 's' is not constant" in w for w in result.report["warnings"])


def test_a_model_with_such_a_product_means_what_it_did(between):
    made, result = between
    real = qpasses.verify(result.model, made, feeds(s=np.float32(0.05)))
    assert real.verdict == "incomplete"
    (accuracy,) = real.report["accuracy"]["outputs"]
    assert accuracy["sqnr_db"] > 20


def test_a_quantize_linear_whose_scale_is_computed_stays_in_the_graph():
    made = model(
        """
        [product] h = MatMul (a, w)
        m = ReduceMax <keepdims = 0> (h)
        high = Constant <value_float = 127.0> ()
        s = Div (m, high)
        [store] q = QuantizeLinear (h, s, zero)
        [cast] f = Cast <to = 1> (q)
        [behind] y = MatMul (f, w)
        """
    )
    result = qpasses.quantize(made, feeds())
    assert left(result)["store"] == "QuantizeLinear with a scale found at run time"
    assert result.verdict == "incomplete"


def test_codes_of_computed_scales_that_are_read_by_channel_stay_in_float():
    """A fuzz found that their table had an input that no record knows."""
    made = model(
        """[store] q = QuantizeLinear (a, s, zeros)
        [read] r = DequantizeLinear (q, fixes, zeros)
        p = QuantizeLinear (r, fixed, zero)
        y = DequantizeLinear (p, fixed, zero)""",
        ", float[8] s",
    )
    for name, value in (("zeros", np.full(8, 9, np.uint8)), ("fixes", np.full(8, 0.1))):
        kept = value if value.dtype == np.uint8 else value.astype(np.float32)
        made.graph.initializer.append(onnx.numpy_helper.from_array(kept, name))
    given = feeds(s=np.full(8, 0.05, np.float32))
    result = qpasses.integerize(made, given)
    assert "store" in left(result)
    assert qpasses.verify(result.model, made, given).verdict == "incomplete"
