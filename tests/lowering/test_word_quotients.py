"""Quotients of words: their divisors, multipliers, evidence, and what the checker finds."""

from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper

from calibration import Session
from opsets.multipliers import ScaleError
from opsets.qpasses_v1 import OPS
from opsets.qpasses_v1.int_div import LARGEST_SHIFT_IN_DOUBLE
from opsets.target import load_target
from qpasses import ModelError, export, quantize, verify
from qpasses.evidence.prove_quotients import quotient_bound
from qpasses.ir.runtime import OPSET
from qpasses.lowering.numbers.knots import words_of_results
from qpasses.lowering.numbers.word_numbers import quotient_multiplier
from tests.support.op_cases import CASES
from tests.support.small_models import model, numbers
from tests.support.thoroughness import thoroughly

WIDTH = 8
WEIGHTS = {
    "u": numbers(WIDTH, WIDTH) / 3,
    "v": numbers(WIDTH, WIDTH, seed=1) / 3,
    "small": np.float32(0.05),
    "last": np.array([-1]),
}
BODIES = {
    "alone": "s = Sigmoid (b) [one] c = Relu (s) [it] y = Div (a, c) z = Add (c, a)",
    "a root": "s = Abs (b) q = Sqrt (s) [made] d = Add (q, small) [it] y = Div (a, d)",
    "a sum of squares": "q = Mul (b, b) [made] d = Add (q, small) [it] y = Div (a, d)",
    "broadcast": """p = Abs (b) s = ReduceSum <keepdims = 1> (p, last)
        [made] d = Add (s, small) [it] y = Div (a, d)""",
}
"""The divisor is stored, or made of one tensor by nodes of which ``made`` is the last."""

TABLES = ("Lut", "Lut16", "LutInterpolated")
WORDS = [[n for n, is_word in zip("aby", some, strict=True) if is_word]
         for some in product((False, True), repeat=3) if any(some)]  # fmt: skip


def feeds(count=4):
    return [{"x": numbers(2, 5, WIDTH, seed=seed)} for seed in range(count)]


@cache
def net(name):
    outputs = "float[A, B, C] y"
    outputs += ", float[D, E, F] z" if name == "alone" else ""
    return model(
        f"g (float[N, 5, {WIDTH}] x) => ({outputs}) {{"
        f" a = MatMul (x, u) b = MatMul (x, v) {BODIES[name]} }}",
        opset=21,
        **WEIGHTS,
    )


def made(name, names="abcsyz", **options):
    """With words of these ``names``, and those of what lies between."""
    types = [f"[{''.join(names)}]=int16"]
    return quantize(net(name), feeds(), tensor_types=types, **options)


def node_of(result, name="it"):
    return next(each for each in result.model.graph.node if each.name == name)


def evidence(result, name="it"):
    return next(each for each in result.evidence if each.name == name)


@pytest.mark.thinned
@pytest.mark.parametrize("bodies", ["onnxruntime", "portable"])
@pytest.mark.parametrize("name", BODIES)
def test_a_quotient_of_words_is_integer_proved_and_near(name, bodies):
    result = made(name, bodies=bodies)
    assert node_of(result).op_type == "IntDiv"
    if name != "alone":
        assert node_of(result, "made").op_type in TABLES
    proof = evidence(result)
    assert (proof.kind, proof.proved, proof.problem) == ("bounded", True, "")
    assert proof.body.startswith(bodies) and proof.mismatches == 0 and proof.bound < 0.01
    assert result.verdict == verify(result.model, net(name), feeds()).verdict == "ok"
    placed = made(name, bodies=bodies, emit="qdq")
    ours, theirs = (Session(each.model) for each in (result, placed))
    for feed in feeds(2):
        found, real = (each.run(None, feed)[0] for each in (ours, theirs))
        assert np.square(real).sum() > 10**3 * np.square(found - real).sum()  # 30 dB


@pytest.mark.thinned
@pytest.mark.parametrize("names", WORDS, ids=str)
@pytest.mark.parametrize("name", ["a sum of squares", "alone"])
def test_any_of_operands_and_result_may_be_words(name, names):
    result = made(name, [*names, *("c" if "b" in names else "")])
    if name == "alone" and names == ["b"]:
        names = ["c"]
    assert node_of(result).op_type == "IntDiv"
    assert result.verdict == verify(result.model, net(name), feeds()).verdict == "ok"


