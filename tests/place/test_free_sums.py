"""Sums along a size that is free are named: proofs cover the length of the first sample."""

import numpy as np
import onnx.parser
import pytest

import qpasses

HEADER = '<ir_version: 10, opset_import: ["" : 21]>'
ATTENTION = f"""{HEADER} g (float[1, n, 4] x, float[1, n, 4] z) => (float[1, n, n] y) {{
    [turned] t = Transpose <perm = [0, 2, 1]> (z)
    [scores] p = MatMul (x, t)
    [weights] y = Softmax (p)
}}"""
GRAM = f"""{HEADER} g (float[1, n, 4] x, float[1, n, 4] z) => (float[1, 4, 4] y) {{
    [turned] t = Transpose <perm = [0, 2, 1]> (x)
    [gram] y = MatMul (t, z)
}}"""


def warnings_of(text, **options):
    generator = np.random.default_rng(0)
    feed = {name: generator.normal(size=(1, 6, 4)).astype(np.float32) for name in "xz"}
    result = qpasses.quantize(onnx.parser.parse_model(text), data=[feed], **options)
    return [line for line in result.report["warnings"] if "leaves free" in line]


@pytest.mark.parametrize(("text", "node"), [(ATTENTION, "weights"), (GRAM, "gram")])
def test_a_node_that_sums_along_a_free_size_is_named(text, node):
    (line,) = warnings_of(text)
    assert line.startswith("1 node sums") and repr(node) in line


@pytest.mark.parametrize("text", [ATTENTION, GRAM])
def test_nothing_is_said_where_the_user_has_fixed_the_size(text):
    assert not warnings_of(text, input_shape={"x": [1, 6, 4], "z": [1, 6, 4]})


def test_nothing_is_said_of_a_free_batch():
    text = ATTENTION.replace("1, n", "n, 6").replace("n, 6, n", "n, 6, 6")
    assert not warnings_of(text)
