"""Normalizations in every way to write them, against onnxruntime on the float graph."""

import numpy as np
import onnx
import pytest

import qpasses
from calibration import Session
from opsets.target import load_target
from qpasses.ir.interchange import prepared_model
from qpasses.ir.rewriting import Context
from qpasses.ir.settings import Settings
from qpasses.prepare.canonical import prepare
from tests.support.small_models import model, numbers

VARIANCES = {
    "mean of squares": "d2 = Mul (d, d) v = MEAN <KEEP> (d2)",
    "power": "d2 = Pow (d, two) v = MEAN <KEEP> (d2)",
    "sum of squares": "q = SQUARES <KEEP> (d) v = Div (q, cells)",
    "less squared mean": "x2 = Mul (x, x) q = MEAN <KEEP> (x2) m2 = Mul (m, m) "
    "v = Sub (q, m2)",
    "not below zero": "x2 = Mul (x, x) q = MEAN <KEEP> (x2) m2 = Pow (m, two) "
    "u = Sub (q, m2) v = Max (u, zero)",
}

SQUARES = {
    "mean of squares": "q = Mul (x, x) v = MEAN <KEEP> (q)",
    "power": "q = Pow (x, two) v = MEAN <KEEP> (q)",
    "sum of squares": "q = SQUARES <KEEP> (x) v = Div (q, cells)",
    "sum of products": "k = Mul (x, x) q = SUM <KEEP> (k) v = Mul (q, per_cell)",
}
"""Without the mean."""

ENDS = {
    "division": "e = Add (v, eps) s = Sqrt (e) n = Div (d, s) g = Mul (n, gamma) "
    "y = Add (g, beta)",
    "reciprocal": "e = Add (v, eps) s = Sqrt (e) r = Reciprocal (s) n = Mul (d, r) "
    "g = Mul (n, gamma) y = Add (g, beta)",
    "power": "e = Add (eps, v) r = Pow (e, minus_half) n = Mul (r, d) g = Mul (gamma, n) "
    "y = Add (beta, g)",
    "gamma first": "e = Add (v, eps) s = Sqrt (e) r = Div (one, s) g = Mul (r, gamma) "
    "k = Mul (x, g) o = Mul (m, g) b = Sub (beta, o) y = Add (k, b)",
}

SHORT_ENDS = {
    "division": "e = Add (v, eps) s = Sqrt (e) n = Div (x, s) y = Mul (n, gamma)",
    "reciprocal": "e = Add (v, eps) s = Sqrt (e) r = Reciprocal (s) n = Mul (x, r) "
    "y = Mul (gamma, n)",
    "power": "e = Add (eps, v) r = Pow (e, minus_half) n = Mul (r, x) y = Mul (gamma, n)",
    "half a power": "e = Add (eps, v) s = Pow (e, half) r = Div (one, s) n = Mul (x, r) "
    "y = Mul (gamma, n)",
    "gamma first": "e = Add (v, eps) s = Sqrt (e) r = Div (one, s) g = Mul (r, gamma) "
    "y = Mul (x, g)",
}

SHAPES = [
    ((2, 7), (1,)),
    ((3, 4, 5), (2,)),
    ((3, 4, 5), (1, 2)),
    ((2, 6, 3), (1,)),
    ((2, 3, 4, 5), (1, 3)),
]


def written(variance, end, opset, shape, axes, along=None):
    """A model of opset ``opset`` that normalizes over ``axes``, as attribute or input.

    Its factors differ ``along`` these axes, or others.
    """
    steps = f"m = MEAN <KEEP> (x) d = Sub (x, m) {VARIANCES[variance]} {ENDS[end]}"
    return of_steps(steps, opset, shape, axes, along)