OTHERS = {
    "a constant": (
        "s = Abs (b) t = Add (s, small) [it] y = Div (k, t)",
        ["LutInterpolated", "IntDiv"],
    ),
    "channels": (
        "s = Abs (b) t = Add (s, row) [it] y = Div (a, t)",
        ["LutInterpolatedPerChannel", "IntDiv"],
    ),
    "one tensor": ("s = Abs (b) t = Add (s, small) [it] y = Div (b, t)", ["Lut16"]),
    "of one number": ("s = Abs (b) t = Add (s, small) [it] y = Div (small, t)", ["Lut16"]),
    "by a constant": ("[it] y = Div (b, k)", ["IntMul"]),
    "clamped": ("[made] e = Exp (b) [it] d = Div (a, e) y = Relu (d)", ["Lut16", "IntDiv"]),
}


@pytest.mark.thinned
@pytest.mark.parametrize("name", OTHERS)
def test_other_quotients_keep_the_forms_they_have(name):
    body, wanted = OTHERS[name]
    constants = {"k": numbers(2, 5, WIDTH, seed=4), "row": np.abs(numbers(WIDTH)) + 1}
    original = model(
        f"g (float[N, 5, {WIDTH}] x) => (float[A, B, C] y) {{"
        f" a = MatMul (x, u) b = MatMul (x, v) {body} }}",
        opset=21,
        **WEIGHTS | constants,
    )
    result = quantize(original, feeds(), tensor_types=[".*=int16"])
    ops = [each.op_type for each in result.model.graph.node]
    assert [each for each in ops if each in {*wanted, "IntDiv", "Lut", "LutPair"}] == wanted
    assert result.verdict == verify(result.model, original, feeds()).verdict == "ok"


def test_tosa_has_no_form_of_it_and_says_so(tmp_path):
    result = made("a root")
    with pytest.raises(ModelError, match=r"'it' \(IntDiv\).*no form of this op"):
        export(result.model, tmp_path / "m.mlir", input_shape=["x:1,5,8"])


WAYS = [
    {"target": "exact"},
    {"activation_type": "int8"},
    {"symmetric": True, "activation_type": "int8"},
    {"target": replace(load_target("exact"), name="up", rounding="half_up")},
    {"target": replace(load_target("exact"), name="away", rounding="half_away")},
]


@pytest.mark.thinned
@pytest.mark.parametrize("options", WAYS, ids=str)
def test_every_way_to_quantize_takes_words(options):
    result = made("a root", **options)
    assert node_of(result).op_type == "IntDiv" and evidence(result).proved
    assert result.verdict == verify(result.model, net("a root"), feeds()).verdict == "ok"


def test_of_bytes_there_is_a_table_of_pairs_as_before():
    plain = quantize(net("a root"), feeds())
    assert node_of(plain).op_type == "LutPair"
    assert "made" not in [each.name for each in plain.model.graph.node]


def test_what_is_divided_by_zero_is_an_end_of_codes():
    inputs = [np.array(each, np.int16) for each in ([-5, 0, 7], 0, [0, 0, 0], 0)]
    numbers_of = [np.array(each, np.int32) for each in (1, 10)]
    ends = [np.array(each, np.int16) for each in (3, -100, 200)]
    found = OPS["IntDiv"].reference(*inputs, *numbers_of, *ends, rounding="half_up")
    assert found.tolist() == [-100, 3, 200]


# Multipliers.


@thoroughly(100)
@given(
    scale=st.fractions(Fraction(1, 1 << 30), 1 << 21, max_denominator=1 << 40),
    target=st.sampled_from(["onnx", "exact"]),
)
def test_a_multiplier_is_nearest_where_double_rounds_quotients(scale, target):
    rules = load_target(target)
    multiplier, shift = quotient_multiplier(scale, rules)
    assert 1 <= shift <= LARGEST_SHIFT_IN_DOUBLE
    assert abs(multiplier - scale * (1 << shift)) <= Fraction(1, 2)
    assert shift == LARGEST_SHIFT_IN_DOUBLE or multiplier >= 1 << rules.multiplier_bits - 1


def test_a_scale_beyond_multipliers_is_refused():
    with pytest.raises(ScaleError, match="beyond multipliers of 24 bits"):
        quotient_multiplier(Fraction(1 << 22), load_target("onnx"))


