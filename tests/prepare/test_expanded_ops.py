"""Ops that are expanded to what they are defined by, in whole models."""

import numpy as np
import pytest

import qpasses
from calibration import Session
from opsets import load_target
from qpasses.ir.interchange import prepared_model
from qpasses.ir.rewriting import Context
from qpasses.ir.settings import Settings
from qpasses.prepare.canonical import prepare
from tests.support.small_models import model, numbers, save

SHAPES = {
    "x": (2, 3, 4, 4),
    "y": (2, 3, 4, 4),
    "m": (6, 8),
    "n": (5, 8),
    "row": (8,),
    "c": (3,),
}
"""Of the inputs, by name."""

CASES = {
    "L2 norm": ("z = ReduceL2 (x, last)", 4, ["Lut", "IntReduce"]),
    "L1 norm": ("z = ReduceL1 (x, last)", 4, ["Lut", "IntReduce"]),
    "sum of squares": ("z = ReduceSumSquare (m, last)", 2, []),
    "Swish": ("z = Swish (m)", 2, ["Lut"]),
    "moments": ("k, u, d = LayerNormalization (m, ones) z = Sub (k, u)", 2, ["IntReduce"]),
    "gamma at run time": (
        "z = LayerNormalization (m, row, row)",
        2,
        ["IntLayerNorm", "IntMul"],
    ),
    "root mean square": ("z = RMSNormalization (m, row)", 2, ["IntLayerNorm", "IntMul"]),
    "gamma by channel": ("z = InstanceNormalization (x, c, c)", 4, ["IntLayerNorm", "IntMul"]),
    "moments of channels": ("z = MeanVarianceNormalization (x)", 4, []),
    "Gemm of two": ("z = Gemm <transB = 1, alpha = 0.5> (m, n)", 2, ["IntMatMul"]),
    "Gemm turned": ("z = Gemm <transA = 1> (m, w)", 2, ["IntGemm"]),
    "Gemm and a row": ("z = Gemm <transB = 1> (m, w8, row)", 2, ["IntGemm", "IntAdd"]),
    "vector": ("z = MatMul (m, row)", 1, ["IntMatMul"]),
    "Clip": (
        "l = ReduceMin <keepdims = 0> (y) h = ReduceMax <keepdims = 0> (y) z = Clip (x, l, h)",
        4,
        ["LutPair"],
    ),
    "Max of three": ("k = Neg (y) z = Max (x, y, k)", 4, ["LutPair"]),
    "Mean of three": ("k = Neg (y) z = Mean (x, y, k)", 4, ["IntAdd"]),
    "cropped": ("z = CenterCropPad <axes = [2, 3]> (x, sizes)", 4, ["Slice"]),
    "rows of norm 1": ("z = LpNormalization (m)", 2, ["IntReduce", "LutPair"]),
    "shares of columns": ("z = LpNormalization <axis = 0, p = 1> (m)", 2, ["LutPair"]),
    "norms of windows": (
        "z = LpPool <kernel_shape = [2, 3], pads = [1, 1, 0, 1]> (x)",
        4,
        ["Lut", "IntAveragePool"],
    ),
    "sums of windows": (
        "z = LpPool <kernel_shape = [2, 2], strides = [2, 1], p = 1> (x)",
        4,
        ["Lut", "IntAveragePool"],
    ),
    "cubes of windows": (
        "z = LpPool <kernel_shape = [2, 2], strides = [2, 2], p = 3> (x)",
        4,
        ["Lut", "IntAveragePool"],
    ),
    "norms of images": ("z = GlobalLpPool (x)", 4, ["IntReduce"]),
    "blocks": (
        "t = Reshape (x, flat) z = Col2Im <strides = [2, 1]> (t, image, block)",
        4,
        [],
    ),
    "loss": (
        "z = SoftmaxCrossEntropyLoss (m, labels)",
        0,
        ["IntLogSoftmax", "GatherElements"],
    ),
}


@pytest.mark.thinned
@pytest.mark.parametrize("name", CASES)
def test_an_expanded_op_is_integer_and_verified(name, tmp_path):
    text, dims, expected = CASES[name]
    rank = f"[{','.join('ABCD'[:dims])}]" if dims else ""
    used = [each for each in SHAPES if f" {each}" in text or f"({each}" in text]
    inputs = ", ".join(f"float{list(SHAPES[each])} {each}" for each in used)
    weights = {"last": np.array([-1]), "ones": np.ones(8, np.float32)}
    weights |= {"w": numbers(6, 7) / 3, "w8": numbers(8, 8) / 3, "sizes": np.array([2, 6])}
    weights |= {"labels": np.array([0, 1, 2, 3, 4, 5])}
    weights |= {"flat": np.array([2, 12, 4]), "image": np.array([4, 3])}
    weights |= {"block": np.array([2, 2])}
    weights = {key: value for key, value in weights.items() if f" {key}" in text}
    made = model(
        f"net ({inputs}) => (float{rank} z) {{ {text} }}",
        opset=21 if "Global" in text else 24,
        ir_version=10,
        **weights,
    )
    feeds = [{each: numbers(*SHAPES[each], seed=seed) for each in used} for seed in range(6)]
    result = qpasses.quantize(save(tmp_path, "net.onnx", made), feeds)
    assert result.verdict == "ok" and result.report["summary"]["integer_only"]
    ops = [node.op_type for node in result.model.graph.node]
    assert set(expected) <= set(ops), ops
    assert qpasses.verify(result.model, made, feeds[:2]).verdict == "ok"
    assert result.report["accuracy"]["outputs"][0]["sqnr_db"] > 25