def of_steps(steps, opset, shape, axes, along=None):
    """The model that ``steps`` make, a product behind them."""
    listed, body = ", ".join(map(str, axes)), f"{steps} z = MatMul (y, w)"
    ops = {"MEAN": "ReduceMean", "SQUARES": "ReduceSumSquare", "SUM": "ReduceSum"}
    for name, op in ops.items():
        by_input = opset >= (13 if op == "ReduceSum" else 18)
        keep = "keepdims = 1" if by_input else f"keepdims = 1, axes = [{listed}]"
        given = ", axes)" if by_input else ")"
        for tensor in ("x", "d2", "x2", "d", "q", "k"):
            body = body.replace(f"{name} <KEEP> ({tensor})", f"{op} <{keep}> ({tensor}{given}")
    sizes = ", ".join(["N", *map(str, shape[1:])])
    row = [size if axis in (along or axes) else 1 for axis, size in enumerate(shape)]
    constants = {
        "gamma": numbers(*row) + 2,
        "beta": numbers(*row, seed=1),
        "w": numbers(shape[-1], 3, seed=2),
        "cells": np.float32(np.prod([shape[axis] for axis in axes])),
        "per_cell": np.float32(1 / np.prod([shape[axis] for axis in axes])),
    }
    numbers_of = {"eps": 0.01, "one": 1, "zero": 0, "two": 2, "half": 0.5, "minus_half": -0.5}
    constants |= {name: np.float32(value) for name, value in numbers_of.items()}
    if opset >= 13:
        constants["axes"] = np.array(axes, np.int64)
    text = f"g (float[{sizes}] x) => (float[{sizes[: sizes.rindex(',')]}, 3] z) {{ {body} }}"
    return model(text, opset=opset, ir_version=8 if opset < 23 else 11, **constants)


def assert_one_op(made, shape, op):
    """``made`` is prepared to this op beside its product, and gives the same results."""
    graph = prepare(made, {"x": numbers(*shape)}, Context(Settings(load_target("onnx"))))
    ops = [node.op for node in graph.nodes if node.op not in ("Transpose", "MatMul", "Gemm")]
    assert ops == [op]
    ours, theirs = Session(prepared_model(graph)), Session(made)
    for seed in range(3):
        feed = {"x": numbers(*shape, seed=seed) * 3 + 1}
        (found,), (expected,) = ours.run(None, feed), theirs.run(None, feed)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.thinned
@pytest.mark.parametrize("place", SHAPES)
@pytest.mark.parametrize("opset", [9, 13, 17, 18, 21])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("variance", VARIANCES)
def test_it_is_one_layer_normalization_with_the_same_results(variance, end, opset, place):
    made = written(variance, end, opset, *place)
    assert_one_op(made, place[0], "LayerNormalization")


@pytest.mark.thinned
@pytest.mark.parametrize("place", SHAPES)
@pytest.mark.parametrize("opset", [9, 13, 18, 23])
@pytest.mark.parametrize("end", SHORT_ENDS)
@pytest.mark.parametrize("square", SQUARES)
def test_it_is_one_rms_normalization_with_the_same_results(square, end, opset, place):
    made = of_steps(f"{SQUARES[square]} {SHORT_ENDS[end]}", opset, *place)
    op = "RMSNormalization" if opset == 23 else "SimplifiedLayerNormalization"
    assert_one_op(made, place[0], op)


@pytest.mark.thinned
@pytest.mark.parametrize("opset", [13, 23])
@pytest.mark.parametrize(("shape", "axes"), SHAPES)
def test_without_a_mean_it_is_integer_and_verified(shape, axes, opset):
    steps = f"{SQUARES['power']} {SHORT_ENDS['power']}"
    made = of_steps(steps, opset, shape, axes)
    feeds = [{"x": numbers(*shape, seed=seed) + 1} for seed in range(4)]
    result = qpasses.quantize(made, feeds)
    assert result.verdict == "ok" and result.report["summary"]["integer_only"]
    assert [each.kind for each in result.evidence if each.op == "IntLayerNorm"] == ["bounded"]
    assert qpasses.verify(result.model, made, feeds).verdict == "ok"
    assert result.report["accuracy"]["outputs"][0]["sqnr_db"] > 28
    onnx.checker.check_model(result.model)