@thoroughly(100)
@given(data=st.data())
def test_the_bound_of_a_quotient_holds_on_any_codes(data):
    case = data.draw(CASES["IntDiv"])
    known = dict(zip(OPS["IntDiv"].inputs, case.inputs, strict=True))
    rng = data.draw(st.integers(0, 999).map(np.random.default_rng))
    m, shift = (int(np.reshape(known[name], ())) for name in ("multiplier", "shift"))
    ratio = Fraction(m, 1 << shift) * Fraction(int(rng.integers(990, 1010)), 1000)
    ratio = ratio or Fraction(1, 1 << 40)
    found = OPS["IntDiv"].reference(*case.inputs, **case.attributes)
    a, b = (known[n].astype(object) - int(known[f"{n}_zero"]) for n in "ab")
    bound = Fraction(quotient_bound(known, ratio)) * (1 + Fraction(1, 1 << 40))
    zero, low, high = (int(known[n]) for n in ("y_zero", "y_min", "y_max"))
    places = np.broadcast_arrays(a, b, found)
    for level, divisor, code in zip(*(np.ravel(each)[:50] for each in places), strict=True):
        if divisor:
            real = min(max(Fraction(int(level), int(divisor)) * ratio + zero, low), high)
            assert abs(int(code) - real) <= bound + Fraction(1, 2)


# Evidence: a body that is wrong is found.


def broken(op, body, old, new):
    """The body with another op in place of the first ``old``."""
    function = op.function(body, OPSET)
    del function.opset_import[:]
    next(node for node in function.node if node.op_type == old).op_type = new
    return replace(body, proto=function.SerializeToString(deterministic=True))


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("old", "new"),
    [("Round", "Floor"), ("Round", "Ceil"), ("Clip", "Max"), ("Sub", "Add"), ("Div", "Mul")],
)
def test_a_body_that_computes_something_else_is_not_proved(old, new, monkeypatch):
    used = evidence(made("a root", ["y"])).body
    declared = OPS["IntDiv"]
    bodies = [
        broken(declared, each, old, new) if each.overload == used else each
        for each in declared.bodies
    ]
    monkeypatch.setitem(OPS, "IntDiv", replace(declared, bodies=bodies))
    assert evidence(made("a root", ["y"])).body != used


# The checker.


def changed(result, formal, value, name="it"):
    forged = onnx.ModelProto()
    forged.CopyFrom(result.model)
    node = next(each for each in forged.graph.node if each.name == name)
    place = list(OPS[node.op_type].inputs).index(formal)
    old = next(t for t in forged.graph.initializer if t.name == node.input[place])
    before = numpy_helper.to_array(old)
    after = np.asarray(value(before), before.dtype).reshape(before.shape)
    forged.graph.initializer.append(numpy_helper.from_array(after, f"new_{formal}"))
    node.input[place] = f"new_{formal}"
    return forged


def problems(forged, name="a root"):
    return verify(forged, net(name)).report["summary"]["problems"]


FORGED = [
    *product(("multiplier", "shift"), (1, -1)),
    *product(("a_zero", "b_zero", "y_zero", "y_min"), (1,)),
    ("y_max", -1),
]


@pytest.mark.thinned
@pytest.mark.parametrize(("formal", "step"), FORGED)
def test_a_number_that_was_changed_is_found(formal, step):
    forged = changed(made("a root"), formal, lambda number: number + step)
    assert any("it" in each for each in problems(forged))


@pytest.mark.parametrize("places", [-7, -1, 1])
def test_a_multiplier_of_another_width_is_found(places):
    result = made("a root")
    forged = changed(result, "multiplier", lambda m: np.rint(m * 2.0**places))
    forged = changed(replace(result, model=forged), "shift", lambda shift: shift + places)
    assert problems(forged)


@pytest.mark.parametrize("name", [each for each in BODIES if each != "alone"])
def test_an_entry_of_the_table_of_a_divisor_that_was_changed_is_found(name):
    def other(table):
        found = table.copy()
        found[len(found) // 3] += 1
        return found

    forged = changed(made(name), "table", other, "made")
    assert any("'made'" in each for each in problems(forged, name))


@pytest.mark.parametrize("stored", ["a_quantized", "d_quantized", "y_quantized"])
def test_a_scale_of_the_record_that_was_changed_is_found(stored):
    forged = onnx.ModelProto()
    forged.CopyFrom(made("a root").model)
    value = next(v for v in forged.graph.value_info if v.name.startswith(stored))
    entry = next(p for p in value.metadata_props if p.key == "qpasses.scale")
    entry.value = str(float(entry.value) * 1.001)
    assert problems(forged)


def test_a_divisor_at_another_scale_throughout_is_found(monkeypatch):
    def wider(function, x, target):
        found = words_of_results(function, x, target)
        return replace(found, scale=float(np.float32(2 * found.scale)))

    monkeypatch.setattr("qpasses.lowering.integerize_div.words_of_results", wider)
    result = made("a root")
    assert result.verdict == "ok"
    assert any("scale of its divisor" in each for each in problems(result.model))
