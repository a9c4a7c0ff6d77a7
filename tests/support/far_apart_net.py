"""A network that joins and divides what is far apart: masks, quotients, boxes and scores."""

import numpy as np

from tests.support.small_models import model, numbers

LENGTH, SIZE = 6, 8


def far_apart_net():
    """One head of attention with an added mask; a quotient; both joined to an output."""
    return model(
        f"""apart (float[1, {LENGTH}, {SIZE}] x, float[1, 1, {LENGTH}] mask)
            => (float[1, {LENGTH}, 10] y) {{
            [across] t = Transpose <perm = [0, 2, 1]> (x)
            [scores] s = MatMul (x, t)
            [drop] m = Add (s, mask)
            [shares] p = Softmax <axis = -1> (m)
            [values] o = MatMul (p, x)
            [half] a = MatMul (o, w)
            [other] b = MatMul (o, v)
            [exp] e = Exp (b)
            [shifted] d = Add (e, small)
            [quotient] q = Div (a, d)
            [boxes] r = Mul (q, size)
            [small] c = Sigmoid (a)
            [joined] y = Concat <axis = 2> (r, c)
        }}""",
        w=numbers(SIZE, 5) / 3,
        v=numbers(SIZE, 5, seed=1) / 3,
        small=np.float32(0.01),
        size=np.float32(640),
    )


def far_apart_feeds(count, seed=0):
    """Texts of one to ``LENGTH`` words."""
    feeds = []
    for at in range(seed, seed + count):
        dropped = np.arange(LENGTH) > at % LENGTH
        mask = np.where(dropped, np.float32(-1e4), np.float32(0)).reshape(1, 1, LENGTH)
        feeds.append({"x": numbers(1, LENGTH, SIZE, seed=at), "mask": mask})
    return feeds
