"""Analyses of outputs that are not finite, certain, or labels, and of free sizes."""

import json

import numpy as np
import pytest

import qpasses
from qpasses.analysis.noise import Outputs
from qpasses.jobs.trying import is_beyond_chance
from tests.support.small_models import model, numbers
from tests.support.thoroughness import THOROUGH, only_thorough

W, V = numbers(4, 4, 1, 1), numbers(8, 8)
VECTORS = [{"x": numbers(2, 8, seed=seed)} for seed in range(8)]


@pytest.fixture(autouse=True)
def measured_soon(monkeypatch):
    """What options cost is measured for a second each; no test reads how much it is."""
    if not THOROUGH:
        monkeypatch.setattr("qpasses.jobs.trying._SECONDS", 0.02)


def analysis(original, feeds, tmp_path, **options):
    integer = qpasses.quantize(original, feeds, accuracy="fast", **options).model
    place = tmp_path / "r.json"
    qpasses.analyze(integer, original, feeds, seconds=20, json_file=place)
    verified = qpasses.verify(integer, original, feeds).report
    report = json.loads(place.read_text())
    assert report["summary"]["accuracy"] == verified["summary"]["accuracy"]
    assert report["accuracy"] == verified["accuracy"]
    return report["analysis"]


def row_of(found, real):
    return next(row for row in found["tensors"] if row["real"] == real)


def test_outputs_that_become_infinite_are_all_noise(tmp_path):
    text = """g (float[2, 8] x) => (float[2, 8] y) {
        a = MatMul (x, v) r = Relu (a) b = Add (r, small) [log] y = Log (b) }"""
    original = model(text, v=V, small=np.float32(1e-4))
    found = analysis(original, VECTORS, tmp_path, nodes_to_exclude=["log"])
    assert found["sqnr_db"] < -50
    costs = [row["cost"]["share"] for row in found["tensors"] if row["cost"]]
    assert max(costs) > 0.2 and sum(costs) == pytest.approx(1)


def test_numbers_that_float_has_not_are_left_out():
    real = np.array([1.0, np.inf, np.nan, 2.0])
    outputs = Outputs({"y": real})
    assert outputs.signal == [5.0]
    assert outputs.noise({"y": np.array([1.0, 3.0, 4.0, 2.5])}) == [0.25]
    assert outputs.noise({"y": np.array([1.0, 3.0, 4.0, np.inf])}) == [5e10]


def test_what_a_sure_output_loses_itself_is_seen(tmp_path):
    text = "g (float[2, 8] x) => (float[2, 8] y) { c = MatMul (x, v) y = Sigmoid (c) }"
    original = model(text, v=V)
    found = analysis(original, VECTORS, tmp_path, calibration_overrides=["y=0,0.05"])
    assert found["looked_at"] == ["y", "c"]
    assert row_of(found, "y")["cost"]["share"] > 0.9


def test_what_no_looked_at_tensor_depends_on_has_no_cost(tmp_path):
    text = """g (float[2, 8] x) => (int64[2] y) {
        a = MatMul (x, v) r = Relu (a) b = MatMul (r, v)
        y = ArgMax <axis = 1, keepdims = 0> (b) }"""
    found = analysis(model(text, v=V), VECTORS, tmp_path)
    costs = [row["cost"] for row in found["tensors"] if row["cost"]]
    assert costs and all(cost["alone_db"] < 100 for cost in costs)


def test_channels_along_a_free_size_are_none(tmp_path):
    text = """g (float[1, 4, H, 5] x) => (float[1, 5, H, 4] y) {
        a = Conv (x, w) b = Transpose <perm = [0, 3, 2, 1]> (a) y = Relu (b) }"""
    turned = """g (float[1, 4, H, 5] x) => (float[1, H, 5, 4] y) {
        a = Conv (x, w) b = Transpose <perm = [0, 2, 3, 1]> (a) y = Sigmoid (b) }"""
    feeds = [{"x": numbers(1, 4, size, 5)} for size in (4, 6, 5, 7)]
    for each in (text, turned):
        found = analysis(model(each, w=W), feeds, tmp_path)
        lists = [row["channels"]["low"] for row in found["tensors"] if row["channels"]]
        assert all(len(each) < 6 for each in lists)


@pytest.mark.parametrize("mask", [-np.inf, np.finfo(np.float32).min, -1e30])
def test_large_masks_leave_numbers_that_json_has(mask, tmp_path):
    text = """g (float[2, 8] x) => (float[2, 8] y) {
        a = MatMul (x, v) b = Add (a, m) s = Softmax <axis = 1> (b) y = MatMul (s, v) }"""
    masked = np.array([0, 0, 0, mask, 0, 0, 0, mask], np.float32)
    found = analysis(model(text, v=V, m=masked), VECTORS, tmp_path)
    assert "NaN" not in json.dumps(found, allow_nan=False)