@pytest.mark.parametrize("options", [{"emit": "qdq"}, {"op_types_to_quantize": ["MatMul"]}])
def test_no_op_that_onnx_lacks_is_left(options):
    made = of_steps(f"{SQUARES['power']} {SHORT_ENDS['division']}", 13, (2, 7), (1,))
    result = qpasses.quantize(made, [{"x": numbers(2, 7)}], **options)
    assert "Sqrt" in [node.op_type for node in result.model.graph.node]
    onnx.checker.check_model(result.model)


@pytest.mark.thinned
@pytest.mark.parametrize("opset", [9, 18])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(
    ("shape", "axes", "along"),
    [((2, 3, 7), (2,), (1,)), ((2, 4, 5, 3), (1, 2), (3,)), ((3, 2, 4, 5), (2, 3), (1,))],
)
def test_factors_by_channel_make_it_an_instance_normalization(shape, axes, along, end, opset):
    made = written("sum of squares", end, opset, shape, axes, along)
    feeds = [{"x": numbers(*shape, seed=seed) * 2 - 1} for seed in range(3)]
    graph = prepare(made, feeds[0], Context(Settings(load_target("onnx"))))
    ops = [node.op for node in graph.nodes if node.op not in ("Transpose", "MatMul", "Gemm")]
    assert ops == ["InstanceNormalization"]
    result = qpasses.quantize(made, feeds)
    assert result.verdict == "ok"
    assert qpasses.verify(result.model, made, feeds).verdict == "ok"
    for feed in feeds:
        (expected,) = Session(made).run(None, feed)
        (found,) = Session(prepared_model(graph)).run(None, feed)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
        (stored,) = Session(result.model).run(None, feed)
        assert np.abs(stored - expected).max() < 0.05 * np.abs(expected).max()


def test_axes_that_factors_would_widen_stay_as_they_are():
    text = """net (float[2, 3, 1] x) => (float[2, 3, 4] y) {
        m = ReduceMean <axes = [2]> (x) d = Sub (x, m) q = Mul (d, d)
        v = ReduceMean <axes = [2]> (q) e = Add (v, eps) s = Sqrt (e) n = Div (d, s)
        y = Mul (n, gamma) }"""
    made = model(text, opset=13, eps=np.float32(0.1), gamma=numbers(4))
    graph = prepare(made, {"x": numbers(2, 3, 1)}, Context(Settings(load_target("onnx"))))
    assert [node.op for node in graph.nodes][-1] == "Mul"


@pytest.mark.thinned
@pytest.mark.parametrize(("shape", "axes"), SHAPES)
def test_it_is_integer_and_verified(shape, axes):
    made = written("less squared mean", "gamma first", 13, shape, axes)
    feeds = [{"x": numbers(*shape, seed=seed)} for seed in range(4)]
    result = qpasses.quantize(made, feeds)
    assert result.verdict == "ok" and result.report["summary"]["integer_only"]
    assert qpasses.verify(result.model, made, feeds).verdict == "ok"
    for feed in feeds:
        (found,) = Session(result.model).run(None, feed)
        (expected,) = Session(made).run(None, feed)
        error = np.abs(found - expected).max() / np.abs(expected).max()
        assert error < 0.05


def test_a_factor_changed_is_found():
    made = written("power", "reciprocal", 17, (2, 7), (1,))
    other = written("power", "reciprocal", 17, (2, 7), (1,))
    gamma = next(each for each in other.graph.initializer if each.name == "gamma")
    gamma.raw_data = (
        (np.frombuffer(gamma.raw_data, np.float32) * 1.5).astype(np.float32).tobytes()
    )
    result = qpasses.quantize(made, [{"x": numbers(2, 7)}])
    assert qpasses.verify(result.model, other, [{"x": numbers(2, 7)}]).verdict == "failed"