@pytest.mark.parametrize("axis", [0, 1])
def test_hardmax_is_exact_where_scores_have_codes_of_their_own(axis, tmp_path):
    square = (np.add.outer(np.arange(8), np.arange(8)) % 8 / 8).astype(np.float32)
    text = f"k = Gemm (m, w) z = Hardmax <axis = {axis}> (k)"
    made = model(
        f"net (float[8, 8] m) => (float[A, B] z) {{ {text} }}",
        opset=21,
        w=np.eye(8, dtype=np.float32),
    )
    feeds = [{"m": np.random.default_rng(seed).permutation(square)} for seed in range(6)]
    result = qpasses.quantize(save(tmp_path, "net.onnx", made), feeds)
    assert result.verdict == "ok" and result.report["summary"]["integer_only"]
    assert {"IntGemm", "ArgMax", "Gather"} <= {
        node.op_type for node in result.model.graph.node
    }
    assert result.report["accuracy"]["outputs"][0]["max_abs_error"] == 0
    assert qpasses.verify(result.model, made, feeds[:2]).verdict == "ok"


def test_hardmax_takes_the_first_of_equals():
    made = model("net (float[2, 3] m) => (float[2, 3] z) { z = Hardmax (m) }", opset=21)
    feed = {"m": np.array([[1, 2, 2], [0, 0, 0]], np.float32)}
    assert_unchanged(made, feed)


LEFT = {
    "z = GlobalLpPool <p = 3> (x)": "GlobalLpPool with p = 3",
    "z = LpPool <kernel_shape = [3, 3], p = 4> (x)": "LpPool with p = 4",
    "z = LpPool <kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1> (x)": "ceil_mode",
}


@pytest.mark.parametrize("text", LEFT)
def test_what_is_left_in_float_says_why(text):
    made = model(f"net (float[1, 2, 8, 8] x) => (float[A, B, C, D] z) {{ {text} }}", opset=21)
    result = qpasses.quantize(made, [{"x": numbers(1, 2, 8, 8)}])
    (left,) = result.report["summary"]["float_nodes"]
    assert LEFT[text] in left["reason"]


SAME = {
    "auto_pad": 'z = LpPool <kernel_shape = [3, 2], auto_pad = "SAME_LOWER"> (x)',
    "dilations": "z = LpPool <kernel_shape = [3, 2], dilations = [2, 1], p = 1> (x)",
    "a larger p": "z = LpPool <kernel_shape = [2, 2], p = 3> (x)",
    "a pixel": "z = LpPool <kernel_shape = [1, 1], strides = [2, 2]> (x)",
    "norm of channels": "z = LpNormalization <axis = 1> (x)",
    "first axis": "z = LpNormalization <axis = 0, p = 1> (x)",
    "whole images": "z = GlobalLpPool <p = 1> (x)",
    "blocks with room": (
        "t = Reshape (x, flat) z = Col2Im <pads = [1, 0, 0, 1], strides = [3, 2]> (t, im, b)"
    ),
    "blocks with gaps": "t = Reshape (x, flat) z = Col2Im <dilations = [2, 1]> (t, wide, b)",
    "a line": "t = Reshape (x, flat) z = Col2Im (t, line, cells)",
}


@pytest.mark.parametrize("name", SAME)
def test_an_expanded_op_computes_the_same(name):
    text = SAME[name]
    weights = {"flat": np.array([2, 12, 4]), "b": np.array([2, 2]), "im": np.array([5, 4])}
    weights |= {"wide": np.array([4, 3]), "line": np.array([6]), "cells": np.array([3])}
    weights = {key: value for key, value in weights.items() if f" {key}" in text}
    made = model(f"net (float[2, 3, 4, 4] x) => (float z) {{ {text} }}", opset=21, **weights)
    made.graph.output[0].type.tensor_type.ClearField("shape")
    feed = numbers(2, 3, 4, 4)
    feed[0, 0] = 0  # LpNormalization leaves zeros
    assert_unchanged(made, {"x": feed})


def assert_unchanged(made, feed):
    """No fused op is left by the passes of prepare, and the results stay."""
    graph = prepare(made, feed, Context(Settings(load_target("onnx"))))
    ops = {node.op for node in graph.nodes}
    assert not ops & {"Hardmax", "LpPool", "GlobalLpPool", "LpNormalization", "Col2Im"}
    (expected,) = Session(made, optimize=False).run(None, feed)
    (found,) = Session(prepared_model(graph), optimize=False).run(None, feed)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
