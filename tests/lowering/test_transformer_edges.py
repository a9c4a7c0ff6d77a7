"""Transformers where sizes, rows and ids are at their ends: results, or an error with why."""

import numpy as np
import pytest

from opsets.errors import DataError
from qpasses import quantize, verify
from tests.support.small_models import model, numbers, session

WIDTH = 8
WEIGHTS = {name: numbers(WIDTH, WIDTH, seed=seed) for seed, name in enumerate("uvw")}
SCALE = {"root": np.float32(0.35)}
AFFINE = {"g": np.ones(WIDTH, np.float32), "b": numbers(WIDTH)}
ATTENTION = """
    q = MatMul (x, w) k = MatMul (x, v) kt = Transpose <perm = [0, 2, 1]> (k)
    raw = MatMul (q, kt) s = Mul (raw, root) MASK
    p = Softmax (masked) h = MatMul (p, x) y = MatMul (h, u)
"""
ADDED = """
    rows = Unsqueeze (m, axis) f = Cast <to = 1> (rows) t = Sub (one, f) n = Mul (t, low)
    masked = Add (s, n)
"""
MASK = {
    "one": np.float32(1),
    "low": np.float32(-10000),
    "axis": np.array([1], np.int64),
}


def graph(body, inputs=f"float[N, T, {WIDTH}] x", **constants):
    return model(f"g ({inputs}) => (float[A, B, C] y) {{ {body} }}", **constants)


def attention(mask=""):
    inputs = f"float[N, T, {WIDTH}] x" + ", int64[N, T] m" * bool(mask)
    body = ATTENTION.replace("MASK", mask or "masked = Identity (s)")
    return graph(body, inputs, **WEIGHTS, **SCALE, **(MASK if mask else {}))


def rows(length=5, count=2, seed=0):
    return {"x": numbers(count, length, WIDTH, seed=seed)}


def masked_rows(length=5, count=2, seed=0, kept=None):
    lengths = np.arange(count) % 2 + length - 1 if kept is None else np.full(count, kept)
    mask = np.arange(length) < lengths[:, None]
    return rows(length, count, seed) | {"m": mask.astype(np.int64)}


def run(made, feed):
    return session(made).run(None, feed)[0]


def reasons(result):
    floats = result.report["summary"]["float_nodes"]
    return {each["op_type"]: each["reason"] for each in floats}


def assert_near(made, result, feed, share=0.1):
    """Finite, and as near to float as ``share`` of the largest value."""
    expected, found = run(made, feed), run(result.model, feed)
    assert found.shape == expected.shape and np.isfinite(found).all()
    assert np.abs(found - expected).max(initial=0) <= share * np.abs(expected).max(initial=1)


# Norms.


def test_a_norm_over_an_axis_of_any_size_stays_in_float_and_says_so():
    text = "a = Conv (x, k) n = InstanceNormalization (a, g, b) y = Conv (n, k)"
    constants = {"k": numbers(4, 4, 1), "g": np.ones(4, np.float32), "b": numbers(4)}
    made = graph(text, "float[N, 4, T] x", **constants)
    samples = [{"x": numbers(1, 4, 7, seed=seed)} for seed in range(4)]
    result = quantize(made, samples)
    assert "over an axis whose size is not known" in reasons(result)["InstanceNormalization"]
    assert verify(result.model, made, samples).verdict == result.verdict == "incomplete"
    assert_near(made, result, {"x": numbers(1, 4, 3)}, 0.4)


@pytest.mark.parametrize("epsilon", [0.0, 1e-5])
@pytest.mark.parametrize("kind", ["LayerNormalization", "InstanceNormalization"])
def test_rows_of_one_value_are_the_bias_of_a_norm_with_epsilon_0_too(kind, epsilon):
    text = f"a = MatMul (x, w) y = {kind} <epsilon = {epsilon:f}> (a, g, b)"
    affine = AFFINE
    if kind == "InstanceNormalization":
        affine = {"g": np.ones(5, np.float32), "b": numbers(5)}
    made = graph(text, f"float[N, 5, {WIDTH}] x", w=WEIGHTS["w"], **affine)
    result = quantize(made, [rows(seed=seed) for seed in range(4)])
    assert result.verdict == "ok" and reasons(result) == {}
    test = rows(seed=9)
    test["x"][0] = 0
    found, expected = run(result.model, test), run(made, test)
    bias = np.broadcast_to(
        affine["b"][:, None] if kind == "InstanceNormalization" else affine["b"], (5, WIDTH)
    )
    np.testing.assert_allclose(found[0], bias, atol=0.05)
    np.testing.assert_allclose(found[1], expected[1], atol=0.3)
    assert np.isfinite(expected).all() == (epsilon > 0)


