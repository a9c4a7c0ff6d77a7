"""Small quantized networks in ONNX's text, and what onnxruntime makes of them unoptimized."""

import numpy as np

import qpasses
from calibration import Session
from tests.support.small_models import model, numbers

SCALES = {
    "sx": np.float32(0.0317),
    "zx": np.uint8(120),
    "sy": np.float32(0.0529),
    "zy": np.uint8(131),
    "sz": np.float32(0.0451),
    "zz": np.uint8(97),
    "sw": np.float32([0.0113, 0.0201, 0.0057]),
    "zw": np.int8([0, 0, 0]),
}
"""Of an input x, an output y, another tensor z and weights w [3, 2, 3, 3]."""

INPUT, OUTPUT = "float[N, 2, 6, 6] x", "float[N, 3, 6, 6] y"


def codes(*shape, seed=0, low=-127, high=127, dtype=np.int8):
    """Random integers."""
    return np.random.default_rng([seed, *shape]).integers(low, high + 1, shape, dtype)


def net(body, *, inputs=INPUT, outputs=OUTPUT, opset=17, **weights):
    """The model of ``body``, which may name the SCALES and weights ``w`` and ``b``."""
    given = {"w": codes(3, 2, 3, 3), "b": codes(3, seed=1).astype(np.int32) * 7, **SCALES}
    given |= {"sb": SCALES["sx"] * SCALES["sw"], "zb": np.zeros(3, np.int32)}
    given |= weights
    text = f"g ({inputs}) => ({outputs}) {{ {body} }}"
    used = {
        name: value for name, value in given.items() if f" {name}" in text.replace("(", " ")
    }
    return model(text, opset=opset, **used)


STORED = "q = QuantizeLinear (x, sx, zx) d = DequantizeLinear (q, sx, zx)"
"""The input, stored."""

WEIGHTS = (
    "dw = DequantizeLinear <axis = 0> (w, sw, zw) db = DequantizeLinear <axis = 0> (b, sb, zb)"
)
"""Weights and bias as integers."""

CONV = "c = Conv <pads = [1, 1, 1, 1]> (d, dw, db)"
"""Between them."""

BACK = "qy = QuantizeLinear (c, sy, zy) y = DequantizeLinear (qy, sy, zy)"
"""The result, stored."""

PLAIN = f"{STORED} {WEIGHTS} {CONV} {BACK}"
"""A convolution with Q and DQ around it."""


def feeds(count=3, shape=(1, 2, 6, 6)):
    """Samples that use most codes of x."""
    return [{"x": numbers(*shape, seed=seed) * 1.3} for seed in range(count)]


def beside(made, original, samples=None):
    """By output: elements that differ from onnxruntime's run of ``original``, the largest gap,
    in steps of the output where those are known, and how many elements there are.
    """
    ours, theirs = Session(made.model), Session(original, optimize=False)
    rows = []
    for feed in samples or feeds():
        pairs = zip(ours.run(None, feed), theirs.run(None, feed), strict=True)
        gaps = [np.abs(a.astype(np.float64) - b) for a, b in pairs]
        rows.append([(np.count_nonzero(g > 1e-6), g.max(initial=0), g.size) for g in gaps])
    return np.array(rows).max(axis=0)


def integerized(original, data=None, **options):
    """The result, which ``verify`` finds nothing wrong with."""
    made = qpasses.integerize(original, data, **options)
    samples = data or feeds()
    checked = qpasses.verify(made.model, original, samples)
    assert checked.report["summary"]["problems"] == []
    return made


def ops(made):
    """The op types of the integer model."""
    return [node.op_type for node in made.model.graph.node]
