"""Biases that models store themselves, in steps of products with an input of 16 bits."""

import numpy as np
import pytest
from onnx import numpy_helper

from qpasses import quantize, verify
from tests.support.small_models import model, numbers, session

W_STEP = np.float32(2.0**-6)
TEXT = """g (float[N, 64] x) => (float[N, 4] y) {
    wf = DequantizeLinear (w, ws, wz) bf = DequantizeLinear (b, bs)
    [it] y = Gemm (x, wf, bf) }"""
FEEDS = [{"x": numbers(4, 64, seed=seed)} for seed in range(4)]


def made_of(bias):
    """The float model and what is made of it; the bias has the step of the products."""
    step = np.float32(1.0)
    for _ in range(2):  # the first tells the step of x
        constants = {"w": np.full((64, 4), 100, np.int8), "wz": np.int8(0), "ws": W_STEP}
        plain = model(TEXT, opset=21, b=np.full(4, bias, np.int32), bs=step, **constants)
        made = quantize(plain, FEEDS, accuracy="fast", tensor_types=["x=int16", "y=int16"])
        step = np.float32(constant(made, "x_scale") * W_STEP)
    return plain, made


def constant(made, name):
    (found,) = [each for each in made.model.graph.initializer if each.name == name]
    return numpy_helper.to_array(found)


@pytest.mark.parametrize("bias", [1 << 30, -(1 << 30)])
def test_the_largest_bias_beside_words_is_exact(bias):
    plain, made = made_of(bias)
    assert set(constant(made, "it.bias_int32")) == {bias}
    ours, theirs = (session(m).run(None, FEEDS[0])[0] for m in (made.model, plain))
    np.testing.assert_allclose(ours, theirs, atol=0.5)


@pytest.mark.parametrize("bias", [(1 << 30) + 1, (1 << 31) - 1, -(1 << 30) - 1])
def test_a_larger_one_stays_in_float_with_its_reason(bias):
    _, made = made_of(bias)
    (kept,) = made.report["summary"]["float_nodes"]
    assert "stored bias beyond 2**30" in kept["reason"]


def test_the_checker_finds_a_larger_one(monkeypatch):
    monkeypatch.setattr("qpasses.lowering.requantized._holds_bias", lambda _given: True)
    plain, made = made_of((1 << 30) + 1)
    found = verify(made.model, plain, FEEDS)
    assert found.verdict != "ok"
    assert "its bias can leave int32" in str(found.report)
    (evidence,) = verify(made.model).report["evidence"]["nodes"]
    assert evidence["problem"] == "the accumulator can leave int32 in its planes"
