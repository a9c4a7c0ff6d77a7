"""Networks whose channels differ by 100 times, read by tables and depthwise convolutions."""

import numpy as np

from tests.support.small_models import model, numbers

APART = np.float32([1, 10, 0.1, 3, 0.3, 0.1])
"""How large each of six channels is beside the others."""

BODY = """
    [first] a = Conv <pads = [1, 1, 1, 1]> (x, k, c)
    [table] b = HardSwish (a)
    [depthwise] d = Conv <group = 6, pads = [1, 1, 1, 1]> (b, e, f)
    [gate] s = Sigmoid (d)
    [product] t = Mul (d, s)
    [last] y = Conv (t, m)
"""
"""The channels of a, b and d are far apart; those of t, which y sums, are not."""


def column(values, rank):
    """``values`` along the first of so many axes."""
    return values.reshape(-1, *[1] * (rank - 1))


def channel_weights(dims=2, outputs=1):
    """Those of ``BODY``, with so many output channels of the depthwise Conv for each input."""
    kernel, rank = [3] * dims, dims + 2
    return {
        "k": numbers(6, 3, *kernel) * column(APART, rank) / 3,
        "c": numbers(6) * APART / 3,
        "e": numbers(6 * outputs, 1, *kernel) / column(np.repeat(APART, outputs), rank) / 3,
        "f": numbers(6 * outputs) / 3,
        "m": numbers(4, 6 * outputs, *[1] * dims) / 3,
    }


def channel_net(body=BODY, *, dims=2, outputs=1, size=8, ends="y", opset=18, **weights):
    """A network of ``body`` for any number of pictures of ``size``, a number or a name."""
    shape = ", ".join(["N", "3", *[str(size)] * dims])
    free = [", ".join(["N", *(f"{end}{axis}" for axis in range(dims + 1))]) for end in ends]
    given = ", ".join(f"float[{s}] {end}" for s, end in zip(free, ends, strict=True))
    return model(
        f"channels (float[{shape}] x) => ({given}) {{ {body} }}",
        opset=opset,
        **channel_weights(dims, outputs) | weights,
    )


def channel_feeds(count=8, dims=2, seed=5):
    """Samples of one picture each."""
    rng = np.random.default_rng(seed)
    return [
        {"x": rng.standard_normal((1, 3, *[8] * dims)).astype(np.float32)}
        for _ in range(count)
    ]
