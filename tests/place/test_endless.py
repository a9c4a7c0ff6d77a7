"""Infinity in inputs: it passes where nothing stores it, or in every sample."""

import numpy as np
import pytest

from opsets.errors import DataError
from qpasses import calibrate, quantize, verify
from tests.support.small_models import model, numbers, session

MASKED = model(
    """net (float[N, 8] x, float[N, 8] mask) => (float[N, 3] y, float[N, 8] seen) {
        seen = Identity (mask)
        [keys] k = MatMul (x, w)
        column = Identity (mask)
        [drop] s = Add (k, column)
        [rows] p = Softmax (s)
        [values] y = MatMul (p, v)
    }""",
    w=numbers(8, 8),
    v=numbers(8, 3),
)
ASKED = model(
    """net (float[N, 8] x) => (bool[N, 8] i, float16[N, 8] h) {
        i = IsInf (x)
        h = Cast <to = 10> (x)
    }"""
)


def sample(seed=0, at=-np.inf):
    mask = np.zeros((4, 8), np.float32)
    mask[:, 5:] = at
    return {"x": numbers(4, 8, seed=seed), "mask": mask}


def test_a_mask_of_infinity_in_every_sample_stays_float_by_name():
    samples = [sample(seed) for seed in range(3)]
    result = quantize(MASKED, samples)
    left = {n["name"]: n["reason"] for n in result.report["summary"]["float_nodes"]}
    assert left["drop"] == "'mask' holds infinite values in every sample"
    assert "keys" not in left
    expected, found = (session(m).run(None, samples[0])[0] for m in (MASKED, result.model))
    assert np.abs(expected - found).max() < 0.05
    assert verify(result.model, MASKED, samples).verdict == result.verdict
    assert "mask" not in calibrate(MASKED, samples).table.tensors


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_input_that_nothing_stores_may_hold_anything(value):
    samples = [{"x": np.full((2, 8), value, np.float32)}]
    result = quantize(ASKED, samples)
    outputs = (session(each).run(None, samples[0]) for each in (ASKED, result.model))
    for expected, found in zip(*outputs, strict=True):
        assert np.array_equal(expected, found, equal_nan=expected.dtype.kind == "f")


@pytest.mark.parametrize("run", [quantize, calibrate])
@pytest.mark.parametrize(
    "samples",
    [
        [sample(), sample(1, at=0)],
        [sample(at=0), sample(1)],
        [sample(at=np.nan), sample(1, at=np.nan)],
    ],
    ids=["the first", "the second", "NaN"],
)
def test_a_stored_input_that_is_infinite_in_one_sample_or_nan_is_an_error(samples, run):
    with pytest.raises(DataError, match="input 'mask' holds NaN or infinite values"):
        run(MASKED, samples)


UNKNOWN = model(
    """net (float[N, 8] x, bool[N, 8] kept) => (float[N, 3] y) {
        [keys] k = MatMul (x, w)
        m = Where (kept, none, dropped)
        [drop] s = Add (k, m)
        e = Exp (s)
        [values] y = MatMul (e, v)
    }""",
    none=np.float32(0),
    dropped=np.float32(-np.inf),
    w=numbers(8, 8),
    v=numbers(8, 3),
)


def test_infinity_that_is_put_in_before_no_softmax_stays_float_by_name():
    kept = np.arange(32).reshape(4, 8) % 3 > 0
    result = quantize(UNKNOWN, [{"x": numbers(4, 8), "kept": kept}])
    left = {n["name"]: n["reason"] for n in result.report["summary"]["float_nodes"]}
    assert left["drop"] == "'m' holds infinite values in every sample"
    assert "keys" not in left


def test_a_mask_of_scores_in_half_is_left_as_it_is():
    made = model(
        """net (float16[N, 8] x, bool[N, 8] kept) => (float16[N, 8] y) {
            m = Where (kept, none, dropped)
            h = Cast <to = 10> (m)
            s = Add (x, h)
            y = Softmax (s)
        }""",
        none=np.float32(0),
        dropped=np.float32(-np.inf),
    )
    feed = {"x": numbers(4, 8, dtype=np.float16), "kept": np.ones((4, 8), bool)}
    result = quantize(made, [feed])
    outputs = (session(each).run(None, feed)[0] for each in (made, result.model))
    assert np.array_equal(*outputs)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_a_quantized_model_stores_itself_is_no_mask(value):
    stored = model(
        """net (float[N, 8] x) => (float[N, 8] y) {
            q = QuantizeLinear (x, s, z)
            d = DequantizeLinear (q, s, z)
            r = Sigmoid (d)
            p = QuantizeLinear (r, s, z)
            y = DequantizeLinear (p, s, z)
        }""",
        s=np.float32(0.05),
        z=np.uint8(128),
    )
    with pytest.raises(DataError, match="input 'x' holds NaN or infinite values"):
        quantize(stored, [{"x": np.full((2, 8), value, np.float32)}])
