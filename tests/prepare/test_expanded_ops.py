"""Ops that are expanded to what they are defined by, in whole models."""

import numpy as np
import pytest

import qpasses
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
    "loss": (
        "z = SoftmaxCrossEntropyLoss (m, labels)",
        0,
        ["IntLogSoftmax", "GatherElements"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_expanded_op_is_integer_and_verified(name, tmp_path):
    text, dims, expected = CASES[name]
    rank = f"[{','.join('ABCD'[:dims])}]" if dims else ""
    used = [each for each in SHAPES if f" {each}" in text or f"({each}" in text]
    inputs = ", ".join(f"float{list(SHAPES[each])} {each}" for each in used)
    weights = {"last": np.array([-1]), "ones": np.ones(8, np.float32)}
    weights |= {"w": numbers(6, 7) / 3, "w8": numbers(8, 8) / 3, "sizes": np.array([2, 6])}
    weights |= {"labels": np.array([0, 1, 2, 3, 4, 5])}
    weights = {key: value for key, value in weights.items() if f" {key}" in text}
    made = model(
        f"net ({inputs}) => (float{rank} z) {{ {text} }}", opset=24, ir_version=10, **weights
    )
    feeds = [{each: numbers(*SHAPES[each], seed=seed) for each in used} for seed in range(6)]
    result = qpasses.quantize(save(tmp_path, "net.onnx", made), feeds)
    assert result.verdict == "ok" and result.report["summary"]["integer_only"]
    ops = [node.op_type for node in result.model.graph.node]
    assert set(expected) <= set(ops), ops
    assert qpasses.verify(result.model, made, feeds[:2]).verdict == "ok"
    assert result.report["accuracy"]["outputs"][0]["sqnr_db"] > 25
