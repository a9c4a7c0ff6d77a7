"""A small network of every recurrent op, with states that come in and go out."""

import numpy as np

from tests.support.small_models import model, numbers


def recurrent_net():
    """An LSTM of both directions with peepholes, both GRUs, an RNN with ends of rows."""
    gates = {"l": (4, 3, 4, 2), "g": (3, 3, 6, 1), "k": (3, 2, 3, 1), "n": (1, 3, 2, 1)}
    weights = {}
    for name, (count, hidden, size, sides) in gates.items():
        rows = count * hidden
        weights[f"{name}w"] = numbers(sides, rows, size, seed=1)
        weights[f"{name}r"] = numbers(sides, rows, hidden, seed=2) / 2
        weights[f"{name}b"] = numbers(sides, 2 * rows, seed=3) / 4
    return model(
        """recurrent (float[5, 2, 4] x, float[1, 2, 3] s, float[2, 2, 3] t, int32[2] lens)
            => (float[2, 2] y, float[1, 2, 3] end, float[2, 2, 3] cell) {
            [both] a, h, cell = LSTM <hidden_size = 3, direction = "bidirectional">
                (x, lw, lr, lb, , t, t, holes)
            [turned] b = Transpose <perm = [0, 2, 1, 3]> (a)
            [rows] c = Reshape (b, sizes)
            [last] d, end = GRU <hidden_size = 3, linear_before_reset = 1> (c, gw, gr, gb, , s)
            [plain] e = Squeeze (d, axis)
            [first] f = GRU <hidden_size = 2, activations = ["HardSigmoid", "Softsign"]>
                (e, kw, kr, kb)
            [flat] g = Squeeze (f, axis)
            [steps] k, m = RNN <hidden_size = 3, clip = 2.0> (g, nw, nr, nb, lens)
            [row] q = Squeeze (m, front)
            [dense] y = MatMul (q, w)
        }""",
        opset=21,
        **weights,
        holes=numbers(2, 9, seed=4) / 4,
        sizes=numbers_of(5, 2, 6),
        axis=numbers_of(1),
        front=numbers_of(0),
        w=numbers(3, 2, seed=5),
    )


def numbers_of(*values):
    """Integers, as sizes and axes are given."""
    return np.array(values, np.int64)


def recurrent_feeds(count):
    """Of random numbers; a row of each sample ends before the last step."""
    return [
        {
            "x": numbers(5, 2, 4, seed=seed),
            "s": numbers(1, 2, 3, seed=seed) / 4,
            "t": numbers(2, 2, 3, seed=seed) / 4,
            "lens": np.array([5, seed % 5], np.int32),
        }
        for seed in range(count)
    ]
