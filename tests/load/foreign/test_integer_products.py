"""Integer products that are scaled behind: float ones, but for what run time quantized."""

import re

import numpy as np
import pytest

from qpasses.load.foreign import is_quantized, standard_qdq
from tests.support.small_models import model
from tests.support.translations import (
    PATH,
    operations,
    quantizing_at_run_time,
    random_feed,
    run,
    translated,
)


def integers(*shape, dtype=np.int8):
    info = np.iinfo(dtype)
    rng = np.random.default_rng([*shape])
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def scales(*shape):
    return np.random.default_rng([*shape]).uniform(0.002, 0.01, shape).astype(np.float32)


WEIGHTS = {
    "w": integers(8, 6),
    "wu": integers(8, 6, dtype=np.uint8),
    "batch": integers(2, 8, 6),
    "k": integers(6, 3, 3, 3),
    "ws": np.float32(0.0123),
    "wz": np.int8(4),
    "wzu": np.uint8(131),
    "columns": scales(6),
    "offsets": np.int8([1, -2, 3, 0, 5, -6]),
    "zeros": np.zeros(6, np.int8),
    "plane": scales(1, 6, 1, 1),
    "bias": scales(6),
    "kbias": scales(1, 6, 1, 1),
    "two": np.float32(2),
    "xs": np.float32(0.031),
    "xz": np.uint8(117),
    "both": np.float32(0.031 * 0.0123),
    "wide": scales(8, 6),
    "levels": np.float32(127),
    "even": np.int8(0),
}

BY_HAND = """top = ReduceMax <keepdims = 0> (x) bottom = ReduceMin <keepdims = 0> (x)
    a = Abs (top) b = Abs (bottom) m = Max (a, b) xs = Div (m, levels)
    xq = QuantizeLinear (x, xs, even)"""
DYNAMIC = "xq, xs, xz = DynamicQuantizeLinear (x)"
MATRIX = "p = MatMulInteger (xq, w, xz{}) f = Cast <to = 1> (p)"
PICTURE = "p = ConvInteger <pads = [1, 1, 1, 1]> (xq, k, xz) f = Cast <to = 1> (p)"


def made_of(line, *, x="float[5,8]", y="A,B", opset=17, names=None):
    text = f"products ({x} x) => (float[{y}] y) {{ {line} }}"
    words = text.replace("(", " ").replace(")", " ").replace(",", " ").split()
    produced = {name for name in ("xs", "xz") if re.search(rf"\b{name}\b[^()]* = ", line)}
    used = {n: v for n, v in WEIGHTS.items() if n in words and n not in produced}
    return model(text, opset=opset, domains=["com.microsoft"], **{**used, **(names or {})})


CUBE = {"x": "float[2,5,8]", "y": "A,B,C"}
PLANE = {"x": "float[2,3,7,7]", "y": "A,B,C,D"}

AT_RUN_TIME = [
    (f"{DYNAMIC} {MATRIX.format('')} s = Mul (xs, ws) y = Mul (f, s)", {}),
    (f"{DYNAMIC} {MATRIX.format(', wz')} s = Mul (ws, xs) y = Mul (s, f)", {}),
    (f"{DYNAMIC} s = Mul (xs, ws) {MATRIX.format('')} y = Mul (f, s)", {}),
    (f"{DYNAMIC} {MATRIX.format('')} g = Mul (f, xs) y = Mul (g, ws)", {}),
    (f"{DYNAMIC} {MATRIX.format('')} g = Mul (f, ws) y = Mul (g, xs)", {}),
    (f"{DYNAMIC} {MATRIX.format('')} t = Mul (ws, two) s = Mul (t, xs) y = Mul (f, s)", {}),
    (f"{DYNAMIC} {MATRIX.format('')} s = Mul (xs, columns) y = Mul (f, s)", CUBE),
    (f"{DYNAMIC} {MATRIX.format(', offsets')} s = Mul (xs, columns) y = Mul (f, s)", CUBE),
    (f"{DYNAMIC} {MATRIX.format('')} s = Mul (xs, ws) m = Mul (f, s) y = Add (m, bias)", {}),
    (f"{DYNAMIC} {PICTURE} s = Mul (xs, ws) m = Mul (f, s) y = Add (m, kbias)", PLANE),
    (f"{DYNAMIC} {PICTURE} s = Mul (xs, plane) y = Mul (f, s)", PLANE),
    (f"{DYNAMIC} p = MatMulInteger (xq, batch, xz) f = Cast <to = 1> (p) s = Mul (xs, ws)"
     " y = Mul (f, s)", CUBE),
    (f"{DYNAMIC} y = com.microsoft.MatMulIntegerToFloat (xq, w, xs, columns, xz, zeros, bias)",
     {}),
    ("y = com.microsoft.DynamicQuantizeMatMul (x, w, columns, zeros, bias)", CUBE),
    ("y = com.microsoft.DynamicQuantizeMatMul (x, wu, ws, wzu)", CUBE),
]  # fmt: skip


