"""Nodes get the same integers whatever bodies are wanted (decision 3)."""

from math import sqrt

import numpy as np
import pytest
from onnx import numpy_helper

from opsets.op import DOMAIN
from qpasses import quantize
from qpasses.checking.rules import RULES
from tests.support.channel_nets import channel_net
from tests.support.small_models import model, numbers

PICTURES = """
g (float[N, 4, 8, 8] x) => (float[N, 4, p, q] y, float[N, r] z, float[N, 4, 1, 1] a,
    float[N, s] b, float[N, 4, 16, 16] c, float[N, 8, t, u] d, float[N, 4, 8, 8] e) {
    f = Conv <pads = [1, 1, 1, 1]> (x, w)
    g = PRelu (f, slopes)
    y1 = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (g)
    y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (y1)
    sums = ReduceSum <keepdims = 0> (g, last)
    means = ReduceMean <keepdims = 0> (g, last)
    z1 = Sub (sums, means)
    z2 = Flatten (z1)
    z = Gemm (z2, v)
    a = GlobalAveragePool (g)
    norm = LayerNormalization <axis = -1> (f, gamma, beta)
    l = Tanh (norm)
    b1 = ReduceMean <keepdims = 0> (l, ends)
    b = LogSoftmax (b1)
    c = Resize <mode = "linear"> (f, , twice)
    h = Sigmoid (g)
    i = Mul (f, h)
    d = Concat <axis = 1> (i, f)
    k = Clip (f, low, high)
    m = MatMul (k, g)
    n = Softmax (m)
    e1 = Add (n, f)
    e2 = Mul (e1, factors)
    e3 = Mul (e2, a) e = Max (e3, n)
}"""
"""Sums, means and pools of sizes that are known and of one that is free, tables, norms."""

BLOCK = """
g (float[N, T, 8] x) => (float[N, T, 8] y) {
    a = LayerNormalization (x, gamma, beta)
    q = MatMul (a, w) k = MatMul (a, u)
    t = Transpose <perm = [0, 2, 1]> (k)
    q1 = Mul (q, third) s = MatMul (q1, t)
    p = Softmax (s)
    o = MatMul (p, q)
    r = Add (o, x)
    h = MatMul (r, w)
    h1 = Div (h, root) h2 = Erf (h1) h3 = Add (h2, one) h4 = Mul (h, h3)
    e = Mul (h4, half)
    b = MatMul (e, u)
    y = Add (b, r)
}"""
"""A block of a transformer, for the forms of other papers and a stream of 16 bits."""

FREE = """
g (float[N, 4, h, w] x) => (float[N, 4, 1, 1] y, float[N, 4, h] z) {
    f = Conv <pads = [1, 1, 1, 1]> (x, k)
    y = GlobalAveragePool (f)
    z = ReduceMean <keepdims = 0> (f, last)
}"""


def pictures():
    return model(
        PICTURES,
        opset=18,
        w=numbers(4, 4, 3, 3),
        v=numbers(32, 5),
        slopes=np.abs(numbers(4, 1, 1)) / 4,
        gamma=numbers(8),
        beta=numbers(8, seed=1),
        low=np.float32(-1),
        high=np.float32(2),
        last=np.array([-1]),
        ends=np.array([2, 3]),
        twice=np.float32([1, 1, 2, 2]),
        factors=numbers(4, 1, 1, seed=2),
    )


def of_free_size():
    return model(FREE, opset=18, k=numbers(4, 4, 3, 3), last=np.array([-1]))


def block():
    weights = {"w": numbers(8, 8), "u": numbers(8, 8, seed=1)}
    weights |= {"gamma": numbers(8, seed=7) + 2, "beta": numbers(8, seed=8)}
    constants = {"third": 1 / 30, "root": sqrt(2), "one": 1, "half": 0.5}
    return model(BLOCK, **weights, **{k: np.float32(v) for k, v in constants.items()})


WORDS = """
g (float[N, 4] x) => (float[N, 4] y, float[N, 4] z) {
    q = QuantizeLinear (x, scale, zero) d = DequantizeLinear (q, scale, zero)
    s = Tanh (d) sq = QuantizeLinear (s, scale, zero) y = DequantizeLinear (sq, scale, zero)
    e = Exp (d) eq = QuantizeLinear (e, scale, zero) z = DequantizeLinear (eq, scale, zero)
}"""
"""Already quantized to 16 bits: a function that lines are near, and one that has a corner."""


def words():
    return model(WORDS, opset=21, scale=np.float32(2**-13), zero=np.int16(0))


DIVIDED = """
g (float[N, 4, 8] x) => (float[N, 4, 8] y) {
    a = MatMul (x, w) b = MatMul (x, u)
    s = Sigmoid (b) d = Add (s, one) y = Div (a, d)
}"""
"""A quotient, of which 16 bits are asked for."""


def divided():
    weights = {"w": numbers(8, 8), "u": numbers(8, 8, seed=1)}
    return model(DIVIDED, opset=21, **weights, one=np.float32(1))


