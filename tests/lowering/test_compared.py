"""Comparisons of stored integers, with codes in the place of numbers."""

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from qpasses import quantize, verify
from qpasses.checking.rules.check_compared import _alike
from qpasses.ir.record import Quantization
from qpasses.ir.stages import COMPARING
from qpasses.lowering.compare_stored import _codes_of, _seen_from
from tests.support.small_models import model, numbers, session
from tests.support.thoroughness import thoroughly

ASKED = {
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
}


@given(
    st.sampled_from(sorted(COMPARING)),
    st.sampled_from([0, 1]),
    st.floats(2.0**-10, 8, width=32),
    st.integers(0, 255),
    st.integers(-300, 300),
    st.sampled_from([0.0, 0.25, 0.5, 1e-7, -1e-7]),
)
@example("Greater", 1, 0.5, 0, 0, 0.0)
@example("Greater", 1, 0.5, 0, -1, 0.0)
@example("LessOrEqual", 1, 0.5, 255, 0, 0.0)
@example("Less", 0, 0.5, 255, 1, 0.0)
@example("Equal", 1, 0.5, 128, 0, 0.5)
@thoroughly(400)
def test_codes_are_asked_as_their_numbers_are(op, place, scale, zero, step, off):
    meaning = Quantization(scale, zero, "uint8")
    value = np.float32((step + off) * scale)
    found = _codes_of(np.array(value), meaning, _seen_from(op, place))
    codes = np.arange(256)
    reals = (codes - zero).astype(np.float32) * np.float32(scale)
    sides = (reals, value) if place else (value, reals)
    expected = ASKED[op](*sides)
    able = [
        code
        for code in range(256)
        if (ASKED[op](*((codes, code) if place else (code, codes))) == expected).all()
    ]
    if found is None:
        assert not able or op == "Equal"  # nothing is equal to what lies between
    else:
        assert int(found) in able
    for code in able:
        assert _alike(op, place, meaning, code, float(value))


@given(st.sampled_from(sorted(COMPARING)), st.integers(0, 255), st.integers(0, 255))
@thoroughly(100)
def test_who_judges_knows_another_code(op, code, other):
    assume(code != other)
    meaning = Quantization(0.1, 100, "uint8")
    value = float(np.float32(code - 100) * np.float32(0.1))
    assert _alike(op, 1, meaning, code, value)
    assert not _alike(op, 1, meaning, other, value)


DIVIDED = """g (float[2, 6] x) => (float[2, 6] y) {
    a = MatMul (x, w)
    r = Relu (a)
    [most] m = ReduceMax <axes = [1]> (r)
    [none] b = Equal (m, zero)
    d = Div (r, m)
    y = Where (b, zero, d)
}"""
MASKED = """g (float[2, 6] x) => (float[2, 6] y) {
    a = MatMul (x, w)
    b = MatMul (x, v)
    [more] m = GreaterOrEqual (a, rows)
    y = Where (m, a, b)
}"""
CONSTANTS = {
    **{"w": numbers(6, 6), "v": numbers(6, 6, seed=1), "zero": np.float32(0)},
    "rows": np.float32([0, 0.5, -0.5, 1, 0.1, -0.2]),
}


@pytest.mark.thinned
@pytest.mark.parametrize("options", [{}, {"tensor_types": [".*=int16"]}, {"target": "litert"}])
@pytest.mark.parametrize("text", [DIVIDED, MASKED])
def test_what_is_compared_stays_on_integers(text, options, tmp_path):
    known = {name: value for name, value in CONSTANTS.items() if name in text}
    made, path = model(text, **known), tmp_path / "made.onnx"
    feeds = [{"x": numbers(2, 6, seed=seed)} for seed in range(8)]
    result = quantize(made, feeds, path, **options)
    assert result.report["summary"]["float_nodes"] == []
    assert verify(path, made, data=feeds).verdict == "ok"
    (zeros,) = session(result.model).run(None, {"x": np.zeros((2, 6), np.float32)})
    assert np.isfinite(zeros).all()


GIVEN = """g (float[2, 6] x) => (bool[2, 6] y, bool[2, 6] z) {
    q = QuantizeLinear (x, scale, zero)
    d = DequantizeLinear (q, scale, zero)
    c = DequantizeLinear (codes, scale, zero)
    o = DequantizeLinear (codes, other, zero)
    y = Greater (d, c)
    [unlike] z = Less (d, o)
}"""


def test_what_a_quantized_model_compares_is_judged():
    known = {"scale": np.float32(0.02), "other": np.float32(0.03), "zero": np.uint8(128)}
    made = model(GIVEN, codes=np.arange(120, 126, dtype=np.uint8), **known)
    feeds = [{"x": numbers(2, 6, seed=seed) / 4} for seed in range(4)]
    result = quantize(made, feeds)
    assert verify(result.model, made, data=feeds).report["summary"]["problems"] == []
    for feed in feeds:
        pairs = zip(
            *(session(each).run(None, feed) for each in (made, result.model)), strict=True
        )
        assert all((a == b).all() for a, b in pairs)
