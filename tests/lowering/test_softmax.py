"""Softmax by two tables: its entries, its bound, its rows, and whole graphs that hold it."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper

from calibration import Session
from opsets.fragments import fragment
from opsets.native import library
from opsets.qpasses_v1 import OPS
from opsets.qpasses_v1.table_softmax import LARGEST_NUMERATORS
from qpasses import UsageError, quantize, verify
from qpasses.evidence.prove_softmax import (
    differing_rows,
    exponentials,
    softmax_bound,
    softmax_bound16,
    table_errors,
    worst_rows,
    worst_rows16,
)
from qpasses.ir.runtime import run_op
from qpasses.lowering.numbers.softmax_tables import (
    largest_entry,
    share_multiplier,
    softmax_tables,
    softmax_tables16,
)
from tests.support.small_models import model, numbers
from tests.support.stage_checks import check, net, random_feeds, seeds, stages
from tests.support.thoroughness import thoroughly

EVEN = {"axis": -1, "published": 0, "rounding": "half_to_even"}
SCALES = st.sampled_from([1 / 128, 1 / 64, 0.0123, 0.1, 1.0, 30.0])


def constants(x_scale, y_scale, length, bits=32, dtype=np.uint8, y_zero=0):
    """The inputs of a node behind x, by name; y at the ends of its type."""
    tables = softmax_tables(x_scale, y_scale, largest_entry(length, bits))
    limits = np.iinfo(dtype)
    ends = (np.array(value, dtype) for value in (y_zero, limits.min, limits.max))
    return dict(zip(list(OPS["TableSoftmax"].inputs)[1:], [*tables, *ends], strict=True))


def meaning(x, given):
    return OPS["TableSoftmax"].reference(x, *given.values(), **EVEN)


def real_softmax(codes, x_scale):
    """Along the last axis, in float64."""
    level = (codes - codes.max(axis=-1, keepdims=True)) * np.float64(x_scale)
    return np.exp(level) / np.exp(level).sum(axis=-1, keepdims=True)


# The tables.


@pytest.mark.parametrize("scale", [1e-30, 1 / 128, 0.3, 1.0, 7.7, 300.0, 1e30])
def test_exponentials_in_integers_are_those_of_float64(scale):
    expected = [math.exp(-scale * d) if scale * d < 700 else 0.0 for d in range(256)]
    found = [float(each) for each in exponentials(scale)]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-50)


@thoroughly(60)
@given(SCALES, st.sampled_from([1 / 255, 1 / 256, 1e-3, 1e-9]), st.integers(1, 5000))
def test_every_entry_is_the_nearest_integer(x_scale, y_scale, length):
    made = constants(x_scale, y_scale, length)
    for errors in table_errors(made, x_scale, y_scale):
        assert max(errors) <= Fraction(1, 2)
    denominators, numerators = made["denominators"], made["numerators"]
    assert denominators[0] == largest_entry(length, 32)
    assert (np.diff(denominators) <= 0).all() and (np.diff(numerators) <= 0).all()
    assert int(denominators[0]) * length < 1 << 31 and numerators[0] <= LARGEST_NUMERATORS[1]


@pytest.mark.parametrize(("bits", "length"), [(16, 8), (16, 197), (24, 1000), (32, 4096)])
def test_the_sum_of_any_row_fits_the_accumulator(bits, length):
    assert length * largest_entry(length, bits) < 1 << (bits - 1)


@pytest.mark.parametrize("length", [1, 2, 197, 1500, 1 << 20])
@pytest.mark.parametrize("y_scale", [1.0, 0.99, 1 / 255, 1 / 32767, 2.0**-15, 1e-6, 3e-9])
def test_the_multiplier_of_words_is_near_and_its_products_exact_in_double(y_scale, length):
    largest = largest_entry(length, 32)
    multiplier, shift = share_multiplier(y_scale, largest)
    is_exact = largest * multiplier < 1 << 51
    assert abs(multiplier * y_scale / 2**shift - 1) < 2**-19 or not is_exact
    assert is_exact or shift == 1  # of steps that fine


@pytest.mark.parametrize("y_scale", [1.01, 1e30, 1e-10])
def test_steps_that_no_multiplier_expresses_have_none(y_scale):
    assert share_multiplier(y_scale, 1 << 20) is None


def constants16(x_scale, y_scale, length, dtype=np.int16):
    high, low = softmax_tables16(x_scale, largest_entry(length, 32))
    numbers = (np.int32(each) for each in share_multiplier(y_scale, largest_entry(length, 32)))
    limits = np.iinfo(dtype)
    ends = (np.array(value, dtype) for value in (0, limits.min, limits.max))
    names = list(OPS["TableSoftmax16"].inputs)[1:]
    return dict(zip(names, [high, low, *map(np.asarray, numbers), *ends], strict=True))


@thoroughly(60)
@given(
    st.sampled_from([2e-5, 1e-3, 0.02, 1.0]),
    st.sampled_from([1 / 32767, 1 / 20000, 1e-5]),
    st.integers(1, 300),
    seeds,
)
def test_no_row_of_words_leaves_the_bound(x_scale, y_scale, length, seed):
    made, rng = constants16(x_scale, y_scale, length), np.random.default_rng(seed)
    bound = softmax_bound16(made, x_scale, y_scale, length)
    spread = rng.choice([30, 3000, 32767], (20, 1))
    x = np.concatenate(
        [rng.integers(-spread, spread, (20, length)), 32767 - worst_rows16(made, length)[::23]]
    ).astype(np.int16)
    exact = np.minimum(real_softmax(x.astype(np.int64), x_scale) / y_scale, 32767)
    attributes = {"axis": -1, "rounding": "half_to_even"}
    found = OPS["TableSoftmax16"].reference(x, *made.values(), **attributes)
    assert np.abs(found - exact).max() <= bound + 0.5 + 1e-6


def test_words_of_usual_rows_are_within_a_step_of_16_bits():
    made = constants16(20 / 32767, 1 / 32767, 197)
    assert softmax_bound16(made, 20 / 32767, 1 / 32767, 197) < 0.6


@pytest.mark.thinned
@pytest.mark.parametrize("name", ["high", "low", "multiplier", "shift"])
def test_a_number_of_words_that_is_off_is_found(name):
    text = "g (float[2, 9] x) => (float[2, 9] y) { y = Softmax (x) }"
    made, feeds = model(text, opset=21), [{"x": numbers(2, 9, seed=s)} for s in range(4)]
    found = quantize(made, feeds, tensor_types=[".*=int16"])
    assert verify(found.model, made, feeds).verdict == "ok"
    node = next(n for n in found.model.graph.node if n.op_type == "TableSoftmax16")
    constant = next(
        each
        for each in found.model.graph.initializer
        if each.name == node.input[list(OPS["TableSoftmax16"].inputs).index(name)]
    )
    values = numpy_helper.to_array(constant).copy()
    values.flat[min(3, values.size - 1)] += 1
    constant.CopyFrom(numpy_helper.from_array(values, constant.name))
    assert verify(found.model, made, feeds).verdict != "ok"


# The bound.


@thoroughly(150)
@given(
    SCALES,
    st.sampled_from([1 / 255, 1 / 1000, 1e-4]),
    st.integers(1, 300),
    st.sampled_from([16, 24, 32]),
    st.integers(0, 2**32 - 1),
)
def test_no_row_leaves_the_bound(x_scale, y_scale, length, bits, seed):
    made, rng = constants(x_scale, y_scale, length, bits), np.random.default_rng(seed)
    bound = softmax_bound(made, x_scale, y_scale, length)
    widths = rng.integers(0, 256, (20, 1))
    rows = np.concatenate([rng.integers(0, widths, (20, length), endpoint=True)])
    x = np.concatenate([rows, 255 - worst_rows(made, length)[::7]]).astype(np.uint8)
    exact = np.minimum(real_softmax(x.astype(np.int64), x_scale) / y_scale, 255)
    assert np.abs(meaning(x, made) - exact).max() <= bound + 0.5 + 1e-9
    gap = np.abs(meaning(x, made).astype(np.int64) - np.rint(exact))
    assert gap.max() <= int(bound + 1)


@pytest.mark.parametrize(("bits", "length"), [(16, 197), (24, 1000)])
def test_the_bound_is_reached_nearly(bits, length):
    made = constants(1 / 16, 1 / 255, length, bits)
    x = 255 - worst_rows(made, length)
    exact = real_softmax(x, 1 / 16) * 255
    gap = np.abs(meaning(x.astype(np.uint8), made) - exact).max()
    assert gap > 0.6 * softmax_bound(made, 1 / 16, 1 / 255, length)


def test_32_bits_keep_a_row_of_1000_within_a_tenth_of_a_step_where_24_lose_many():
    def bound(bits):
        return softmax_bound(constants(1 / 16, 1 / 255, 1000, bits), 1 / 16, 1 / 255, 1000)

    assert bound(32) < 0.1 < 10 < bound(24) < bound(16) == 255


# The rows.

IN_FLOAT32 = """near_n = Cast <to = 1> (shares)
    near_d   = Cast <to = 1> (total)
    near     = Div (near_n, near_d)
    quotient = Cast <to = 11> (near)"""


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("flavour", ["onnxruntime", "portable"])
@pytest.mark.parametrize("length", [1, 2, 10, 197, 4096])
def test_rows_of_all_kinds_are_right(length, flavour, dtype):
    limits = np.iinfo(dtype)
    made = constants(0.1, 1 / 255, length, dtype=dtype, y_zero=limits.min)
    rng = np.random.default_rng(length)
    rows = [np.full(length, code) for code in (limits.min, -40, 0, limits.max)]
    one_hot = np.full(length, limits.min)
    one_hot[length // 2] = limits.max
    low = rng.integers(limits.min, limits.min + 20, length)
    rows += [one_hot, low, rng.integers(limits.min, limits.max, length, endpoint=True)]
    x = np.stack(rows).clip(limits.min, limits.max).astype(dtype)
    exact = real_softmax(x.astype(np.int64), 0.1) * 255 + limits.min
    body = OPS["TableSoftmax"].body(flavour, made, EVEN)
    for optimize in (False, True):
        y = run_op("TableSoftmax", body, [x, *made.values()], EVEN, optimize=optimize)
        np.testing.assert_array_equal(y, meaning(x, made))
        bound = softmax_bound(made, 0.1, 1 / 255, length)
        assert np.abs(y - exact).max() <= 0.5 + bound + 1e-9


@pytest.mark.parametrize("flavour", ["onnxruntime", "portable"])
def test_a_row_longer_than_the_accumulator_stays_exact_in_both_bodies(flavour):
    """On a machine of 32 bits it would overflow; here sums have 53 bits or more."""
    made = constants(0.01, 1 / 2550, 10)
    x = np.random.default_rng(0).integers(200, 256, (3, 5000), np.uint8)
    assert made["denominators"][255 - x[0]].astype(np.int64).sum() > 1 << 31
    body = OPS["TableSoftmax"].body(flavour, made, EVEN)
    y = run_op("TableSoftmax", body, [x, *made.values()], EVEN)
    np.testing.assert_array_equal(y, meaning(x, made))
    assert np.abs(y - real_softmax(x.astype(np.int64), 0.01) * 2550).max() < 0.6


@pytest.mark.parametrize("scale", [1 / 64, 1 / 128])
def test_the_results_of_a_row_of_197_sum_to_one_within_2_percent(scale):
    x = np.random.default_rng(0).integers(0, 256, (50, 197), np.uint8)
    y_scale = float(real_softmax(x.astype(np.int64), scale).max() / 255)
    sums = meaning(x, constants(scale, y_scale, 197)).sum(axis=1) * y_scale
    assert np.abs(sums - 1).max() < 0.02


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("Round (quotient)", "Floor (quotient)"),
        ("ReduceMax (code, axes)", "ReduceMin (code, axes)"),
        ("quotient = Div (shares, total)", IN_FLOAT32),
    ],
)
def test_a_body_that_is_wrong_is_found_on_the_worst_rows(right, wrong):
    made, body = constants(0.05, 1 / 255, 50), OPS["TableSoftmax"].overload("onnxruntime")
    assert differing_rows(body, made, 50, EVEN) == 0
    text = str(body.statements)
    assert text.count(right) == 1
    changed = replace(body, statements=fragment(text.replace(right, wrong)))
    assert differing_rows(changed, made, 50, EVEN) > 0


# Whole graphs.

ATTENTION = """
attention (float[N, T, 8] x) => (float[N, T, 8] y) {
    q = MatMul (x, w_q) k = MatMul (x, w_k) v = MatMul (x, w_v)
    t = Transpose <perm = [0, 2, 1]> (k)
    scores = MatMul (q, t) s = Mul (scores, third)
    SOFTMAX
    y = MatMul (p, v)
}"""

FORMS = {
    "one node": "[soft] p = Softmax (s)",
    "written out": "e = Exp (s) l = ReduceSum (e, last) [soft] p = Div (e, l)",
    "shifted": """m = ReduceMax (s, last) d = Sub (s, m) e = Exp (d)
        l = ReduceSum (e, last) [soft] p = Div (e, l)""",
}
SETTINGS = {
    "default": {},
    "int8": {"activation_type": "int8"},
    "six bits": {"activation_bits": 6},
    "portable": {"bodies": "portable"},
    "exact": {"exact": True},
    "24 bits": {"softmax_bits": 24},
    "function ranges": {"table_ranges": "function"},
}


def attention(form="one node"):
    weights = {name: numbers(8, 8, seed=i) for i, name in enumerate(("w_q", "w_k", "w_v"))}
    weights |= {"third": np.float32(1 / 3)}
    if form != "one node":
        weights["last"] = np.array([-1])
    return model(ATTENTION.replace("SOFTMAX", FORMS[form]), opset=18, **weights)


def feeds(tokens=5, count=4):
    return [{"x": numbers(1, tokens, 8, seed=seed)} for seed in range(count)]


def proof_of(made, name="soft"):
    return next(each for each in made.evidence if each.name == name)


@pytest.mark.thinned
@pytest.mark.parametrize("name", SETTINGS)
def test_attention_is_integer_from_end_to_end(name):
    made = quantize(attention(), feeds(), **SETTINGS[name])
    assert made.verdict == "ok" and made.report["summary"]["float_nodes"] == []
    proof = proof_of(made)
    assert (proof.op, proof.kind, proof.mismatches) == ("TableSoftmax", "bounded", 0)
    assert proof.reference_max_lsb == 1 and proof.reference_moved == 0
    assert proof.body == ("portable" if name == "portable" else "onnxruntime")
    found = verify(made.model, attention(), feeds())
    assert (found.verdict, found.report["summary"]["problems"]) == ("ok", [])


@pytest.mark.parametrize("rounding", ["half_up", "half_away"])
def test_targets_that_round_ties_up_have_a_fast_body_too(rounding, tmp_path):
    target = tmp_path / "mine.toml"
    target.write_text(
        f'name = "mine"\ndescription = "d"\nmultiplier_bits = 24\n'
        f'rounding = "{rounding}"\nfast_kernels = true\n',
        "utf-8",
    )
    made = quantize(attention(), feeds(), target=target)
    assert proof_of(made).body == "onnxruntime_floor"
    assert verify(made.model, attention(), feeds()).verdict == made.verdict == "ok"


@pytest.mark.parametrize("form", ["written out", "shifted"])
def test_a_softmax_that_is_written_out_becomes_the_same_integers(form):
    ours, theirs = (quantize(attention(each), feeds()) for each in (form, "one node"))
    assert ours.verdict == "ok" and proof_of(ours) == proof_of(theirs)
    nodes = [[(n.op_type, n.name) for n in m.model.graph.node] for m in (ours, theirs)]
    assert nodes[0] == nodes[1]


def test_a_node_of_a_written_softmax_that_is_excluded_keeps_it_apart():
    made = quantize(attention("written out"), feeds(), nodes_to_exclude=["e"])
    left = {each["op_type"] for each in made.report["summary"]["float_nodes"]}
    assert "Exp" in left and "Softmax" not in left


@thoroughly(25)
@given(seed=seeds, axis=st.integers(-3, 2), shape=st.permutations([1, 3, 5]))
def test_a_softmax_between_integers_is_within_its_bound(seed, axis, shape):
    body = (
        f"a = Mul (x, k) b = Conv (a, one) s = Softmax <axis = {axis}> (b) y = Conv (s, one)"
    )
    one = np.eye(shape[1], dtype=np.float32)[:, :, None]
    made = net(shape, body, k=np.float32(3), one=one)
    found = stages(made, random_feeds(made, seed))
    assert "TableSoftmax" in [node.op_type for node in found.integer.graph.node]
    check(found, random_feeds(made, seed + 1))


@pytest.mark.parametrize("opset", [7, 11, 12])
def test_before_opset_13_a_softmax_spans_all_axes_from_its_own(opset):
    text = """g (float[1, 4, 6] x) => (float[1, 2, 6] y) {
        c = Conv (x, w) s = Softmax <axis = 1> (c) y = Conv (s, v)
    }"""
    weights = {"w": numbers(3, 4, 1), "v": numbers(2, 3, 1, seed=1)}
    made = model(text, opset=opset, **weights)
    samples = [{"x": numbers(1, 4, 6, seed=seed)} for seed in range(4)]
    result = quantize(made, samples)
    (proof,) = [each for each in result.evidence if each.op == "TableSoftmax"]
    assert result.verdict == "ok" and proof.accumulator[1] <= 18 * largest_entry(18, 32)
    assert result.report["accuracy"]["outputs"][0]["sqnr_db"] > 25


FINAL = "g (float[N, 4] x) => (float[N, 3] y) { a = MatMul (x, w) [soft] y = Softmax (a) }"
INNER = """g (float[N, 4] x) => (float[N, 2] y) {
    a = MatMul (x, w) [soft] s = Softmax (a) y = MatMul (s, v)
}"""


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("text", "wanted", "op"),
    [
        (FINAL, "inner", "Softmax"),
        (FINAL, "all", "TableSoftmax"),
        (FINAL, "float", "Softmax"),
        (INNER, "inner", "TableSoftmax"),
        (INNER, "all", "TableSoftmax"),
        (INNER, "float", "Softmax"),
    ],
)
def test_the_option_says_which_softmax_become_integer(text, wanted, op):
    weights = {"w": numbers(4, 3)} | ({"v": numbers(3, 2)} if text is INNER else {})
    made = model(text, **weights)
    samples = [{"x": numbers(1, 4, seed=seed)} for seed in range(4)]
    result = quantize(made, samples, softmax_nodes=wanted)
    assert next(n.op_type for n in result.model.graph.node if n.name == "soft") == op
    reasons = [each["reason"] for each in result.report["summary"]["float_nodes"]]
    assert len(reasons) == (op == "Softmax") and all("--softmax" in each for each in reasons)
    assert verify(result.model, made, samples).verdict == result.verdict != "failed"


def test_a_softmax_at_the_end_becomes_integer_where_its_type_is_listed():
    made = model(FINAL, w=numbers(4, 3))
    types = ["Softmax", "MatMul"]
    result = quantize(made, [{"x": numbers(1, 4)}], op_types_to_quantize=types)
    assert result.verdict == "ok" and proof_of(result).op == "TableSoftmax"


def test_a_softmax_of_what_is_not_on_integers_stays_float():
    made = model(
        "g (float[2, 4] x) => (float[2, 3] y) { s = Softmax (x) y = MatMul (s, w) }",
        w=numbers(4, 3),
    )
    result = quantize(made, [{"x": numbers(2, 4)}])
    (left,) = result.report["summary"]["float_nodes"]
    assert left["reason"].startswith("Softmax of a tensor that is not on integers")


def test_rows_too_long_for_16_bits_stay_float():
    text = """g (float[1, 40000, 1] x) => (float[1, 40000, 1] y) {
        a = MatMul (x, w) [soft] s = Softmax <axis = 1> (a) y = MatMul (s, w)
    }"""
    made = model(text, w=np.float32([[2]]))
    result = quantize(made, [{"x": numbers(1, 40000, 1)}], softmax_bits=16)
    (left,) = result.report["summary"]["float_nodes"]
    assert "rows too long for an accumulator of 16 bits" in left["reason"]


@pytest.mark.parametrize("bits", [8, 31, 32.0, "32", True])
def test_an_accumulator_of_another_width_is_refused(bits):
    with pytest.raises(UsageError, match="softmax_bits"):
        quantize(attention(), feeds(), softmax_bits=bits)


# One break at a time.


def broken_table(made, position, change):
    copy = onnx.ModelProto()
    copy.CopyFrom(made)
    node = next(node for node in copy.graph.node if node.name == "soft")
    tensor = next(t for t in copy.graph.initializer if t.name == node.input[position])
    values = numpy_helper.to_array(tensor).copy()
    values[3] += change
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return copy


@pytest.mark.thinned
@pytest.mark.parametrize("position", [1, 2])
@pytest.mark.parametrize("change", [1, -1])
def test_a_changed_entry_is_found(position, change):
    changed = broken_table(quantize(attention(), feeds()).model, position, change)
    found = verify(changed, attention(), feeds())
    assert found.verdict == "failed"
    assert any(
        "'soft'" in each or "soft." in each for each in found.report["summary"]["problems"]
    )


def test_an_entry_that_is_far_off_shows_in_the_bound():
    made = quantize(attention(), feeds())
    changed = broken_table(made.model, 1, -(1 << 27))
    evidence = verify(changed, attention(), feeds()).evidence
    proof = next(each for each in evidence if each.name == "soft")
    assert proof.reference_moved == 1 and proof.reference_max_lsb > 5


@pytest.mark.parametrize(("name", "value"), [("axis", -2), ("published", 1), ("axis", 1)])
def test_a_changed_attribute_is_found_or_refused(name, value):
    changed = quantize(attention(), feeds()).model
    node = next(node for node in changed.graph.node if node.name == "soft")
    attribute = next(each for each in node.attribute if each.name == name)
    attribute.CopyFrom(onnx.helper.make_attribute(name, value))
    if value == -2:
        assert verify(changed, attention(), feeds()).verdict == "failed"
    else:
        with pytest.raises(Exception, match="'soft' has not the inputs and attributes"):
            verify(changed, attention(), feeds())


def test_rows_of_words_longer_than_on_the_first_sample_are_run():
    text = "g (float[2, N] x) => (float[2, N] y) { y = Softmax (x) }"
    made, feeds = model(text, opset=21), [{"x": numbers(2, 4, seed=s)} for s in range(4)]
    found = quantize(made, feeds, tensor_types=[".*=int16"]).model
    longer = {"x": np.concatenate([numbers(2, 4)] * 300, axis=1)}
    runs = [Session(found, operators=each).run(None, longer)[0] for each in (None, library())]
    assert np.array_equal(*runs)
    assert np.abs(runs[0] - Session(made).run(None, longer)[0]).max() < 2e-3
