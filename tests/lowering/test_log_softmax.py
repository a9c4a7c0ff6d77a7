"""LogSoftmax by a table and an integer logarithm: its tables, its bound, and whole graphs."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper

from opsets.fragments import fragment
from opsets.qpasses_v1 import OPS
from opsets.qpasses_v1.int_log_softmax import fits
from qpasses import quantize, verify
from qpasses.evidence.prove_log_softmax import (
    differing_log_rows,
    log_softmax_bound,
    log_table_errors,
    logarithm,
)
from qpasses.lowering.numbers.log_softmax_tables import fraction_bits, log_softmax_tables
from qpasses.lowering.numbers.softmax_tables import largest_entry
from tests.support.small_models import model, numbers, session
from tests.support.stage_checks import check, net, random_feeds, seeds, stages
from tests.support.thoroughness import thoroughly

OP = OPS["IntLogSoftmax"]
TEXT = "g (float[N, 8] x) => (float[N, 6] y) { a = MatMul (x, w) [log] y = LogSoftmax (a) }"
SETTINGS = {
    "default": {},
    "int8": {"activation_type": "int8"},
    "six bits": {"activation_bits": 6},
    "portable": {"bodies": "portable"},
    "exact": {"exact": True},
    "24 bits": {"softmax_bits": 24},
    "mse": {"calibration_method": "mse"},
}


def constants(x_scale, y_scale, length, bits=32, dtype=np.uint8):
    """The inputs of a node behind x, by name; 0 is the largest code."""
    tables = log_softmax_tables(x_scale, y_scale, largest_entry(length, bits))
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    ends = (np.array(each, dtype) for each in (high, low, high))
    return {**tables.inputs(), **dict(zip(("y_zero", "y_min", "y_max"), ends, strict=True))}


def attributes(y_scale, rounding="half_to_even", axis=-1):
    return {"axis": axis, "fraction_bits": fraction_bits(y_scale), "rounding": rounding}


def real_log_softmax(codes, x_scale):
    """Along the last axis, in float64."""
    level = (codes - codes.max(axis=-1, keepdims=True)) * np.float64(x_scale)
    return level - np.log(np.exp(level).sum(axis=-1, keepdims=True))


@pytest.mark.parametrize("number", [1, 2, 3, 2**31 - 1, 2**41, Fraction(257, 256), 1e-9, 7.7])
def test_logarithms_in_integers_are_those_of_float64(number):
    assert float(logarithm(Fraction(number))) == pytest.approx(math.log(number), rel=1e-15)


@pytest.mark.thinned
@pytest.mark.parametrize("x_scale", [1e-5, 1 / 128, 0.1, 1.0, 30.0])
@pytest.mark.parametrize("y_scale", [1e-9, 1 / 1000, 0.05, 3.0])
def test_every_entry_is_the_nearest_integer(x_scale, y_scale):
    made, bits = constants(x_scale, y_scale, 10), fraction_bits(y_scale)
    errors = log_table_errors(made, x_scale, y_scale, bits)
    assert all(error <= Fraction(1, 2) for part in errors.values() for error in part)
    assert fits(made, attributes(y_scale))


@thoroughly(60)
@given(
    seed=st.integers(0, 9999),
    length=st.sampled_from([1, 2, 10, 197, 1000]),
    x_scale=st.sampled_from([1 / 128, 0.0123, 0.1, 1.0, 30.0]),
    y_scale=st.sampled_from([0.001, 0.02, 0.1, 1.0]),
    bits=st.sampled_from([24, 32]),
)
def test_no_result_is_further_from_float64_than_the_bound_says(
    seed, length, x_scale, y_scale, bits
):
    rng = np.random.default_rng(seed)
    x = rng.integers(int(rng.integers(0, 256)), 256, (50, length)).astype(np.uint8)
    made = constants(x_scale, y_scale, length, bits)
    found = OP.reference(x, *made.values(), **attributes(y_scale)).astype(np.int64)
    level = real_log_softmax(x.astype(np.int64), x_scale) / y_scale + 255
    bound = log_softmax_bound(made, x_scale, y_scale, length, fraction_bits(y_scale))
    assert np.abs(found - np.clip(level, 0, 255)).max() <= bound + 0.5 + 1e-6
    if bits == 32 and length <= 197:
        assert bound < 0.004 / y_scale


@pytest.mark.thinned
@pytest.mark.parametrize("rounding", ["half_to_even", "half_up", "half_away"])
@pytest.mark.parametrize("flavour", ["onnxruntime", "portable"])
@pytest.mark.parametrize("length", [1, 7, 300])
def test_each_body_gives_the_meaning_on_rows_of_all_kinds(rounding, flavour, length):
    made, given_attributes = constants(0.05, 0.03, length), attributes(0.03, rounding, -2)
    body = OP.body(flavour, made, given_attributes)
    assert body.flavour == flavour
    assert differing_log_rows(body, made, length, given_attributes) == 0


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("Round (small)", "Floor (small)"),
        ("ReduceMax (code, axes)", "ReduceMin (code, axes)"),
        ("on_line = Floor (on_line_0)", "on_line = Ceil (risen)"),
        ("mantissa = Mul (total, lift)", "mantissa = Mul (end, one)"),
    ],
)
def test_a_body_that_is_wrong_is_found(right, wrong):
    made, body = constants(0.05, 0.03, 50), OP.overload("onnxruntime")
    text = str(body.statements)
    assert text.count(right) == 1
    changed = replace(body, statements=fragment(text.replace(right, wrong)))
    assert differing_log_rows(changed, made, 50, attributes(0.03)) > 0


def samples(count=6):
    return [{"x": numbers(4, 8, seed=seed)} for seed in range(count)]


def scored():
    return model(TEXT, w=numbers(8, 6))


@pytest.mark.thinned
@pytest.mark.parametrize("name", SETTINGS)
def test_a_graph_is_integer_to_its_end_and_checked(name):
    made = quantize(scored(), samples(), **SETTINGS[name])
    assert made.verdict == "ok" and made.report["summary"]["float_nodes"] == []
    (proof,) = [each for each in made.evidence if each.name == "log"]
    assert (proof.op, proof.kind, proof.mismatches) == ("IntLogSoftmax", "bounded", 0)
    assert proof.reference_max_lsb == 1 and proof.reference_moved == 0
    assert proof.bound < 0.01
    assert proof.body == ("portable" if name == "portable" else "onnxruntime")
    assert made.report["accuracy"]["outputs"][0]["sqnr_db"] > (
        20 if name == "six bits" else 30
    )
    found = verify(made.model, scored(), samples())
    assert (found.verdict, found.report["summary"]["problems"]) == ("ok", [])


@pytest.mark.parametrize("rounding", ["half_up", "half_away"])
def test_targets_with_other_roundings_have_a_fast_body_too(rounding, tmp_path):
    target = tmp_path / "mine.toml"
    target.write_text(
        f'name = "mine"\ndescription = "d"\nmultiplier_bits = 24\n'
        f'rounding = "{rounding}"\nfast_kernels = true\n',
        "utf-8",
    )
    made = quantize(scored(), samples(), target=target)
    (proof,) = [each for each in made.evidence if each.name == "log"]
    assert proof.body == f"onnxruntime_{rounding}"
    assert verify(made.model, scored(), samples()).verdict == made.verdict == "ok"


@thoroughly(25)
@given(seed=seeds, axis=st.integers(-3, 2), shape=st.permutations([1, 3, 5]))
def test_a_log_softmax_between_integers_is_within_its_bound(seed, axis, shape):
    body = (
        f"a = Mul (x, k) b = Conv (a, one) s = LogSoftmax <axis = {axis}> (b)y = Conv (s, one)"
    )
    one = np.eye(shape[1], dtype=np.float32)[:, :, None]
    made = net(shape, body, k=np.float32(3), one=one)
    found = stages(made, random_feeds(made, seed))
    assert "IntLogSoftmax" in [node.op_type for node in found.integer.graph.node]
    check(found, random_feeds(made, seed + 1))


@pytest.mark.thinned
@pytest.mark.parametrize("table", ["denominators", "distances", "octaves", "logarithms"])
def test_a_table_with_one_other_entry_is_found(table):
    made = quantize(scored(), samples())
    node = next(each for each in made.model.graph.node if each.name == "log")
    name = node.input[list(OP.inputs).index(table)]
    (tensor,) = [each for each in made.model.graph.initializer if each.name == name]
    values = np.array(numpy_helper.to_array(tensor))
    values[20] += 1
    tensor.CopyFrom(numpy_helper.from_array(values, name))
    found = verify(made.model, scored(), samples())
    assert found.verdict == "failed"
    assert any(table in each for each in found.report["summary"]["problems"])


def test_what_is_below_the_range_is_the_lowest_code():
    made = quantize(scored(), samples(), calibration_overrides=["y=-2,0"])
    test = samples()[0]
    expected, found = (session(each).run(None, test)[0] for each in (scored(), made.model))
    assert expected.min() < -2.5
    np.testing.assert_allclose(found, np.maximum(expected, -2), atol=0.06)


def test_rows_too_long_for_a_narrow_accumulator_stay_in_float():
    text = "g (float[1, 2] x) => (float[1, 32768] y) { a = MatMul (x, w) y = LogSoftmax (a) }"
    options = {"softmax_bits": 16, "per_channel": False}
    made = quantize(model(text, w=numbers(2, 32768)), [{"x": numbers(1, 2)}], **options)
    (left,) = made.report["summary"]["float_nodes"]
    assert left["reason"] == "LogSoftmax over rows too long for an accumulator of 16 bits"


@pytest.mark.parametrize("wanted", ["float", "inner"])
def test_the_option_for_softmax_holds_for_its_logarithm(wanted):
    made = quantize(scored(), samples(), softmax_nodes=wanted)
    (left,) = made.report["summary"]["float_nodes"]
    assert left["op_type"] == "LogSoftmax" and "--softmax-nodes" in left["reason"]
    assert verify(made.model, scored(), samples()).verdict == "ok"
