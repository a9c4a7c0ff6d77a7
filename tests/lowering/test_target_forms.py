"""Sums and slopes of targets with forms of their own: made, proved, verified, told apart."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from onnx import ModelProto, numpy_helper

from opsets.errors import ModelError, UsageError
from opsets.forms import ADD_FORMS, LEFT_SHIFTS, SLOPE_FORMS, sloped
from opsets.multipliers import ScaleError
from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from opsets.realised import node_pair, slopes_are_coded
from opsets.rounding import NODE_ROUNDINGS, ROUNDING_RULES, requantize
from opsets.target import load_target
from qpasses import quantize, verify
from qpasses.evidence.prove_pairs import all_pairs, kernel_differences
from qpasses.ir.record import Quantization
from qpasses.load.integer_model import read_integer_model
from qpasses.lowering.numbers.coded_slope_numbers import coded_slopes, stored_slopes
from qpasses.lowering.numbers.rescaled_numbers import rescaled_numbers
from tests.support.fault_finding import Floats, one_off
from tests.support.small_models import model, numbers
from tests.support.thoroughness import thoroughly

EXACT = load_target("exact")
EIGHT_BITS = {"elementwise": "get_scale_and_shift", "elementwise_bits": 7}
TARGETS = {
    "tflite": replace(EXACT, add="shift_20", slopes="quantized", rounding="half_up"),
    "tpu-mlir": replace(
        EXACT,
        add="operands_rounded",
        slopes="common_shift",
        rounding="half_up",
        **EIGHT_BITS,
    ),
    "i-vit": replace(EXACT, add="operands_rounded", elementwise="dyadic", elementwise_bits=31),
    "tosa": replace(EXACT, elementwise="tosa", elementwise_bits=31, rounding="half_up"),
}
TARGETS = {name: replace(target, name=f"like-{name}") for name, target in TARGETS.items()}
OPTIONS = {
    "uint8": {},
    "int8": {"activation_type": "int8", "symmetric": True},
    "few codes": {"activation_bits": 5, "narrow_range": True},
    "multiplier": {"activation_form": "multiplier"},
    "shared": {"share_tables": 1.0},
    "functions": {"table_ranges": "function"},
    "spread": {"alignment": "tpu-mlir", "symmetric": True},
}
SUMS = "a = Conv (i, w) b = Conv (i, v) s = Add (a, b) r = Relu (s) o = Sub (r, a)"
SLOPED = (
    "a = Conv (i, w) b = LeakyRelu <alpha = {alpha}> (a) c = Conv (b, v) "
    "d = PRelu (c, s) e = Conv (d, w) f = PRelu (e, t) o = Conv (f, v)"
)
BODIES = {
    "sums": SUMS,
    "rising": SLOPED.format(alpha=0.3),
    "falling": SLOPED.format(alpha=-0.7),
}


def net(body):
    text = f"g (float[N, 4, 3, 2] i) => (float[N, 4, 3, 2] o) {{ {BODIES[body]} }}"
    values = {"w": numbers(4, 4, 1, 1), "v": numbers(4, 4, 1, 1, seed=3)}
    if body != "sums":
        values |= {"s": numbers(4, 1, 1), "t": numbers(4, 3, 2, seed=5)}
    return model(text, opset=18, **values)


def samples():
    return [{"i": numbers(2, 4, 3, 2, seed=seed)} for seed in range(3)]


@cache
def made(body, target, options="uint8"):
    """Quantized once for all tests: none changes what it is given."""
    rules = TARGETS[target]
    bodies = "onnxruntime" if rules.fast_kernels else "portable"
    return quantize(net(body), samples(), target=rules, bodies=bodies, **OPTIONS[options])


def ops(result):
    return [node.op_type for node in result.model.graph.node if node.domain == DOMAIN]


MADE = [
    *(("sums", name) for name in ("uint8", "int8", "few codes")),
    *(("falling", name) for name in OPTIONS),
]


@pytest.mark.thinned
@pytest.mark.parametrize(("body", "options"), MADE)
@pytest.mark.parametrize("target", TARGETS)
def test_a_target_with_forms_of_its_own_makes_proved_graphs(body, target, options):
    result = made(body, target, options)
    assert result.verdict == "ok"
    assert result.report["summary"]["float_nodes"] == []
    assert all(each.mismatches == 0 for each in result.evidence)
    assert verify(result.model, net(body), samples()).verdict == "ok"


FORMS = {
    "tflite": ["IntRescaledAdd", "IntRescaledSub"],
    "tpu-mlir": ["IntRescaledAdd", "IntRescaledSub"],
    "i-vit": ["IntRescaledAdd", "IntRescaledSub"],
    "tosa": ["IntAdd", "IntSub"],
}


@pytest.mark.parametrize("target", FORMS)
def test_the_form_of_a_target_decides_the_op_of_sums(target):
    assert ops(made("sums", target))[2:] == FORMS[target]


@pytest.mark.parametrize("target", ["tflite", "tpu-mlir"])
def test_slopes_in_a_form_of_their_own_need_no_option(target):
    assert ops(made("rising", target))[1::2] == ["IntCodedPRelu"] * 3


def test_slopes_in_the_usual_form_are_tables_but_for_the_option():
    assert ops(made("rising", "tosa"))[1::2] == ["Lut", "LutPerChannel", "IntCodedPRelu"]
    asked = made("rising", "tosa", "multiplier")
    assert ops(asked)[1::2] == ["IntCodedPRelu"] * 3


@pytest.mark.thinned
@pytest.mark.parametrize("options", ["uint8", "shared", "functions"])
@pytest.mark.parametrize("body", ["rising", "falling"])
def test_a_common_shift_ties_input_and_output(body, options):
    read = read_integer_model(made(body, "tpu-mlir", options).model, "made")
    nodes = [node for node in read.graph.nodes if node.op == "IntCodedPRelu"]
    assert len(nodes) == 3
    for node in nodes:
        x, y = (read.record.tensors[t.name] for t in (node.inputs[0], node.outputs[0]))
        assert x == y


def test_a_slope_that_the_target_cannot_express_is_a_table_or_stays_float():
    body = "a = Conv (i, w) b = PRelu (a, s) o = Conv (b, w)"
    text = f"g (float[N, 4, 3, 2] i) => (float[N, 4, 3, 2] o) {{ {body} }}"
    for slopes, found in ((numbers(4, 1, 1), "LutPerChannel"), (numbers(4, 3, 2), None)):
        slopes.reshape(-1)[0] = 500
        each = model(text, opset=18, w=numbers(4, 4, 1, 1), s=slopes)
        result = quantize(each, samples(), target=TARGETS["tpu-mlir"], bodies="portable")
        assert ([found] if found else []) == ops(result)[1:-1]
        left = result.report["summary"]["float_nodes"]
        assert bool(left) == (found is None)
        assert not left or "no 8-bit code holds the slope 500" in str(left)


WITHOUT_SUMS_OF_PRODUCTS = (
    "a = LeakyRelu <alpha = 0.1> (i) b = PRelu (j, s) m = MaxPool <kernel_shape = [1, 1]> (b) "
    "c = Add (a, m) d = LeakyRelu <alpha = -0.4> (c) o = Sub (d, a)"
)
STEPS = {
    "tflite_double": {"add": "shift_20", "slopes": "quantized"},
    "ruy": {"add": "shift_20", "slopes": "quantized"},
    "half_to_even_in_double": {"add": "operands_rounded", "slopes": "quantized"},
}


@pytest.mark.parametrize("rounding", STEPS)
def test_sums_and_slopes_round_as_the_target_does(rounding):
    ends = "(float[N, 4, 6, 5] i, float[N, 4, 6, 5] j) => (float[N, 4, 6, 5] o)"
    text = f"g {ends} {{ {WITHOUT_SUMS_OF_PRODUCTS} }}"
    original = model(text, opset=18, s=numbers(4, 1, 1))
    feeds = [{"i": numbers(2, 4, 6, 5), "j": 3 * numbers(2, 4, 6, 5, seed=1)}]
    rules = {**STEPS[rounding], "rounding": rounding}
    target = replace(TARGETS["i-vit"], name="mine", **rules)
    result = quantize(original, feeds, target=target, bodies="portable")
    assert [op for op in ops(result) if op != "IntCodedPRelu"] == FORMS["i-vit"]
    assert len(ops(result)) == 5 and result.verdict == "ok"
    assert verify(result.model, original, feeds).verdict == "ok"


# Numbers


scale = st.floats(1e-3, 10.0).map(lambda value: float(np.float32(value)))
zero = st.integers(-128, 127)
stored = st.builds(Quantization, scale, zero, st.just("int8"))


@thoroughly(60)
@given(a=stored, b=stored, y=stored, name=st.sampled_from(["tflite", "tpu-mlir", "i-vit"]))
def test_a_sum_with_the_numbers_of_its_node_is_the_form_on_all_pairs(a, b, y, name):
    target, form = TARGETS[name], ADD_FORMS[TARGETS[name].add]
    try:
        found = rescaled_numbers(a, b, y, target)
    except ScaleError:
        return
    pairs = form.numbers(a.scale, b.scale, y.scale, target)
    column, row = all_pairs("int8")
    ends = [y.zero, *(np.array(end, np.int8) for end in y.limits)]
    inputs = [column, a.zero, row, b.zero, *found.values(), *ends]
    for op, sign in (("IntRescaledAdd", 1), ("IntRescaledSub", -1)):
        ours = OPS[op].reference(*inputs, rounding=target.rounding)
        operands = column.astype(int) - a.zero_point, row.astype(int) - b.zero_point
        levels = form.levels(*operands, pairs, target.rounding, sign)
        np.testing.assert_array_equal(ours, np.clip(levels + y.zero_point, *y.limits))


@pytest.mark.parametrize("op", ["IntRescaledAdd", "IntRescaledSub"])
@pytest.mark.parametrize("rounding", NODE_ROUNDINGS)
@pytest.mark.parametrize("form", LEFT_SHIFTS)
def test_bodies_of_sums_equal_the_meaning_on_all_pairs(form, rounding, op):
    target = replace(EXACT, add=form, rounding=rounding)
    a, b, y = (Quantization(s, z, "uint8") for s, z in ((0.25, 128), (0.125, 3), (0.5, 5)))
    column, row = all_pairs("uint8")
    ends = [y.zero, *(np.array(end, np.uint8) for end in y.limits)]
    numbers_of = rescaled_numbers(a, b, y, target).values()
    inputs = [column, a.zero, row, b.zero, *numbers_of, *ends]
    given_of = dict(zip(OPS[op].inputs, inputs, strict=True))
    body = OPS[op].body("portable", given_of, {"rounding": rounding})
    assert kernel_differences(given_of, body.overload, rounding, op) == 0


def test_products_in_double_are_exact_without_a_left_shift_only():
    a = Quantization(0.25, 0, "int8")
    target = replace(EXACT, rounding="half_to_even_in_double", add="operands_rounded")
    assert rescaled_numbers(a, a, a, target)["left_shift"] == 0
    with pytest.raises(UsageError, match="no body adds in the form shift_20"):
        rescaled_numbers(a, a, a, replace(target, add="shift_20"))
    with pytest.raises(UsageError, match=r"no body adds .* rounding as down"):
        rescaled_numbers(a, a, a, replace(target, rounding="down"))


def test_a_left_shift_that_wraps_is_refused():
    tflite = load_target("tflite")
    large, small = Quantization(1000.0, 0, "int8"), Quantization(1e-6, 0, "int8")
    with pytest.raises(ScaleError, match="to the left by 11 places, beyond 32 bits"):
        rescaled_numbers(large, large, small, tflite)
    with pytest.raises(ScaleError, match="beyond 32 bits"):
        coded_slopes(large, small, np.float32([1, -2]), False, tflite)


@thoroughly(60)
@given(
    x=stored,
    y=stored,
    seed=st.integers(0, 999),
    form=st.sampled_from(list(SLOPE_FORMS)),
    rounding=st.sampled_from(["half_up", "half_to_even", "tflite_double"]),
)
def test_slopes_with_the_numbers_of_their_node_are_the_form_on_all_codes(
    x, y, seed, form, rounding
):
    if form == "common_shift":  # its multiplier is 1: the form's own left shift would wrap
        y, rounding = x, "half_up"
    target = replace(TARGETS["tosa"], slopes=form, rounding=rounding)
    slopes = np.float32(np.random.default_rng(seed).uniform(-2, 2, 5))
    try:
        found = coded_slopes(x, y, slopes, False, target)
    except ScaleError:
        return
    real = (slopes.tolist(), 1.0)
    if form == "quantized":
        codes, slope_scale = stored_slopes(slopes)
        real = codes.tolist(), slope_scale
        assert np.abs(codes * slope_scale - slopes).max() <= 0.501 * slope_scale
    theirs = SLOPE_FORMS[form].numbers("PRelu", x.scale, y.scale, *real, target)
    codes = np.arange(-128, 128, dtype=np.int8)[:, None]
    inputs = [np.tile(codes, 5), x.zero, *found.values(), y.zero]
    inputs += [np.array(end, np.int8) for end in y.limits]
    ours = OPS["IntCodedPRelu"].reference(*inputs, rounding=rounding)
    levels = sloped(np.tile(codes.astype(int) - x.zero_point, 5), theirs, rounding)
    np.testing.assert_array_equal(ours, np.clip(levels + y.zero_point, *y.limits))


@thoroughly(200)
@given(
    multiplier=st.integers(-(1 << 31), 1 << 31),
    shift=st.integers(-32, 62),
    rounding=st.sampled_from([*NODE_ROUNDINGS, "half_to_even_in_double"]),
)
@example(1 << 31, 40, "half_up")
def test_the_pair_of_a_node_gives_the_same_levels(multiplier, shift, rounding):
    try:
        found = node_pair((multiplier, shift), rounding)
    except ScaleError:
        return
    in_steps = ROUNDING_RULES[rounding].int32
    assert -(1 << 31) < found[0] < 1 << 31 and (not in_steps) <= found[1] <= 61 + in_steps
    values = np.array([-510, -255, -3, -1, 0, 1, 2, 128, 255])
    if in_steps and shift < 31 - 21:
        return  # the left shift could wrap
    before, behind = (
        requantize(values, abs(pair[0]), pair[1], rounding)
        for pair in ((multiplier, shift), found)
    )
    np.testing.assert_array_equal(before, behind)
    assert found[0] * multiplier >= 0


# Faults


@pytest.mark.thinned
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("body", "options"), [("sums", "uint8"), ("falling", "multiplier")])
def test_no_number_of_a_node_may_change(body, target, options):
    result = made(body, target, options)
    names = [
        name
        for node in result.model.graph.node
        if node.op_type.startswith(("IntRescaled", "IntCoded", "IntAdd", "IntSub"))
        for name in node.input
    ]
    floats = Floats.of(result.model, net(body), samples()[0])
    assert floats.check(result.model).differences == []
    for tensor in result.model.graph.initializer:
        if tensor.name in names and "." in tensor.name:
            assert floats.differences(one_off(result.model, tensor.name)), tensor.name


def copied(integer):
    changed = ModelProto()
    changed.CopyFrom(integer)
    return changed


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("sums", ["a_multiplier", "y_multiplier"]),
        ("falling", ["slope_codes", "slope_multiplier"]),
    ],
)
def test_numbers_beyond_64_bits_are_refused(body, names):
    changed = copied(made(body, "tflite").model)
    for tensor in changed.graph.initializer:
        formal = tensor.name.rpartition(".")[2]
        if formal in names or formal in ("a_shift", "slope_shift"):
            value = 1 if formal in ("a_shift", "slope_shift") else (1 << 31) - 1
            wrong = np.full_like(numpy_helper.to_array(tensor), value)
            tensor.CopyFrom(numpy_helper.from_array(wrong, tensor.name))
    with pytest.raises(ModelError):
        verify(changed, net(body), samples())


def test_usual_targets_have_no_coded_slopes():
    assert [slopes_are_coded(load_target(name)) for name in ("onnx", "exact")] == [False] * 2
    assert all(map(slopes_are_coded, TARGETS.values()))
