"""Ops that onnxruntime's optimizer fuses, and ONNX's Attention, in whole graphs."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import qpasses
from calibration import Session
from opsets.target import load_target
from qpasses.ir.interchange import prepared_model
from qpasses.ir.rewriting import Context
from qpasses.ir.settings import Settings
from qpasses.prepare import EXPAND
from qpasses.prepare.canonical import prepare
from tests.support.small_models import model, numbers, save
from tests.support.thoroughness import slow

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


@pytest.mark.parametrize("opset", [14, slow(17), 18, slow(20), 21, slow(23)])
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


@pytest.mark.thinned
@pytest.mark.parametrize("opset", [14, 18, 21, 23])
@pytest.mark.parametrize("mask", [None, (1, 1, 6, 6), (1, 2, 6, 6)])
def test_what_is_expanded_computes_the_same_in_float(opset, mask):
    made = blocks(opset, None if mask is None else numbers(*mask))
    graph = prepare(made, feeds()[0], Context(Settings(load_target("onnx"))))
    assert not any(each.takes(node) for each in EXPAND for node in graph.nodes)
    ours, theirs = Session(prepared_model(graph)), Session(made)
    for feed in feeds():
        (found,), (expected,) = ours.run(None, feed), theirs.run(None, feed)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_constant_mask_is_verified(tmp_path):
    path = save(tmp_path, "net.onnx", blocks(21, numbers(1, 1, 6, 6)))
    result = qpasses.quantize(path, feeds())
    assert result.verdict == "ok" and result.report["summary"]["integer_only"]
    assert qpasses.verify(result.model, path, feeds(2)).verdict == "ok"


@pytest.mark.parametrize(
    "names", [["heads", "fast", "packed"], ["skip", "quick"], ["simple", "gelu"]]
)
def test_an_excluded_node_stays_fused(names):
    made = blocks(21)
    result = qpasses.quantize(made, feeds(), nodes_to_exclude=names)
    left = [each.name for each in result.model.graph.node if each.domain == "com.microsoft"]
    assert left == names and result.verdict == "incomplete"
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
    node.output.append("kept")
    made.graph.output.append(onnx.helper.make_tensor_value_info("kept", 1, [2, "N", 4, 6, 2]))
    result = qpasses.quantize(made, feeds())
    assert [
        each.name for each in result.model.graph.node if each.domain == "com.microsoft"
    ] == ["packed"]
    listed = {each["name"]: each["reason"] for each in result.report["summary"]["float_nodes"]}
    assert listed["packed"] == "Attention whose keys and values are read"
    assert qpasses.verify(result.model, made, feeds(2)).verdict != "failed"


@pytest.mark.thinned
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
    sessions = Session(result.model), Session(made)
    for feed in feeds():
        (found,), (expected,) = (each.run(None, feed) for each in sessions)
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


# Masks.


def tokens(count=6):
    """[N, 6]: 1 for each key, then 0; some rows have all."""
    rng = np.random.default_rng(count)
    return [np.int32(np.arange(6) < rng.integers(2, 7, (2, 1))) for _ in range(count)]


def triangles():
    return [np.int32(np.tril(each[:, None] * np.ones((6, 1)))) for each in tokens()]


MASKS = {
    "keys": ("int32[N, 6] m", tokens()),
    "number of keys": ("int32[N] m", [each.sum(axis=1, dtype=np.int32) for each in tokens()]),
    "keys of each query": ("int32[N, 6, 6] m", triangles()),
}


def masked(text, declared, masks, opset=17, **weights):
    ends = f"(float[N, 6, 8] x, {declared}) => (float[N, 6, 4] z)"
    matrices = {name: matrix(8, 8, seed=ord(name[1])) for name in ("wq", "wk", "wv")}
    weights |= {"out": matrix(8, 4), "packed_w": matrix(8, 24), "b24": numbers(24) / 9}
    weights = {n: v for n, v in (matrices | weights).items() if f" {n}" in text or n == "out"}
    made = model(
        f"net {ends} {{ {text} z = MatMul (h, out) }}",
        opset=opset,
        ir_version=10,
        domains=["com.microsoft"],
        **weights,
    )
    samples = [dict(x, m=m) for x, m in zip(feeds(), masks, strict=True)]
    return made, samples


def assert_taken_apart(made, samples):
    """Integer, verified, and near to what onnxruntime makes of the fused op."""
    result = qpasses.quantize(made, samples)
    ops = [node.op_type for node in result.model.graph.node]
    assert result.report["summary"]["integer_only"] and result.verdict == "ok"
    assert "TableSoftmax" in ops and "Where" in ops and "IntAdd" not in ops
    assert qpasses.verify(result.model, made, samples).verdict == "ok"
    runs = [Session(each) for each in (made, result.model)]
    expected, found = ([run.run(None, s)[0] for s in samples] for run in runs)
    assert np.isfinite(found).all()
    noise = np.square(np.subtract(found, expected)).mean() / np.square(expected).mean()
    assert 10 * np.log10(noise) < -25


PRODUCTS = "q = MatMul (x, wq) k = MatMul (x, wk) v = MatMul (x, wv)"


@pytest.mark.thinned
@pytest.mark.parametrize("causal", ["", ", unidirectional = 1"])
@pytest.mark.parametrize("mask", MASKS)
def test_padding_of_packed_attention_selects(mask, causal):
    text = f"h = com.microsoft.Attention <num_heads = 2{causal}> (x, packed_w, b24, m)"
    assert_taken_apart(*masked(text, *MASKS[mask]))


@pytest.mark.thinned
@pytest.mark.parametrize("causal", ["", ", unidirectional = 1"])
@pytest.mark.parametrize("mask", ["keys", "number of keys"])
def test_padding_of_multi_head_attention_selects(mask, causal):
    fused = f"com.microsoft.MultiHeadAttention <num_heads = 2{causal}>"
    made = masked(f"{PRODUCTS} h = {fused} (q, k, v, b24, m)", *MASKS[mask])
    assert_taken_apart(*made)


@pytest.mark.thinned
@pytest.mark.parametrize("causal", ["", ", is_causal = 1"])
@pytest.mark.parametrize("none", [False, True])
def test_booleans_of_attention_of_onnx_select(none, causal):
    masks = [each[:, None] > 0 for each in triangles()]
    masks[1][0, 0, 2] &= not none  # a row without a key is zero
    text = f"{PRODUCTS} h = Attention <q_num_heads = 2, kv_num_heads = 2{causal}> (q, k, v, m)"
    assert_taken_apart(*masked(text, "bool[N, 1, 6, 6] m", masks, opset=23))


def test_heads_that_share_keys_are_repeated():
    text = f"{PRODUCTS} h = Attention <q_num_heads = 4, kv_num_heads = 2, is_causal = 1> "
    shared = {"wk": matrix(8, 4), "wv": matrix(8, 4, seed=9)}
    made, samples = masked(f"{text} (q, k, v)", "int32[N] m", MASKS["number of keys"][1], 23)
    for tensor in made.graph.initializer:
        if tensor.name in shared:
            tensor.CopyFrom(onnx.numpy_helper.from_array(shared[tensor.name], tensor.name))
    del made.graph.input[1]
    assert_taken_apart(made, [{"x": each["x"]} for each in samples])


def test_a_mask_of_starts_and_ends_stays_and_is_listed():
    text = "[a] h = com.microsoft.Attention <num_heads = 2> (x, packed_w, b24, m)"
    ends = np.array([6, 4, 0, 1], np.int32)  # where keys end, then where they begin
    made, samples = masked(text, "int32[M] m", [ends] * 6)
    result = qpasses.quantize(made, samples)
    listed = {each["name"]: each["reason"] for each in result.report["summary"]["float_nodes"]}
    assert listed["a"] == "Attention with a mask that is not of keys or their number"
    assert qpasses.verify(result.model, made, samples).verdict != "failed"