@pytest.mark.parametrize("opset", [11, 13, 21])
@pytest.mark.parametrize(("line", "options"), AT_RUN_TIME)
def test_what_is_left_out_is_the_quantization_at_run_time(line, options, opset):
    made = made_of(line, opset=opset, **options)
    assert is_quantized(made)
    translated(made)
    result = standard_qdq(made, PATH)
    assert len(result.dynamic) == 1 and not result.notes
    feed = random_feed(made)
    (expected,), (found,) = run(made, feed), run(quantizing_at_run_time(result), feed)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_scale_that_nodes_compute_is_one_of_run_time():
    matrix = MATRIX.replace("xz", "even").format("")
    made = made_of(f"{BY_HAND} {matrix} s = Mul (xs, ws) y = Mul (f, s)")
    result = standard_qdq(made, PATH)
    assert operations(result.model) == ["DequantizeLinear", "MatMul"]
    assert result.dynamic == ("p",)
    feed = random_feed(made)
    (expected,), (found,) = run(made, feed), run(result.model, feed)
    assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max()
    again = made_of(f"{BY_HAND} y = DequantizeLinear (xq, xs, even)")
    assert operations(translated(again)) == ["Identity"]


def test_several_products_read_the_same_tensor():
    line = f"""{DYNAMIC} {MATRIX.format("")} s = Mul (xs, ws) a = Mul (f, s)
        [other] p2 = MatMulInteger (xq, wu, xz, wzu) f2 = Cast <to = 1> (p2)
        s2 = Mul (xs, columns) b = Mul (f2, s2) y = Concat <axis = 1> (a, b)"""
    made = made_of(line)
    result = standard_qdq(made, PATH)
    assert result.dynamic == ("p", "other")
    assert operations(result.model) == [
        *("DequantizeLinear", "MatMul", "DequantizeLinear", "MatMul", "Concat"),
    ]
    feed = random_feed(made)
    (expected,), (found,) = run(made, feed), run(quantizing_at_run_time(result), feed)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_product_of_two_activations_reads_both():
    line = f"""{DYNAMIC} t = Transpose <perm = [1, 0]> (x)
        tq, ts, tz = DynamicQuantizeLinear (t)
        p = MatMulInteger (xq, tq, xz, tz) f = Cast <to = 1> (p)
        s = Mul (ts, xs) y = Mul (f, s)"""
    assert operations(translated(made_of(line))) == ["Transpose", "MatMul"]


def test_a_factor_behind_the_scales_stays():
    line = f"{DYNAMIC} {MATRIX.format('')} s = Mul (xs, ws) m = Mul (f, s) y = Mul (m, two)"
    assert operations(translated(made_of(line))) == ["DequantizeLinear", "MatMul", "Mul"]


def test_what_run_time_quantizes_and_reads_again_is_read_as_it_was():
    line = f"{DYNAMIC} r = DequantizeLinear (xq, xs, xz) y = Relu (r)"
    result = standard_qdq(made_of(line), PATH)
    assert operations(result.model) == ["Identity", "Relu"]
    assert result.dynamic == ("r",)


STATIC = "xq = QuantizeLinear (x, xs, xz)"

KNOWN = [
    f"{STATIC} {MATRIX.format('')} g = Mul (f, xs) y = Mul (g, ws)",
    f"{STATIC} {MATRIX.format(', wz')} s = Mul (ws, xs) y = Mul (f, s)",
    f"{STATIC} {MATRIX.format('')} s = Mul (xs, columns) y = Mul (f, s)",
]


