"""Products and differences of words: multipliers, evidence, and what the checker finds."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper

from opsets.errors import ModelError
from opsets.multipliers import ScaleError
from opsets.qpasses_v1 import OPS
from opsets.target import load_target
from opsets.word_products import EXACT, multiplier_bits, reach_of_product
from qpasses import export, quantize, verify
from qpasses.evidence.prove_words import product_bound
from qpasses.ir.record import Quantization
from qpasses.ir.runtime import OPSET
from qpasses.lowering.numbers.word_numbers import word_multiplier
from qpasses.place.words import Words
from tests.support.op_cases import CASES
from tests.support.small_models import model, numbers, session
from tests.support.thoroughness import thoroughly, together

WIDTH = 8
WEIGHTS = {"u": numbers(WIDTH, WIDTH) / 3, "v": numbers(WIDTH, WIDTH, seed=1) / 3}
OPERANDS = (
    """f = MatMul (x, u) [one] a = Add (x, f) h = MatMul (x, v) [other] b = Add (h, x) """
)
TURNED = "t = Transpose <perm = [0, 2, 1]> (b) "
BODIES = {
    "IntMul": "[it] y = Mul (a, b)",
    "IntSub": "[it] y = Sub (a, b)",
    "IntMatMul": f"{TURNED} [it] y = MatMul (a, t)",
}
WORDS = [[n for n, is_word in zip("aby", some, strict=True) if is_word]
         for some in product((False, True), repeat=3) if any(some)]  # fmt: skip


def feeds(count=4):
    return [{"x": numbers(2, 5, WIDTH, seed=seed)} for seed in range(count)]


def net(op):
    ends = f"(float[N, 5, {WIDTH}] x) => (float[A, B, C] y)"
    return model(f"g {ends} {{ {OPERANDS} {BODIES[op]} }}", opset=21, **WEIGHTS)


def store_as_words(monkeypatch, names):
    """Whatever the target: some take words that no user can ask for."""
    words = Words(wanted=frozenset(names))
    monkeypatch.setattr("qpasses.place.placement.near_words", lambda *_: words)


@pytest.fixture
def storing(monkeypatch):
    """Models whose tensors of these names are words, for every node that reads them."""

    def made(op, names, **options):
        if "b" in names:
            names = [*names, "t"]
        store_as_words(monkeypatch, names)
        return quantize(net(op), feeds(), residual_type="int16", **options)

    return made


def types_of(result):
    node = next(each for each in result.model.graph.node if each.name == "it")
    known = {t.name: numpy_helper.to_array(t) for t in result.model.graph.initializer}
    given_to = dict(zip(OPS[node.op_type].inputs, node.input, strict=True))
    return node, {n: known[given_to[f"{n}_zero"]].dtype.name for n in "aby"}


def evidence(result):
    return next(each for each in result.evidence if each.name == "it")


@pytest.mark.thinned
@pytest.mark.parametrize("names", WORDS, ids=str)
@pytest.mark.parametrize("op", BODIES)
def test_any_of_operands_and_result_may_be_words(op, names, storing):
    result = storing(op, names)
    node, types = types_of(result)
    assert node.op_type == op
    assert types == {n: "int16" if n in names else "uint8" for n in "aby"}
    proof = evidence(result)
    assert (proof.kind, proof.proved, proof.problem) == ("bounded", True, "")
    assert proof.body.startswith("onnxruntime") and proof.domain > 300
    assert result.verdict == verify(result.model, net(op), feeds()).verdict == "ok"


WAYS = [
    {"target": "exact"},
    {"target": "bm1684x"},
    {"bodies": "portable"},
    {"activation_type": "int8"},
    {"symmetric": True, "activation_type": "int8"},
    {"target": replace(load_target("exact"), name="up", rounding="half_up")},
    {"target": replace(load_target("exact"), name="away", rounding="half_away")},
]


@pytest.mark.thinned
@pytest.mark.parametrize("options", WAYS, ids=str)
@pytest.mark.parametrize("op", BODIES)
def test_every_way_to_quantize_takes_words(op, options, storing):
    result = storing(op, ["a", "b", "y"], **options)
    assert evidence(result).proved and evidence(result).kind == "bounded"
    assert result.verdict == verify(result.model, net(op), feeds()).verdict == "ok"


def test_a_target_whose_sums_leave_64_bits_says_so(storing):
    result = storing("IntMatMul", ["a", "b", "y"], target="ivit")
    (left,) = [e for e in result.report["summary"]["float_nodes"] if e["name"] == "it"]
    assert "leave 62 bits" in left["reason"] and "'ivit'" in left["reason"]


# Multipliers.


@thoroughly(100)
@given(reach=st.integers(1, 1 << 60), most=st.integers(16, 31))
def test_multipliers_are_as_wide_as_double_holds_their_products(reach, most):
    bits = multiplier_bits(reach, most)
    assert 16 <= bits <= most
    assert reach << bits <= EXACT or bits == 16
    assert bits == most or reach << (bits + 1) > EXACT


def test_two_words_leave_23_bits_for_the_multiplier():
    assert multiplier_bits(1 << 30, 31) == 23
    multiplier, shift = word_multiplier(Fraction(1, 3000), 1 << 30, load_target("exact"))
    assert multiplier.bit_length() == 23
    assert multiplier == round(Fraction(1 << shift, 3000))


def test_a_scale_beyond_narrow_multipliers_is_refused():
    with pytest.raises(ScaleError, match="beyond multipliers of 16 bits"):
        word_multiplier(Fraction(1 << 15), 1 << 50, load_target("onnx"))
    assert word_multiplier(Fraction(1 << 23), 1 << 20, load_target("onnx")) == (1 << 23, 1)


@thoroughly(100)
@given(data=st.data(), op=st.sampled_from(["IntMul", "IntMatMul"]))
def test_the_bound_of_a_product_holds_on_any_codes(data, op):
    case = data.draw(CASES[op])
    known = dict(zip(OPS[op].inputs, case.inputs, strict=True))
    if np.int16 not in [value.dtype for value in known.values()]:
        return
    rng = data.draw(st.integers(0, 999).map(np.random.default_rng))
    m, shift = (int(np.reshape(known[name], ())) for name in ("multiplier", "shift"))
    ratio = Fraction(m, 1 << shift) * Fraction(int(rng.integers(990, 1010)), 1000)
    ratio = ratio or Fraction(1, 1 << 40)
    rounding, inner = case.attributes["rounding"], case.attributes.get("inner", 1)
    if reach_of_product(known, inner) << max(31 - shift, 0) >= 1 << 31:  # or it may wrap
        rounding = case.attributes["rounding"] = "half_up"
    found = OPS[op].reference(*case.inputs, **case.attributes)
    levels = [known[n].astype(object) - int(known[f"{n}_zero"]) for n in "ab"]
    acc = levels[0] * levels[1] if op == "IntMul" else levels[0] @ levels[1]
    bound = Fraction(product_bound(known, ratio, inner, rounding)) * (1 + Fraction(1, 1 << 40))
    zero, low, high = (int(known[n]) for n in ("y_zero", "y_min", "y_max"))
    for sum_of, code in zip(np.ravel(acc)[:50], np.ravel(found)[:50], strict=True):
        real = min(max(sum_of * ratio + zero, low), high)
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
    ("op", "old", "new"),
    [
        *product(BODIES, ["Round"], ["Floor", "Ceil"]),
        *product(BODIES, ["Clip"], ["Max", "Min"]),
        ("IntMatMul", "Max", "Min"),
        ("IntSub", "Neg", "Abs"),
        *product(["IntMul", "IntMatMul"], ["Sub"], ["Add"]),
    ],
)
def test_a_body_that_computes_something_else_is_not_proved(op, old, new, storing, monkeypatch):
    used = evidence(storing(op, ["b", "y"])).body
    declared = OPS[op]
    bodies = [
        broken(declared, each, old, new) if each.overload == used else each
        for each in declared.bodies
    ]
    monkeypatch.setitem(OPS, op, replace(declared, bodies=bodies))
    assert evidence(storing(op, ["b", "y"])).body != used


# The checker.


def changed(result, formal, value):
    made = onnx.ModelProto()
    made.CopyFrom(result.model)
    node = next(each for each in made.graph.node if each.name == "it")
    place = list(OPS[node.op_type].inputs).index(formal)
    old = next(t for t in made.graph.initializer if t.name == node.input[place])
    before = numpy_helper.to_array(old)
    after = np.asarray(value(before), before.dtype).reshape(before.shape)
    made.graph.initializer.append(numpy_helper.from_array(after, f"new_{formal}"))
    node.input[place] = f"new_{formal}"
    return made


FORGED = [
    *product(("IntMul", "IntMatMul"), ("multiplier", "shift"), (1, -1)),
    *product(("IntSub",), ("a_multiplier", "b_multiplier", "shift"), (1, -1)),
    *((*each, 1) for each in together(BODIES, ("a_zero", "b_zero", "y_zero", "y_min"))),
    *product(BODIES, ("y_max",), (-1,)),
]


@pytest.mark.thinned
@pytest.mark.parametrize(("op", "formal", "step"), FORGED)
def test_a_number_that_was_changed_is_found(op, formal, step, storing):
    result = storing(op, ["a", "b", "y"])
    forged = changed(result, formal, lambda number: number + step)
    found = verify(forged, net(op)).report["summary"]["problems"]
    assert any("it" in each for each in found)


@pytest.mark.thinned
@pytest.mark.parametrize("places", [-7, -1, 1, 2])
@pytest.mark.parametrize("op", ["IntMul", "IntMatMul"])
def test_a_multiplier_of_another_width_is_found(op, places, storing):
    result = storing(op, ["a", "b", "y"])
    forged = changed(result, "multiplier", lambda m: np.rint(m * 2.0**places))
    forged = changed(replace(result, model=forged), "shift", lambda shift: shift + places)
    assert verify(forged, net(op)).report["summary"]["problems"]


@pytest.mark.parametrize("op", BODIES)
def test_a_scale_of_the_record_that_was_changed_is_found(op, storing):
    result = storing(op, ["a", "b", "y"])
    forged = onnx.ModelProto()
    forged.CopyFrom(result.model)
    value = next(v for v in forged.graph.value_info if v.name.startswith("a_quantized"))
    entry = next(p for p in value.metadata_props if p.key == "qpasses.scale")
    entry.value = str(float(entry.value) * 1.001)
    assert verify(forged, net(op)).report["summary"]["problems"]


CONSTANTS = {
    "IntMul": ("[it] y = Mul (a, k)", (5, WIDTH)),
    "IntSub": ("[it] y = Sub (k, a)", (5, WIDTH)),
    "IntMatMul": ("[it] y = MatMul (a, k)", (2, WIDTH, 3)),
}


def stored_as_words(_tensor, values, *_others):
    parameters = Quantization(float(np.float32(np.abs(values).max() / 32767)), 0, "int16")
    return parameters, parameters.store_all(values)


@pytest.mark.parametrize("op", CONSTANTS)
def test_a_constant_operand_of_words_is_recomputed(op, monkeypatch):
    body, shape = CONSTANTS[op]
    text = f"f = MatMul (x, u) [one] a = Add (x, f) {body}"
    ends = f"(float[2, 5, {WIDTH}] x) => (float[A, B, C] y)"
    constants = {"u": WEIGHTS["u"], "k": numbers(*shape, seed=4)}
    made = model(f"g {ends} {{ {text} }}", opset=21, **constants)
    store_as_words(monkeypatch, ["a"])
    monkeypatch.setattr("qpasses.place.placement._operand", stored_as_words)
    result = quantize(made, feeds(), residual_type="int16")
    assert evidence(result).op == op and evidence(result).proved
    assert result.verdict == verify(result.model, made, feeds()).verdict == "ok"
    place = next(n for n in result.model.graph.node if n.name == "it").input
    known = {t.name: numpy_helper.to_array(t) for t in result.model.graph.initializer}
    formal = next(f for f, n in zip(OPS[op].inputs, place, strict=True)
                  if n in known and known[n].ndim > 1)  # fmt: skip
    forged = changed(result, formal, lambda stored: stored + (np.arange(stored.size) == 3)
                     .reshape(stored.shape))  # fmt: skip
    assert verify(forged, made).report["summary"]["problems"]


FORMALS = [f"{n}_{part}" for n in "aby" for part in ("multiplier", "shift")]


@pytest.mark.thinned
@pytest.mark.parametrize("formal", FORMALS)
def test_a_difference_whose_operands_are_rounded_is_recomputed_too(formal, storing):
    result = storing("IntSub", ["a", "y"], target="ivit")
    node, _ = types_of(result)
    assert node.op_type == "IntRescaledSub" and evidence(result).proved
    assert evidence(result).kind == "bounded"
    assert verify(result.model, net("IntSub"), feeds()).verdict == result.verdict
    forged = changed(result, formal, lambda number: number + 1)
    assert verify(forged, net("IntSub")).report["summary"]["problems"]


@pytest.mark.parametrize("op", BODIES)
def test_a_model_of_standard_ops_gives_the_same_integers(op, storing):
    ours = storing(op, ["a", "b", "y"])
    theirs = storing(op, ["a", "b", "y"], emit="standard")
    for feed in feeds(2):
        found, expected = (session(each.model).run(None, feed)[0] for each in (theirs, ours))
        np.testing.assert_array_equal(found, expected)


def test_products_of_16_bit_matrices_are_refused_as_tosa_by_name(storing):
    result = storing("IntMatMul", ["a", "b", "y"], integer_io=True)
    with pytest.raises(ModelError, match=r"'it'.*16-bit integers"):
        export(result.model, input_shape={"x_quantized": [2, 5, WIDTH]})


def test_ends_of_codes_that_change_places_are_found(storing):
    """Between which no code can be drawn to prove a sum."""
    result = quantize(net("IntSub"), feeds(), tensor_types=[".*=int16"])
    made = onnx.ModelProto.FromString(result.model.SerializeToString())
    for tensor in made.graph.initializer:
        if tensor.name == "int16_32767":
            tensor.CopyFrom(numpy_helper.from_array(np.array(-32768, np.int16), tensor.name))
        elif tensor.name == "int16_minus_32768":
            tensor.CopyFrom(numpy_helper.from_array(np.array(0, np.int16), tensor.name))
    assert verify(made, net("IntSub"), feeds()).verdict == "failed"