ALTERED = {
    "another mean": (
        "d = Sub (x, m)",
        "k = ReduceMean <axes = [1], keepdims = 1> (x) d = Sub (x, k)",
    ),
    "another tensor": ("d = Sub (x, m)", "f = Abs (x) d = Sub (f, m)"),
    "a sum for a mean": ("d = Sub (x, m)", "k = ReduceSum (x, last) d = Sub (x, k)"),
    "a cube": ("Mul (d, d)", "Pow (d, three)"),
    "twice the mean": ("d = Sub (x, m)", "k = Mul (m, two) d = Sub (x, k)"),
    "epsilon outside": ("s = Sqrt (e)", "t = Sqrt (v) s = Add (t, eps)"),
    "epsilon by column": ("e = Add (v, eps)", "e = Add (v, row)"),
    "less epsilon": ("e = Add (v, eps)", "e = Sub (v, eps)"),
    "the other root": ("n = Div (d, s)", "n = Mul (d, s)"),
    "no mean": ("n = Div (d, s)", "n = Div (x, s)"),
    "a larger bound": ("e = Add (v, eps)", "u = Max (v, two) e = Add (u, eps)"),
    "the variance": ("n = Div (d, s)", "n = Div (d, e)"),
}


@pytest.mark.parametrize("change", ALTERED)
def test_what_is_no_normalization_stays(change):
    body = """m = ReduceMean <axes = [2], keepdims = 1> (x) d = Sub (x, m) q = Mul (d, d)
        v = ReduceMean <axes = [2], keepdims = 1> (q) e = Add (v, eps) s = Sqrt (e)
        n = Div (d, s)"""
    old, new = ALTERED[change]
    assert old in body
    made = model(
        f"net (float[2, 4, 5] x) => (float[2, 4, 5] n) {{ {body.replace(old, new)} }}",
        opset=13,
        eps=np.float32(0.1),
        two=np.float32(2),
        three=np.float32(3),
        row=np.abs(numbers(5)),
        last=np.array([2]),
    )
    sample = {"x": np.abs(numbers(2, 4, 5)) if change == "a cube" else numbers(2, 4, 5) * 9}
    graph = prepare(made, sample, Context(Settings(load_target("onnx"))))
    assert not {"LayerNormalization", "InstanceNormalization"} & {n.op for n in graph.nodes}


ALTERED_SQUARES = {
    "another tensor": ("n = Div (x, s)", "f = Abs (x) n = Div (f, s)"),
    "the largest": ("v = ReduceMean", "v = ReduceMax"),
    "a cube": ("Mul (x, x)", "Pow (x, three)"),
    "another square": ("Mul (x, x)", "Mul (x, u)"),
    "epsilon outside": ("s = Sqrt (e)", "t = Sqrt (v) s = Add (t, eps)"),
    "epsilon by column": ("e = Add (v, eps)", "e = Add (v, row)"),
    "less epsilon": ("e = Add (v, eps)", "e = Sub (v, eps)"),
    "the other root": ("n = Div (x, s)", "n = Mul (x, s)"),
    "a mean taken away": ("n = Div (x, s)", "d = Sub (x, m) n = Div (d, s)"),
    "the square": ("n = Div (x, s)", "n = Div (x, e)"),
    "a square on top": ("n = Div (x, s)", "n = Div (q, s)"),
    "one more": ("n = Div (x, s)", "d = Add (x, two) n = Div (d, s)"),
}


@pytest.mark.thinned
@pytest.mark.parametrize("change", ALTERED_SQUARES)
def test_what_is_no_normalization_without_a_mean_stays(change):
    body = """m = ReduceMean <axes = [2], keepdims = 1> (x) q = Mul (x, x)
        v = ReduceMean <axes = [2], keepdims = 1> (q) e = Add (v, eps) s = Sqrt (e)
        n = Div (x, s)"""
    old, new = ALTERED_SQUARES[change]
    assert old in body
    text = "net (float[2, 4, 5] x, float[2, 4, 5] u) => (float[2, 4, 5] n)"
    made = model(
        f"{text} {{ {body.replace(old, new)} }}",
        opset=13,
        eps=np.float32(0.1),
        two=np.float32(2),
        three=np.float32(3),
        row=np.abs(numbers(5)),
    )
    sample = {name: np.abs(numbers(2, 4, 5)) + 1 for name in ("x", "u")}
    graph = prepare(made, sample, Context(Settings(load_target("onnx"))))
    assert "SimplifiedLayerNormalization" not in [node.op for node in graph.nodes]