MOVES = """
g (float[N, 4, 8, 8] x) => (float[] y, float[] z, float[] w) {
    f = Conv <pads = [1, 1, 1, 1]> (x, k)
    m = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]> (f)
    p = Pad <mode = "edge"> (m, around) y = Conv (p, k)
    s = DepthToSpace <blocksize = 2> (f) z = Conv (s, l)
    c = Where (mask, f, half) e = ReduceMin (c, last) w = Relu (e)
}"""
"""What onnxruntime moves no 16 bits by."""


def moves():
    around = np.array([0, 0, 1, 1, 0, 0, 1, 1])
    mask, half = numbers(8, 8) > 0, np.float32(0.5)
    weights = {"k": numbers(4, 4, 3, 3), "l": numbers(2, 1, 3, 3), "last": np.array([-1])}
    return model(MOVES, opset=18, around=around, mask=mask, half=half, **weights)


RECURRENT = """
g (float[6, N, 4] x) => (float[] y, float[] z, float[] w) {
    y, h, c = LSTM <hidden_size = 3> (x, lw, lr)
    z = GRU <hidden_size = 3> (x, gw, gr)
    w = RNN <hidden_size = 3> (x, rw, rr)
}"""
"""Nets that go through steps."""


def recurrent():
    gates = {"l": 4, "g": 3, "r": 1}
    weights = {f"{n}w": numbers(1, 3 * count, 4) for n, count in gates.items()}
    weights |= {f"{n}r": numbers(1, 3 * count, 3, seed=1) for n, count in gates.items()}
    return model(RECURRENT, opset=21, **weights)


COUNTED = """
g (float[N, 4] x) => (float[] y, float[] z) {
    m = MatMul (x, w) b = Greater (m, zero) c = Cast <to = 1> (b) y = Mul (m, c)
    p = ArgMax <axis = 1> (m) k = Cast <to = 1> (p) z = Add (m, k)
}"""
"""Conditions and places that are cast to floats."""


def counted():
    return model(COUNTED, opset=21, w=numbers(4, 4), zero=np.float32(0))


PUBLISHED = {"softmax": "ibert", "gelu": "ibert", "layernorm": "ivit"}
CASES = {
    "pictures": (pictures, (1, 4, 8, 8), {}),
    "pictures, int8": (
        pictures,
        (1, 4, 8, 8),
        {"activation_type": "int8", "activation_form": "multiplier"},
    ),
    "a free size": (of_free_size, (1, 4, 8, 8), {}),
    "a block": (block, (1, 5, 8), {"softmax": "shiftmax", "gelu": "shift"}),
    "another block": (block, (1, 5, 8), {"softmax": "gemmlowp"}),
    "channels": (channel_net, (1, 3, 8, 8), {"activation_scales": "per-channel"}),
    "channels of 16 bits": (
        channel_net,
        (1, 3, 8, 8),
        {"activation_scales": "per-channel", "tensor_types": [".*=int16"]},
    ),
    "recurrent": (recurrent, (6, 1, 4), {}),
    "recurrent, 16 bits": (recurrent, (6, 1, 4), {"tensor_types": [".*=int16"]}),
    "whole numbers": (counted, (1, 4), {}),
    "whole numbers, 16 bits": (counted, (1, 4), {"tensor_types": ["[ck]=int16"]}),
    "16 bits": (words, (1, 4), {}),
    "a quotient of words": (divided, (1, 4, 8), {"tensor_types": [".*=int16"]}),
    "moves of 16 bits": (moves, (1, 4, 8, 8), {"tensor_types": [".*=int16"]}),
    "a block of 16 bits": (block, (1, 5, 8), {"tensor_types": [".*=int16"]}),
    "a stream": (block, (1, 5, 8), {"residual_type": "int16", **PUBLISHED}),
}
OF_OTHER_TARGETS = {"IntCodedPRelu", "IntRescaledAdd", "IntRescaledSub"}
"""Ops that no graph for target onnx has."""


def meanings(made):
    """Op, attributes and constants of each integer node, by the name of what it writes."""
    given = {each.name: numpy_helper.to_array(each) for each in made.graph.initializer}
    return {
        node.output[0]: (
            node.op_type,
            sorted(str(each) for each in node.attribute),
            [given[name].tolist() for name in node.input if name in given],
        )
        for node in made.graph.node
        if node.domain == DOMAIN
    }


@pytest.fixture(scope="module")
def made():
    """Of each case the nodes with either bodies."""
    found = {}
    for name, (build, shape, options) in CASES.items():
        feeds = [{"x": numbers(*shape, seed=seed)} for seed in range(3)]
        found[name] = [
            meanings(quantize(build(), feeds, bodies=bodies, layout="nchw", **options).model)
            for bodies in ("onnxruntime", "portable")
        ]
    return found


@pytest.mark.parametrize("name", CASES)
def test_wanted_bodies_change_no_integer_of_any_node(made, name):
    fast, portable = made[name]
    assert fast.keys() == portable.keys()
    assert {key for key in fast if fast[key] != portable[key]} == set()


def test_every_op_of_the_default_target_is_among_them(made):
    found = {node[0] for fast, _ in made.values() for node in fast.values()}
    assert found == RULES.keys() - OF_OTHER_TARGETS
