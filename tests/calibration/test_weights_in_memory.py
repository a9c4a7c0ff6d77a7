"""Weights that onnxruntime reads where they lie in memory: results are as of one message."""

import numpy as np
import onnx
import pytest

from calibration import Session, large_weights
from calibration.large_weights import handed_over
from tests.support.small_models import model, numbers

PRODUCT = "g (float[N, 30] x) => (float[N, 40] y) { y = MatMul (x, w) }"

GIVEN_OUT = "g (float[N, 30] x) => (float[N, 40] y, float[30, 40] w) { y = MatMul (x, w) }"
READ_INSIDE = """
g (float[N, 30] x, bool c) => (float[N, 40] y) {
    y = If (c) <
        then_branch = a () => (float[N, 40] p) { p = MatMul (x, w) },
        else_branch = b () => (float[N, 40] q) { n = Neg (x) q = MatMul (n, w) }>
}"""


@pytest.fixture(autouse=True)
def no_weights_are_few(monkeypatch):
    monkeypatch.setattr(large_weights, "_MUCH", 0)


def made(text, *, unread=False, is_input=False):
    """A model whose weights ``w`` are large; with others that no node reads."""
    weights = {"w": numbers(30, 40)} | ({"u": numbers(30, 50)} if unread else {})
    built = model(text, opset=21, **weights)
    if is_input:
        for name, values in weights.items():
            value = onnx.helper.make_tensor_value_info(
                name, onnx.TensorProto.FLOAT, values.shape
            )
            built.graph.input.append(value)
    return built


CASES = {
    "usual": (made(PRODUCT), {}),
    "some that nothing reads": (made(PRODUCT, unread=True), {}),
    "as inputs": (made(PRODUCT, unread=True, is_input=True), {}),
    "as inputs that are given": (made(PRODUCT, is_input=True), {"w": numbers(30, 40) * 2}),
    "as an output": (made(GIVEN_OUT), {}),
    "read in a branch": (made(READ_INSIDE), {"c": np.array(False)}),
}


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_one_message(case, optimize):
    built, others = CASES[case]
    before = built.SerializeToString()
    feed = {"x": numbers(3, 30)} | others
    expected = Session(built.SerializeToString(), optimize=optimize).run(None, feed)
    found = Session(built, optimize=optimize).run(None, feed)
    for there, here in zip(expected, found, strict=True):
        np.testing.assert_array_equal(here, there)
    assert built.SerializeToString() == before


def test_weights_that_are_read_are_no_part_of_the_message():
    message, weights = handed_over(made(PRODUCT, unread=True))
    assert [*weights] == ["w"]
    assert len(message) < weights["w"].nbytes + 4 * 30 * 50


def test_few_weights_stay_in_the_message(monkeypatch):
    monkeypatch.setattr(large_weights, "_MUCH", 30 * 40 * 4 + 1)
    built = made(PRODUCT)
    assert handed_over(built) == (built.SerializeToString(deterministic=True), {})


def test_other_outputs_are_asked_for_in_place_of_the_models_own():
    there = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    session = Session(made(GIVEN_OUT), outputs=[there])
    assert session.outputs == ["y"]
