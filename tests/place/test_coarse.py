"""What 8 bits cannot tell apart stays in float by name."""

import numpy as np
import pytest

from qpasses import quantize, verify
from tests.support.small_models import model, numbers

ROWS = """net (float[N, 4] x) => (float[N, 4] y, float[N, 3] z) {
    [rows] y = OP (x)
    [product] z = MatMul (x, w)
}"""
FAR = np.array([[0, 1, 2, 3], [10000, 10001, 10002, 10003]], np.float32)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
def test_rows_that_are_far_apart_are_left_in_float_and_the_rest_is_not(op):
    made = model(ROWS.replace("OP", op), w=numbers(4, 3))
    result = quantize(made, [{"x": FAR}])
    left = {n["name"]: n["reason"] for n in result.report["summary"]["float_nodes"]}
    assert left == {"rows": f"{op} of 'x' in steps of 39.2: too wide"}
    assert verify(result.model, made, [{"x": FAR}]).verdict == result.verdict


@pytest.mark.parametrize(("op", "target"), [("Softmax", "onnx"), ("Softmax", "tosa")])
def test_in_16_bits_they_are_near_enough(op, target):
    made = model(ROWS.replace("OP", op), w=numbers(4, 3))
    result = quantize(made, [{"x": FAR}], tensor_types=["x=int16"], target=target)
    assert not result.report["summary"]["float_nodes"]
    assert verify(result.model, made, [{"x": FAR}]).verdict == result.verdict


@pytest.mark.parametrize(("op", "target"), [("LogSoftmax", "onnx"), ("Softmax", "litert")])
def test_what_reads_8_bits_is_left_in_float_whatever_is_asked_for(op, target):
    made = model(ROWS.replace("OP", op), w=numbers(4, 3))
    result = quantize(made, [{"x": FAR}], tensor_types=["x=int16"], target=target)
    assert [n["name"] for n in result.report["summary"]["float_nodes"]] == ["rows"]


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
def test_rows_of_usual_numbers_are_integer(op):
    made = model(ROWS.replace("OP", op), w=numbers(4, 3))
    result = quantize(made, [{"x": 100 * numbers(2, 4)}])
    assert not result.report["summary"]["float_nodes"]