@pytest.mark.parametrize("line", KNOWN)
def test_a_product_of_what_was_quantized_before_reads_its_real_numbers(line):
    made = made_of(line)
    result = standard_qdq(made, PATH)
    assert not result.notes and not result.dynamic
    assert operations(translated(made)) == [
        *("QuantizeLinear", "DequantizeLinear", "DequantizeLinear", "MatMul"),
    ]
    feed = random_feed(made)
    (expected,), (found,) = run(made, feed), run(result.model, feed)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_scale_of_both_factors_is_divided():
    made = made_of(f"{STATIC} [odd] {MATRIX.format('')} y = Mul (f, both)")
    result = standard_qdq(made, PATH)
    assert "quotient" in result.notes["odd"]
    feed = random_feed(made)
    (expected,), (found,) = run(made, feed), run(result.model, feed)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


LEFT = [
    (f"{DYNAMIC} [odd] {MATRIX.format('')} y = Relu (f)",
     "its result is not multiplied by the scales of what it reads", {}),
    (f"{DYNAMIC} [odd] {MATRIX.format('')} m = Mul (f, wide_) y = Mul (m, xs)",
     "the scales of its result do not go along the results of its weights",
     {"names": {"wide_": scales(5, 6)}}),
    (f"{DYNAMIC} [odd] p = MatMulInteger (xq, w) f = Cast <to = 1> (p)"
     " s = Mul (xs, ws) y = Mul (f, s)",
     "it does not read the zero point that 'xq' has", {}),
    (f"{DYNAMIC} [odd] p = MatMulInteger (xq, w, xz) m = Add (p, p) y = Cast <to = 1> (m)",
     "its integers are not just cast to float and scaled", {}),
    ("c = Cast <to = 2> (x) [odd] p = MatMulInteger (c, w) f = Cast <to = 1> (p)"
     " y = Mul (f, both)", "nothing says what the integers 'c' stand for", {}),
]  # fmt: skip


@pytest.mark.parametrize(("line", "reason", "options"), LEFT)
def test_a_product_with_unknown_scales_stays_with_a_reason(line, reason, options):
    made = made_of(line, **options)
    result = standard_qdq(made, PATH)
    assert result.notes == {"odd": reason}
    feed = random_feed(made)
    np.testing.assert_array_equal(run(result.model, feed)[0], run(made, feed)[0])


def test_a_recurrent_layer_that_quantizes_at_run_time_stays():
    text = """lstm (float[5,1,4] x) => (float[A,B,C,D] y) {
        [odd] y = com.microsoft.DynamicQuantizeLSTM <hidden_size = 2>
            (x, w, r, , , , , , s, z, s, z) }"""
    made = model(
        text,
        domains=["com.microsoft"],
        w=integers(1, 4, 8),
        r=integers(1, 2, 8),
        s=np.float32([0.01]),
        z=np.int8([0]),
    )
    result = standard_qdq(made, PATH)
    assert result.model is made and {*result.notes} == {*result.dynamic} == {"odd"}


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("width", [32, 40, 64])
@pytest.mark.parametrize("offsets", [True, False])
def test_packed_weights_are_unpacked(bits, width, offsets):
    if bits == 2 and not offsets:
        offsets = True  # onnxruntime knows no other
    rows, block = 6, 32
    blocks = -(-width // block)
    rng = np.random.default_rng(width)
    weights = {
        "w": rng.integers(0, 256, (rows, blocks, block * bits // 8), np.uint8),
        "s": scales(rows, blocks),
        "z": rng.integers(0, 256, (rows, -(-blocks * bits // 8)), np.uint8),
        "b": scales(rows),
    }
    zeros = "z" if offsets else ""
    text = f"""packed (float[2,5,{width}] x) => (float[A,B,C] y) {{
        [pack] y = com.microsoft.MatMulNBits
            <bits = {bits}, block_size = {block}, N = {rows}, K = {width}>
            (x, w, s, {zeros}, , b) }}"""
    if not offsets:
        del weights["z"]
    made = model(text, opset=21, ir_version=10, domains=["com.microsoft"], **weights)
    result = standard_qdq(made, PATH)
    assert ("pack" in result.notes) == (blocks > 1)
    assert operations(translated(made)) == ["DequantizeLinear", "MatMul", "Add"]
    feed = random_feed(made)
    (expected,), (found,) = run(made, feed), run(result.model, feed)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