def test_a_sample_that_makes_a_norm_nan_is_an_error_or_skipped():
    text = "a = MatMul (x, w) n = LayerNormalization <epsilon = 0.0> (a, g, b) y = Neg (n)"
    made = graph(text, w=WEIGHTS["w"], **AFFINE)
    bad, good = rows(), rows(seed=1)
    bad["x"][0, 0] = 0
    with pytest.raises(DataError, match="holds NaN or infinite values in the float model"):
        quantize(made, [bad, good])
    assert quantize(made, [good, bad], on_bad_sample="skip").verdict == "ok"


# Lengths.


@pytest.mark.thinned
@pytest.mark.parametrize("mask", ["", ADDED])
@pytest.mark.parametrize("length", [1, 0])
def test_attention_runs_on_sequences_of_one_token_and_of_none(mask, length):
    made, feeds = attention(mask), masked_rows if mask else rows
    result = quantize(made, [feeds(seed=seed) for seed in range(4)])
    assert result.verdict == "ok" and reasons(result) == {}
    assert_near(made, result, feeds(length))


@pytest.mark.parametrize("mask", ["", ADDED])
def test_attention_calibrated_on_sequences_of_one_token_is_integer(mask):
    made, feeds = attention(mask), masked_rows if mask else rows
    samples = [feeds(1, seed=seed) for seed in range(4)]
    result = quantize(made, samples)
    assert result.verdict == "ok"
    assert verify(result.model, made, samples).verdict == "ok"
    assert_near(made, result, feeds(1, seed=9))


@pytest.mark.parametrize("place", [0, 2])
def test_a_sample_without_tokens_tells_nothing_and_breaks_nothing(place):
    samples = [rows(seed=seed) for seed in range(4)]
    samples.insert(place, rows(0))
    result = quantize(attention(), samples)
    assert result.verdict == "ok"
    assert verify(result.model, attention(), samples).verdict == "ok"
    assert_near(attention(), result, rows(seed=1))


def test_samples_without_any_token_are_an_error():
    with pytest.raises(DataError, match="held no values in any of 1 samples"):
        quantize(attention(), [rows(0)])


def test_rows_that_are_masked_as_a_whole_are_those_of_float():
    made = attention(ADDED)
    result = quantize(made, [masked_rows(seed=seed) for seed in range(4)])
    assert_near(made, result, masked_rows(seed=1, kept=0))


# Axes of size 1.


@pytest.mark.parametrize(("op", "value"), [("Softmax", 1), ("LogSoftmax", 0)])
def test_over_an_axis_of_one_place_every_share_is_the_whole(op, value):
    made = graph(f"a = MatMul (x, w) y = {op} <axis = 1> (a)", w=WEIGHTS["w"])
    samples = [rows(1, seed=seed) for seed in range(3)]
    result = quantize(made, samples)
    assert result.verdict == "ok" and reasons(result) == {}
    assert (run(result.model, rows(1, seed=9)) == value).all()
    assert f"tensor 'y' is {value} throughout: do the samples reach it?" in str(
        result.report["warnings"]
    )
    assert verify(result.model, made, samples).verdict == "ok"


# Ids.


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_embeddings_take_ids_of_both_types_from_either_end(dtype):
    text = "e = Gather (table, ids) n = LayerNormalization (e, g, b) y = MatMul (n, v)"
    inputs = f"{np.dtype(dtype).name}[N, T] ids"
    made = graph(text, inputs, table=numbers(10, WIDTH), v=WEIGHTS["v"], **AFFINE)
    ids = np.array([[0, 3, -1, -10], [9, 5, 2, -3]], dtype)
    result = quantize(made, [{"ids": ids}])
    assert result.verdict == "ok" and reasons(result) == {}
    assert verify(result.model, made, [{"ids": ids}]).verdict == "ok"
    for given in (ids, ids[:, :1], ids[:, :0]):
        assert_near(made, result, {"ids": given})
    np.testing.assert_array_equal(
        *(
            run(result.model, {"ids": each})
            for each in (ids, np.where(ids < 0, ids + 10, ids).astype(dtype))
        )
    )


@pytest.mark.parametrize("beyond", [10, -11])
def test_an_id_that_the_table_has_not_is_an_error_at_the_samples(beyond):
    text = "e = Gather (table, ids) y = MatMul (e, v)"
    made = graph(text, "int64[N, T] ids", table=numbers(10, WIDTH), v=WEIGHTS["v"])
    with pytest.raises(Exception, match=f"idx={beyond}"):
        quantize(made, [{"ids": np.array([[beyond]])}])
