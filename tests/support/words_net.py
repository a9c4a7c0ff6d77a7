"""A network of tensors of 16 bits, with nodes of most kinds that read or write them."""

import numpy as np

from tests.support.small_models import model, numbers

ALL_WORDS = {"tensor_types": ["a=int8", ".*=int16"]}
"""All but one."""


def words_net():
    """Products, sums, tables, slopes, norms, means and moves; a table by channel of 8 bits."""
    return model(
        """words (float[1, 4, 6, 6] x) => (float[1, 4, 3, 3] y, float[1, 3] z) {
            [conv] c = Conv <pads = [1, 1, 1, 1]> (x, w3, bias)
            [relu] r = Relu (c)
            [added] s = Add (r, x)
            [sigmoid] g = Sigmoid (s)
            [gated] m = Mul (s, g)
            [slopes] p = PRelu (m, slope)
            [less] d = Sub (p, x)
            [turned] t = Transpose <perm = [0, 1, 3, 2]> (d)
            [scores] q = MatMul (d, t)
            [shares] h = Softmax (q)
            [values] v = MatMul (h, d)
            [norm] n = LayerNormalization (v, gamma, beta)
            [clipped] k = Clip (n, low, high)
            [pool] y = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (k)
            [by_channel] b = Mul (k, factors)
            [mean] e = ReduceMean <keepdims = 0> (b, axes)
            [narrow] a = Tanh (e)
            [dense] z = Gemm (a, w, f)
        }""",
        opset=21,
        w3=numbers(4, 4, 3, 3) / 3,
        bias=numbers(4, seed=1),
        slope=np.float32([[[0.1]], [[0.2]], [[-0.3]], [[0.4]]]),
        gamma=numbers(6, seed=2),
        beta=numbers(6, seed=3),
        low=np.float32(-1.25),
        high=np.float32(1.5),
        factors=np.float32([[[1]], [[2]], [[0.5]], [[-1]]]),
        axes=np.array([2, 3]),
        w=numbers(4, 3, seed=4),
        f=numbers(3, seed=5),
    )


def words_feeds(count):
    """Of random numbers."""
    return [{"x": numbers(1, 4, 6, 6, seed=seed)} for seed in range(count)]
