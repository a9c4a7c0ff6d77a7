"""What exporters put between a layer and its activation: it becomes part of either."""

import numpy as np
import pytest

import qpasses
from calibration import Session
from tests.support.small_models import model, numbers

CONV_1D = """
net (float[N, LENGTH, 3] x) => (float[N, 8] y) {
    t = Transpose <perm = [0, 2, 1]> (x)
    u = Unsqueeze (t, two)
    [conv] c = Conv (u, w)
    s = Squeeze (c, two)
    [bias] b = Add (s, k)
    h = Mul (b, half)
    f = Transpose <perm = [0, 2, 1]> (h)
    r = Mul (b, root)
    g = Transpose <perm = [0, 2, 1]> (r)
    e = Erf (g)
    a = Add (e, one)
    [gelu] n = Mul (f, a)
    [most] m = ReduceMax <axes = [1], keepdims = 0> (n)
    y = MatMul (m, v)
}"""

NORM = """
net (float[N, 4, 6] x) => (float[N, 4, 3] y) {
    flat = Reshape (x, rows)
    [norm] n = LayerNormalization <axis = 1> (flat, gamma, beta)
    back = Reshape (n, whole)
    [scale] s = Mul (back, k)
    [shift] b = Add (s, c)
    y = MatMul (b, w)
}"""


def conv_1d(length):
    return model(
        CONV_1D.replace("LENGTH", str(length)),
        opset=13,
        two=np.array([2]),
        half=np.float32(0.5),
        root=np.float32(0.5**0.5),
        one=np.float32(1),
        w=numbers(8, 3, 1, 3),
        k=numbers(1, 8, 1),
        v=numbers(8, 8),
    )


def norm():
    return model(
        NORM,
        rows=np.array([-1, 6]),
        whole=np.array([-1, 4, 6]),
        gamma=numbers(6),
        beta=numbers(6, seed=1),
        k=numbers(6, seed=2),
        c=numbers(6, seed=3),
        w=numbers(6, 3),
    )


def close(made, result, feeds):
    for feed in feeds:
        (found,) = Session(result.model).run(None, feed)
        (expected,) = Session(made).run(None, feed)
        assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max()
    return qpasses.verify(result.model, made, feeds).verdict == "ok"


@pytest.mark.parametrize("length", [3, 4, 9])
def test_a_convolution_of_rows_takes_its_bias_and_one_table_its_activation(length):
    made, feeds = conv_1d(length), [{"x": numbers(2, length, 3, seed=s)} for s in range(4)]
    result = qpasses.quantize(made, feeds)
    ops = [each.op for each in result.evidence]
    assert ops.count("IntConv") == ops.count("Lut") == 1
    assert not {"IntAdd", "IntMul", "LutPerChannel", "LutPair"} & set(ops)
    assert result.verdict == "ok" and close(made, result, feeds)


def test_a_tensor_whose_values_change_takes_another_name():
    result = qpasses.quantize(conv_1d(5), [{"x": numbers(2, 5, 3)}])
    written = {name for node in result.model.graph.node for name in node.output}
    assert not {"c", "s", "c_quantized", "s_quantized"} & written


def test_factors_behind_a_norm_and_a_reshape_are_those_of_the_norm():
    made, feeds = norm(), [{"x": numbers(2, 4, 6, seed=s)} for s in range(4)]
    result = qpasses.quantize(made, feeds)
    ops = [each.op for each in result.evidence]
    assert ops.count("IntLayerNorm") == 1 and "LutPerChannel" not in ops
    assert result.verdict == "ok" and close(made, result, feeds)
