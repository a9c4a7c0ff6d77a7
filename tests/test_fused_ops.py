"""Ops that onnxruntime's optimizer fuses, and ONNX's Attention, in whole graphs."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from small_models import model, numbers, save

import qpasses
from calibration import Session
from opsets.target import load_target
from qpasses.passes import EXPAND
from qpasses.passes.base import Context
from qpasses.prepare import prepare, prepared_model
from qpasses.settings import Settings

BLOCKS = """net (float[N, 6, 8] x) => (float[N, 6, 4] z) {
    [first] a = MatMul (x, w)
    [q] q = MatMul (a, wq)
    [k] k = MatMul (a, wk)
    [v] v = MatMul (a, wv)
    [heads] h = com.microsoft.MultiHeadAttention <num_heads = 2> (q, k, v, b24, , mask)
    [o] o = MatMul (h, w)
    [skip] n, , , s = com.microsoft.SkipLayerNormalization <epsilon = 0.001> (a, o, g, b, c)
    [up] f = MatMul (n, wide)
    [fast] i = com.microsoft.FastGelu (f, b16)
    [down] m = MatMul (i, narrow)
    [simple] t = com.microsoft.SkipSimplifiedLayerNormalization <epsilon = 0.001> (s, m, g)
    [quick] u = com.microsoft.QuickGelu (t)
    [packed] p = com.microsoft.Attention <num_heads = 4> (u, packed_w, b24)
    [gelu] e = com.microsoft.BiasGelu (p, b)
    [last] z = MatMul (e, out)
}"""


def matrix(*shape, seed=0):
    return numbers(*shape, seed=seed) / np.float32(shape[0] ** 0.5)


def blocks(opset, mask=None):
    """Two blocks of a transformer out of fused ops."""
    text = BLOCKS if mask is not None else BLOCKS.replace(", , mask)", ")")
    weights = {f"w{name}": matrix(8, 8, seed=ord(name)) for name in "qkv"}
    weights |= {"w": matrix(8, 8), "wide": matrix(8, 16), "narrow": matrix(16, 8)}
    weights |= {"packed_w": matrix(8, 24), "out": matrix(8, 4), "g": numbers(8) / 4 + 1}
    weights |= {"b": numbers(8) / 9, "c": numbers(8, seed=1) / 9}
    weights |= {"b16": numbers(16) / 9, "b24": numbers(24) / 9}
    weights |= {} if mask is None else {"mask": mask}
    return model(text, opset=opset, ir_version=10, domains=["com.microsoft"], **weights)


def feeds(count=6):
    return [{"x": numbers(2, 6, 8, seed=seed)} for seed in range(count)]


@pytest.mark.parametrize("opset", [14, 17, 18, 20, 21, 23])
def test_fused_blocks_are_integer_and_verified(opset, tmp_path):
    path = save(tmp_path, "net.onnx", blocks(opset))
    result = qpasses.quantize(path, feeds())
    assert result.verdict == "ok" and result.report["summary"]["integer_only"]
    ops = [node.op_type for node in result.model.graph.node]
    assert ops.count("IntLayerNorm") == 2 and ops.count("TableSoftmax") == 2
    assert ops.count("IntGemm") == 11  # with every bias behind them but BiasGelu's
    assert ops.count("IntAdd") == 2 and ops.count("Lut") == 2
    assert not any(node.domain == "com.microsoft" for node in result.model.graph.node)
    assert qpasses.verify(result.model, path, feeds(2)).verdict == "ok"
    assert result.report["accuracy"]["outputs"][0]["sqnr_db"] > 25


@pytest.mark.parametrize("opset", [14, 18, 21, 23])
@pytest.mark.parametrize("mask", [None, (1, 1, 6, 6), (1, 2, 6, 6)])
def test_what_is_expanded_computes_the_same_in_float(opset, mask):
    made = blocks(opset, None if mask is None else numbers(*mask))
    graph = prepare(made, feeds()[0], Context(Settings(load_target("onnx"))))
    assert not any(each.takes(node) for each in EXPAND for node in graph.nodes)
    for feed in feeds():
        (found,) = Session(prepared_model(graph)).run(None, feed)
        (expected,) = Session(made).run(None, feed)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_constant_mask_is_verified(tmp_path):
    path = save(tmp_path, "net.onnx", blocks(21, numbers(1, 1, 6, 6)))
    result = qpasses.quantize(path, feeds())
    assert result.verdict == "ok" and result.report["summary"]["integer_only"]
    assert qpasses.verify(result.model, path, feeds(2)).verdict == "ok"


@pytest.mark.parametrize(
    "name", ["heads", "skip", "fast", "simple", "quick", "packed", "gelu"]
)
def test_an_excluded_node_stays_fused(name):
    made = blocks(21)
    result = qpasses.quantize(made, feeds(), nodes_to_exclude=[name])
    (node,) = [each for each in result.model.graph.node if each.name == name]
    assert node.domain == "com.microsoft" and result.verdict == "incomplete"
    assert {proof.mismatches for proof in result.evidence} == {0}
    assert qpasses.verify(result.model, made, feeds(2)).verdict != "failed"


@pytest.mark.parametrize("shut", [-1e4, -np.inf])
def test_a_mask_that_shuts_keys_out_selects(shut):
    made = blocks(21, np.triu(np.full((1, 1, 6, 6), shut, np.float32), 1))
    result = qpasses.quantize(made, feeds())
    assert result.verdict == "ok" and result.report["summary"]["integer_only"]
    assert result.report["accuracy"]["outputs"][0]["sqnr_db"] > 25
    assert qpasses.verify(result.model, made, feeds(2)).verdict == "ok"


def test_what_is_not_plain_stays_and_is_listed():
    made = blocks(21)
    node = next(each for each in made.graph.node if each.name == "packed")
    node.attribute.append(onnx.helper.make_attribute("unidirectional", 1))
    result = qpasses.quantize(made, feeds())
    assert [
        each.name for each in result.model.graph.node if each.domain == "com.microsoft"
    ] == ["packed"]
    listed = {each["name"]: each["reason"] for each in result.report["summary"]["float_nodes"]}
    assert listed["packed"] == "Attention with unidirectional"
    assert qpasses.verify(result.model, made, feeds(2)).verdict != "failed"


@pytest.mark.parametrize("mask", ["", ", mask"])
@pytest.mark.parametrize("form", ["rows", "heads"])
def test_attention_of_onnx_is_integer_and_verified(form, mask, tmp_path):
    counts = "<q_num_heads = 2, kv_num_heads = 2>" if form == "rows" else ""
    names = "q, k, v" if form == "rows" else "q4, k4, v4"
    split = "".join(
        f"{name}3 = Reshape ({name}, sizes) "
        f"{name}4 = Transpose <perm = [0, 2, 1, 3]> ({name}3) "
        for name in ("qkv" if form == "heads" else "")
    )
    end = "h2 = Transpose <perm = [0, 2, 1, 3]> (h) h3 = Reshape (h2, back)"
    text = f"""net (float[N, 6, 8] x) => (float[N, 6, 4] z) {{
        q = MatMul (x, wq) k = MatMul (x, wk) v = MatMul (x, wv) {split}
        [attention] h = Attention {counts} ({names}{mask}) {end if form == "heads" else ""}
        z = MatMul ({"h3" if form == "heads" else "h"}, out) }}"""
    weights = {f"w{name}": matrix(8, 8, seed=ord(name)) for name in "qkv"}
    weights |= {"out": matrix(8, 4), "mask": numbers(6, 6)}
    weights |= {"sizes": np.array([0, 0, 2, 4]), "back": np.array([0, 0, 8])}
    made = model(text, opset=23, ir_version=11, **weights)
    path = save(tmp_path, "net.onnx", made)
    result = qpasses.quantize(path, feeds())
    assert result.verdict == "ok" and result.report["summary"]["integer_only"]
    assert "TableSoftmax" in [node.op_type for node in result.model.graph.node]
    assert qpasses.verify(result.model, path, feeds(2)).verdict == "ok"
    for feed in feeds():
        (found,), (expected,) = (
            Session(each).run(None, feed) for each in (result.model, made)
        )
        assert np.abs(found - expected).max() < 0.06 * np.abs(expected).max()


def test_what_onnxruntime_fuses_is_taken_apart(tmp_path):
    plain = prepare(blocks(17), feeds()[0], Context(Settings(load_target("onnx"))))
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "fused.onnx")
    source = prepared_model(plain).SerializeToString()
    ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    path = tmp_path / "fused.onnx"
    fused = {node.op_type for node in onnx.load(path).graph.node if node.domain}
    assert fused == {"BiasGelu", "FastGelu", "FusedMatMul", "QuickGelu"}
    result = qpasses.quantize(path, feeds())
    left = {node.op_type for node in result.model.graph.node if node.domain == "com.microsoft"}
    assert not left and result.verdict == "ok"
    assert qpasses.verify(result.model, path, feeds(2)).verdict == "ok"
