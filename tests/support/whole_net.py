"""A network of whole numbers: a picture, a mask and its mean, places, labels."""

import numpy as np

from tests.support.small_models import model, numbers

LENGTH = 12


def whole_net():
    """Every kind of cast that is stored, in 8 and in 16 bits."""
    return model(
        """whole (uint8[1, 12, 8] x, bool[1, 12] mask, int64[1, 12] place, int32[1] label)
            => (float[] y) {
            [bytes] f = Cast <to = 1> (x)
            [scaled] s = Mul (f, byte)
            [dense] h = MatMul (s, w)
            [places] p = Cast <to = 1> (place)
            [column] u = Unsqueeze (p, last)
            [angles] a = Mul (u, slow)
            [sine] sin = Sin (a)
            [turned] t = Mul (h, sin)
            [kept] m = Cast <to = 1> (mask)
            [rows] r = Unsqueeze (m, last)
            [masked] k = Mul (t, r)
            [total] n = ReduceSum <keepdims = 0> (k, one)
            [count] c = ReduceSum <keepdims = 0> (r, one)
            [mean] e = Div (n, c)
            [labels] l = Cast <to = 1> (label)
            [moved] v = Add (e, l)
            [end] y = MatMul (v, w)
        }""",
        opset=21,
        byte=np.float32(1 / 255),
        w=numbers(8, 8) / 2,
        slow=np.exp(-np.arange(8) / 2).astype(np.float32),
        last=np.array([2]),
        one=np.array([1]),
    )


def whole_feeds(count):
    """Of random bytes, some of a row kept, places up to a thousand."""
    rng = np.random.default_rng(0)
    return [
        {
            "x": rng.integers(0, 256, (1, LENGTH, 8), np.uint8),
            "mask": (np.arange(LENGTH) <= k % LENGTH)[None],
            "place": 90 * k + np.arange(LENGTH)[None],
            "label": np.array([k % 4], np.int32),
        }
        for k in range(count)
    ]