def test_a_constant_output_and_labels_beside_others(tmp_path):
    text = """g (float[2, 8] x) => (float[2, 8] y, float[2] c, bool[2, 8] l) {
        y = MatMul (x, v) c = Identity (two) l = Greater (y, zero) }"""
    two = np.array([1, 2], np.float32)
    found = analysis(model(text, v=V, two=two, zero=np.float32(0)), VECTORS, tmp_path)
    assert found["looked_at"][0] == "y"


@pytest.mark.parametrize("end", ["ArgMax <axis = 1, keepdims = 0> (b)", "Greater (b, zero)"])
def test_options_are_tried_on_labels_too(end, tmp_path):
    kind = "int64[2]" if "ArgMax" in end else "bool[2, 8]"
    text = f"g (float[2, 8] x) => ({kind} y) {{ b = MatMul (x, v) y = {end} }}"
    original = model(text, v=V, **({} if "ArgMax" in end else {"zero": np.float32(0)}))
    integer = qpasses.quantize(original, VECTORS, accuracy="fast", activation_bits=4).model
    done = qpasses.analyze(integer, original, VECTORS, seconds=2, try_options=True)
    assert done.report["analysis"]["tried"]


def test_a_gain_of_few_samples_may_be_chance():
    assert not is_beyond_chance(np.array([3.0, 1.0, 2.5, 0.2, 2.0]), 8)
    assert is_beyond_chance(np.array([3.0, 2.5, 2.6, 2.7, 3.1]), 8)
    assert not is_beyond_chance(np.array([0.3] * 20), 8)
    rng = np.random.default_rng(0)
    best = [max(rng.normal(size=(8, 6)), key=np.mean) * 9 for _ in range(400)]
    assert np.mean([is_beyond_chance(each, 8) for each in best]) < 0.08


def test_ranges_have_the_names_that_overrides_take(tmp_path):
    """A range that only moves on to others is theirs: quantize observes the last of them."""
    text = """g (float[1, 4, 6, 6] x) => (float[1, 4, 2, 2] y, float[1, 4, 2, 2] z) {
        a = Conv (x, w) b = MaxPool <kernel_shape = [2, 2]> (a) c = Conv (b, w)
        d = Slice (c, begin, end) t = Transpose <perm = [0, 1, 3, 2]> (d) y = Conv (t, w)
        e = Slice (c, zeros, ends) z = Conv (e, w) }"""
    places = {
        "begin": [0, 0, 1, 1],
        "end": [1, 4, 3, 3],
        "zeros": [0] * 4,
        "ends": [1, 4, 2, 2],
    }
    constants = {name: np.array(each, np.int64) for name, each in places.items()}
    original = model(text, w=W, **constants)
    feeds = [{"x": numbers(1, 4, 6, 6, seed=seed)} for seed in range(4)]
    found = analysis(original, feeds, tmp_path)
    assert {row_of(found, name)["range_of"] for name in "ab"} == {"b"}
    assert row_of(found, "c")["range_of"] is None
    assert row_of(found, "d")["range_of"] == row_of(found, "t")["range_of"]
    names = {row["range_of"] for row in found["tensors"]} - {None}
    wanted = [f"{name}=mse" for name in names if row_of(found, name)["kind"] == "activation"]
    assert qpasses.quantize(original, feeds, calibration_overrides=wanted).verdict == "ok"


@only_thorough
def test_each_quarter_of_few_samples_judges_what_the_others_make():
    text = "g (float[2, 8] x) => (float[2, 8] y) { a = Sigmoid (x) y = MatMul (a, v) }"
    original = model(text, v=V)
    wrong = {"calibration_overrides": ["a=-40,40"], "accuracy": "fast"}
    integer = qpasses.quantize(original, VECTORS, **wrong).model
    found = qpasses.analyze(integer, original, VECTORS, seconds=2, try_options=True)
    analysis = found.report["analysis"]
    kept = [each for each in analysis["tried"] if each["kept"]]
    assert [each["samples"] for each in kept] == [len(VECTORS)]
    others = {each["samples"] for each in analysis["tried"] if not each["kept"]}
    assert others <= {len(VECTORS) // 4, len(VECTORS), 0}
    assert len(VECTORS) // 4 in others
    assert analysis["tried_on"]["samples"] == len(VECTORS)
