"""A small model in float64, with room for what stands before it, and samples."""

import numpy as np

from tests.support.small_models import model, numbers

ROWS = """
rows (double[N, 8] x) => (double[N, 4] y) {
    BEFORE
    [one] a = MatMul (FIRST, w1)
    [two] b = Relu (a)
    [three] y = Gemm (b, w2, b2)
}"""


def rows(before="", first="x", inputs="double[N, 8] x", **constants):
    """Two products in float64 behind what stands ``before``, which gives ``first``."""
    text = ROWS.replace("BEFORE", before).replace("FIRST", first)
    weights = {"w1": numbers(8, 16), "w2": numbers(16, 4), "b2": numbers(4)}
    given = {name: values.astype(np.float64) for name, values in weights.items()}
    return model(text.replace("double[N, 8] x", inputs), opset=21, **given, **constants)


def feeds(offset=0.0, dtype=np.float64):
    """Samples for ``rows`` around ``offset``."""
    return [{"x": row[None].astype(dtype) + dtype(offset)} for row in numbers(6, 8)]
