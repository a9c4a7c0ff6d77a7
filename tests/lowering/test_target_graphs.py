"""Graphs for the shipped targets, against a plain simulation that is written from formulas."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

import qpasses
from calibration import Session
from opsets.errors import UsageError
from opsets.multipliers import MULTIPLIERS, ScaleError
from opsets.portable import portable_overload
from opsets.qpasses_v1 import OPS
from opsets.realised import node_multiplier, node_rounding
from opsets.rounding import NODE_ROUNDINGS, node_shifts, requantize, wraps
from opsets.target import Target, target_names
from qpasses.checking.meaning import DifferenceError
from qpasses.checking.rules.check_multipliers import check_computes, expected_pair
from qpasses.evidence.thresholds import Interval, levels, meaning_thresholds
from qpasses.ir.metadata import read_record
from qpasses.ir.runtime import run_op
from qpasses.ir.settings import Settings
from qpasses.lowering.numbers.multiplier_search import unlike_target
from tests.support.fault_finding import Floats, one_off
from tests.support.plain_targets import plain
from tests.support.small_models import model, numbers, pictures
from tests.support.thoroughness import slow

NET = """
net (float[N, 1, 8, 8] x) => (float[N, 4, 4, 4] p, float[N, 4, 2, 2] d, float[N, 4, 2, 2] h,
                              float[N, 4, 2, 2] m, float[N, 3] y) {
    a = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
    r = Relu (a)
    p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)
    c = Conv (p, w2)
    d = Clip (c, zero, end)
    e = Conv (p, w3)
    h = Mul (d, e)
    m = MatMul (h, e)
    f = Flatten (m)
    y = Gemm (f, w4, b4)
}"""
"""Products, sums of products and clamps: nothing that only one target has a form for."""

WEIGHTS = {
    "w1": numbers(4, 1, 3, 3),
    "b1": numbers(4),
    "w2": numbers(4, 4, 3, 3),
    "w3": numbers(4, 4, 3, 3, seed=1),
    "zero": np.float32(0),
    "end": np.float32(25),
    "w4": numbers(16, 3),
    "b4": numbers(3) * 100,
}

every_target = pytest.mark.parametrize("name", [*target_names(), "ruy"])


def net():
    return model(NET, **WEIGHTS)


@cache
def quantized(name, **options):
    return qpasses.quantize(net(), pictures(12), target=plain(name), **options)


# The simulation: Python's integers and fractions, nothing of the toolkit


def half_away(value):
    return math.floor(abs(value) + Fraction(1, 2)) * (-1 if value < 0 else 1)


def half_up(value):
    return math.floor(value + Fraction(1, 2))


@cache
def frexp_multiplier(scale, renormalized=True):
    fraction, exponent = math.frexp(scale)
    multiplier = half_up(Fraction(fraction) * 2**31)
    if multiplier == 2**31 and renormalized:
        return 2**30, 30 - exponent
    return multiplier, 31 - exponent


@cache
def tpu_mlir_multiplier(scale, limit):
    """The first n from -32 to 30 of the least error, with a multiplier below the limit."""
    real, best, least = Fraction(float(np.float32(scale))), None, None
    for n in range(-32, 31):
        m = half_up(real * Fraction(2) ** n)
        error = abs(m / Fraction(2) ** n - real)
        if m < limit and (least is None or error < least):
            best, least = (m, n), error
    return best


def doubling_high(a, b):
    return (a * b + 2**30) >> 31


def tflite_double(acc, multiplier, shift):
    high = doubling_high(acc << max(31 - shift, 0), multiplier)
    return half_away(Fraction(high, 2 ** max(shift - 31, 0)))


def ruy(acc, multiplier, shift):
    high = doubling_high(acc << max(31 - shift, 0), multiplier)
    return half_up(Fraction(high, 2 ** max(shift - 31, 0)))


def single(acc, multiplier, shift):
    return half_up(acc * multiplier / Fraction(2) ** shift)


def in_double(acc, multiplier, shift):
    return round(float(acc) * float(multiplier) / 2.0**shift)


def scale_of(name, op, a, b, y):
    """The scale as the system computes it."""
    a, b, y = map(np.float32, (a, b, y))
    in_double = float(a) * float(b) / float(y)
    if name == "litert":
        if op == "Mul":
            return float(a * b / y)
        return float(a * b) / float(y) if op == "MatMul" else in_double
    if name.startswith("tfl") or name == "ruy":
        return float(a * b) / float(y) if op in ("Gemm", "MatMul") else in_double
    return float(a * b) / float(y) if name == "ivit" else in_double


def requantized(name, op, acc, scale):
    if name == "bm1684x":
        pair = tpu_mlir_multiplier(scale, 127 if op == "Mul" else 2**31 - 1)
        return single(acc, *pair)
    if name == "ivit":
        return in_double(acc, *frexp_multiplier(scale, renormalized=False))
    if name == "litert" and op == "Gemm":
        return half_away(Fraction(float(acc) * scale))
    rule = {"tflm": tflite_double, "litert": tflite_double, "ruy": ruy}
    return rule.get(name, single)(acc, *frexp_multiplier(scale))


class Simulation:
    """Stored integers of ``NET``, from the ranges that were found and the float weights."""

    def __init__(self, name, ranges):
        self.name, self.rules = name, plain(name)
        self.ranges = ranges

    def stored_as(self, tensor):
        low, high = self.ranges[tensor]
        low, high = min(low, 0.0), max(high, 0.0)
        unsigned = self.rules.non_negative == "unsigned" and low == 0
        if self.rules.activations == "symmetric" and not unsigned:
            return np.float32(max(-low, high) / 127), 128
        scale = np.float32((high - low) / 255)
        return scale, min(max(round(Fraction(-low) / Fraction(float(scale))), 0), 255)

    def levels(self, stored, tensor):
        return stored.astype(np.int64) - self.stored_as(tensor)[1]

    def weights(self, values, axis, granularity):
        rows = np.moveaxis(np.abs(values), axis, 0).reshape(values.shape[axis], -1)
        largest = rows.max(axis=1)
        if granularity == "per_tensor":
            largest = np.full_like(largest, largest.max())
        scale = np.float32(largest.astype(np.float64) / 127)
        column = [-1 if k == axis else 1 for k in range(values.ndim)]
        return np.rint(values / scale.astype(np.float64).reshape(column)).astype(int), scale

    def store(self, op, acc, scales, x, y, clip=(-math.inf, math.inf)):
        """``acc`` [N, C, ...]; one scale for each C, or the same for all of them."""
        y_scale, zero = self.stored_as(y)
        ends = [zero + end / float(y_scale) for end in clip]
        low, high = max(0, round(max(ends[0], 0))), min(255, round(min(ends[1], 255)))
        found = np.empty(acc.shape, np.uint8)
        for place in np.ndindex(acc.shape):
            w_scale = scales[place[1] % len(scales)]
            scale = scale_of(self.name, op, self.stored_as(x)[0], w_scale, y_scale)
            level = requantized(self.name, op, int(acc[place]), scale) + zero
            found[place] = min(max(level, low), high)
        return found

    def conv(self, stored, x, y, w, b=None, pad=0, **clip):
        codes, scales = self.weights(WEIGHTS[w], 0, self.rules.conv_weights)
        around = [(0, 0), (0, 0), (pad, pad), (pad, pad)]
        levels = np.pad(self.levels(stored, x), around)
        rows, columns = (size - 2 for size in levels.shape[2:])
        acc = np.zeros((len(stored), len(codes), rows, columns), np.int64)
        for i in range(rows):
            for j in range(columns):
                window = levels[:, None, :, i : i + 3, j : j + 3]
                acc[:, :, i, j] = (window * codes).sum(axis=(2, 3, 4))
        if b is not None:
            acc += self.bias(b, x, scales)[:, None, None]
        return self.store("Conv", acc, scales, x, y, **clip)

    def bias(self, b, x, scales):
        steps = np.float64(self.stored_as(x)[0]) * scales.astype(np.float64)
        return np.rint(WEIGHTS[b] / steps).astype(np.int64)

    def run(self, stored):
        inf = math.inf
        r = self.conv(stored, "x", "p", "w1", "b1", pad=1, clip=(0, inf))
        p = r.reshape(len(r), 4, 4, 2, 4, 2).max(axis=(3, 5))
        d = self.conv(p, "p", "d", "w2", clip=(0, 25))
        e = self.conv(p, "p", "e", "w3")
        of_e = [self.stored_as("e")[0]]
        product = self.levels(d, "d") * self.levels(e, "e")
        h = self.store("Mul", product, of_e, "d", "h")
        sums = self.levels(h, "h") @ self.levels(e, "e")
        m = self.store("MatMul", sums, of_e, "h", "m")
        codes, scales = self.weights(WEIGHTS["w4"], 1, self.rules.matmul_weights)
        sums = self.levels(m, "m").reshape(len(m), -1) @ codes + self.bias("b4", "m", scales)
        return [p, d, h, m, self.store("Gemm", sums, scales, "m", "y")]


hardware = pytest.mark.parametrize(
    "name", ["tflm", "litert", "ruy", "tflite-single", "tosa", "bm1684x", "ivit"]
)


@pytest.mark.thinned
@hardware
def test_stored_integers_are_those_of_the_formulas(name):
    result = quantized(name, integer_io=True)
    assert result.verdict == "ok"
    tensors = result.report["calibration"]["tensors"]
    simulation = Simulation(name, {each["name"]: each["range"] for each in tensors})
    stored = np.random.default_rng(0).integers(0, 256, (16, 1, 8, 8)).astype(np.uint8)
    found = Session(result.model).run(None, {"x_quantized": stored})
    for ours, theirs in zip(found, simulation.run(stored), strict=True):
        assert len(np.unique(theirs)) > 10
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.thinned
@every_target
def test_every_node_is_proved_and_verified(name):
    result = quantized(name)
    assert result.verdict == "ok"
    assert all(each.proved for each in result.evidence)
    assert all(e.body.startswith("onnxruntime") for e in result.evidence if e.channels)
    assert qpasses.verify(result.model, net(), pictures(3)).verdict == "ok"


@pytest.mark.thinned
@hardware
@pytest.mark.parametrize("kind", ["multiplier", "shift", "bias_int32", "weight_int8"])
def test_a_constant_that_is_one_off_is_found(name, kind):
    good = quantized(name).model
    names = [each.name for each in good.graph.initializer if each.name.endswith(kind)]
    assert names
    floats = Floats.of(good, net(), {"x": pictures(1)})
    assert floats.check(good).differences == []
    for wrong in names:
        assert floats.differences(one_off(good, wrong)), wrong


# What settings start from, and what a target cannot be asked for


def test_settings_start_from_the_target():
    symmetric, usual = (Settings(plain(name), bodies="portable") for name in ("ivit", "tosa"))
    assert (symmetric.symmetric, usual.symmetric) == (True, False)
    assert (symmetric.activation_form, usual.activation_form) == ("multiplier", "table")
    tflite = Settings(plain("tflite"), bodies="portable")
    assert tflite.per_channel and tflite.has_channels("Conv")
    assert not tflite.has_channels("Gemm") and not tflite.has_channels("MatMul")


@pytest.mark.parametrize(
    ("rules", "options"),
    [
        ({"activations": "symmetric"}, {"symmetric": False}),
        (
            {"conv_weights": "per_tensor", "matmul_weights": "per_tensor"},
            {"per_channel": True},
        ),
        ({"tables": False}, {"activation_form": "table"}),
    ],
)
def test_an_option_that_contradicts_the_target_is_an_error_that_names_both(rules, options):
    target = replace(plain("tosa"), name="narrow", **rules)
    ((option, value),) = options.items()
    assert getattr(Settings(target, bodies="portable"), option) != value
    with pytest.raises(UsageError, match=f"{option}.*{value!r}.*'narrow'"):
        Settings(target, bodies="portable", **options)


@pytest.mark.parametrize("options", [{"symmetric": True}, {"per_channel": False}])
def test_what_every_target_can_do_may_be_asked_of_each(options):
    for name in target_names():
        assert Settings(plain(name), **options).as_json().items() >= options.items()


def test_unsigned_tensors_use_all_codes_beside_symmetric_ones():
    symmetric = quantized("bm1684x", integer_io=True).report["calibration"]["tensors"]
    assert {each["name"]: each["range"] for each in symmetric}["d"][0] == 0.0
    record, _ = read_record(quantized("bm1684x").model)
    zeros = {name: stored.zero_point for name, stored in record.tensors.items()}
    assert (zeros["x_quantized"], zeros["d_quantized"], zeros["e_quantized"]) == (128, 0, 128)


def test_a_method_sees_unsigned_tensors_as_they_are_stored():
    result = quantized("bm1684x", calibration_method="percentile", percentile=90)
    ranges = {each["name"]: each["range"] for each in result.report["calibration"]["tensors"]}
    assert ranges["d"][0] == 0.0 and ranges["e"][0] == -ranges["e"][1]


def test_sums_beyond_the_accumulator_of_a_target_stay_float():
    narrow = replace(plain("tosa"), name="narrow", accumulator_bits=18)
    result = qpasses.quantize(net(), pictures(12), target=narrow)
    left = {each["name"]: each["reason"] for each in result.report["summary"]["float_nodes"]}
    assert any("could overflow its int18 accumulator" in reason for reason in left.values())
    assert qpasses.verify(result.model, net(), pictures(3)).verdict == "incomplete"


@hardware
def test_a_scale_that_no_accumulator_notices_is_a_multiplier_of_zero(name):
    target = plain(name)
    for exponent in (33, 60, 100, 300):
        pair = node_multiplier(2.0**-exponent, target)
        assert expected_pair(Fraction(1, 1 << exponent), target, False) == pair
        ends = requantize([-(2**31), 2**31 - 1], *pair, node_rounding(target))
        assert ends.tolist() == [0, 0]


def test_a_target_without_tables_has_none_in_its_graph():
    text = "y = Sigmoid (r) z = LeakyRelu (r)"
    made = model(
        f"""g (float[N, 1, 8, 8] x) => (float[N, 4, 6, 6] y, float[N, 4, 6, 6] z) {{
            r = Conv (x, w1) {text}
        }}""",
        w1=WEIGHTS["w1"],
    )
    result = qpasses.quantize(made, pictures(4), target=plain("ivit"))
    assert {each.op for each in result.evidence} == {"IntConv", "IntCodedPRelu"}
    (left,) = result.report["summary"]["float_nodes"]
    assert left["reason"] == "Sigmoid needs a table: target 'ivit-plain' has none"
    assert qpasses.verify(result.model, made, pictures(2)).verdict == result.verdict


def test_a_pair_that_needs_a_table_stays_in_float_between_integers():
    """A fuzz found a table of pairs there, for Max stands between what is stored."""
    made = model(
        """g (float[N, 1, 8, 8] x) => (float[] y) {
            r = Conv (x, w1) s = LeakyRelu (r) m = Max (s, r) y = Conv (m, w2)
        }""",
        **{"w1": WEIGHTS["w1"], "w2": np.ones((2, 4, 1, 1), np.float32)},
    )
    result = qpasses.quantize(made, pictures(4), target=plain("ivit"))
    assert "LutPair" not in {each.op for each in result.evidence}
    (left,) = result.report["summary"]["float_nodes"]
    assert left["reason"] == "Max needs a table: target 'ivit-plain' has none"
    assert qpasses.verify(result.model, made, pictures(2)).verdict == result.verdict


# The checker's own rules of multipliers, and thresholds


def scales():
    rng = np.random.default_rng(3)
    random = np.exp2(rng.uniform(-34, 20, 400)).tolist()
    ties = [(2 * k + 1) / 2**34 for k in (2**32 - 1, 2**31 + 5, 2**33 - 1)]
    return [*random, *ties, *(2.0**k for k in range(-40, 34)), 0.0, 1 - 2.0**-40]


@pytest.mark.thinned
@pytest.mark.parametrize("rule", MULTIPLIERS)
def test_the_checker_derives_the_same_multipliers(rule):
    bits, (low, high) = MULTIPLIERS[rule].bits[-1], MULTIPLIERS[rule].shifts
    for rounding in ("half_up", "half_to_even", "tflite_double"):
        target = Target("t", "", bits, rounding, False, rule, low, high)
        for scale in scales():
            try:
                expected = node_multiplier(scale, target)
            except ScaleError:
                with pytest.raises(DifferenceError):
                    expected_pair(Fraction(scale), target, elementwise=False)
            else:
                assert expected_pair(Fraction(scale), target, False) == expected, scale


@pytest.mark.parametrize("rounding", ["tflite_double", "ruy", "half_up", "half_away"])
def test_thresholds_are_where_the_rule_takes_each_step(rounding):
    rng, steps = np.random.default_rng(5), levels(-100, -128, 127)
    for shift in [*range(24, 63), *rng.integers(0, 24, 20)]:
        shift = max(int(shift), node_shifts(rounding).start)
        multiplier = int(rng.choice([1 << 30, (1 << 31) - 1, rng.integers(1, 1 << 31), 0]))
        (found,) = meaning_thresholds(*np.array([[multiplier], [shift]]), steps, rounding)
        for offset in (0, -1):
            sums = np.clip(found + offset, -(1 << 31), (1 << 31) - 1)
            kept = ~wraps(sums, shift, rounding)
            reached = requantize(sums[kept], multiplier, shift, rounding) >= steps[kept]
            np.testing.assert_array_equal(reached, (sums >= found)[kept])


# What a target computes in floats, or wraps


@pytest.mark.parametrize("shift", [46, slow(50)])
def test_products_in_float32_are_told_from_integers_exactly_where_they_differ(shift):
    target = replace(plain("ivit"), rounding="half_to_even_in_float32")
    steps, low, high = levels(0, -128, 127), -(2**18) << shift - 46, 2**18 << shift - 46
    reachable, sums = Interval(*np.array([[low], [high]])), np.arange(low, high + 1)
    for multiplier in (2**30, 2**30 + 2**7, 1518500249, 2**31 - 1):
        numbers = np.array([[multiplier], [shift]])
        exact = np.clip(requantize(sums, *numbers, "half_to_even"), -128, 127)
        real = np.clip(requantize(sums, *numbers, target.rounding), -128, 127)
        found = unlike_target(*numbers, steps, reachable, target)
        assert bool(found) == bool((exact != real).any())
        if found:
            with pytest.raises(DifferenceError, match="gives other levels"):
                check_computes(*numbers, steps, reachable, target)
        else:
            check_computes(*numbers, steps, reachable, target)


def test_a_left_shift_that_wraps_is_told_at_the_first_sum_that_it_loses():
    target, steps, multiplier = plain("tflite"), levels(0, -128, 127), np.array([2**30])
    for shift in (0, 7, 20, 30):
        last = 1 << shift
        for ends, lost in (
            ((-last, last - 1), False),
            ((-last - 1, 0), True),
            ((0, last), True),
        ):
            reachable = Interval(*np.array(ends, np.int64)[:, None])
            found = unlike_target(multiplier, np.array([shift]), steps, reachable, target)
            assert bool(found) == lost == reachable.wraps(np.array([shift]), target.rounding)
            if lost:
                with pytest.raises(DifferenceError, match="left shift"):
                    check_computes(multiplier, np.array([shift]), steps, reachable, target)


def test_a_fast_kernel_may_give_two_roundings():
    target = Target("mine", "", 24, "tflite_double")
    result = qpasses.quantize(net(), pictures(12), target=target)
    bodies = {each.body for each in result.evidence}
    assert result.verdict == "ok" and bodies >= {"onnxruntime"}
    assert qpasses.verify(result.model, net(), pictures(2)).verdict == "ok"


@pytest.mark.parametrize("rounding", NODE_ROUNDINGS)
def test_portable_bodies_compute_every_shift_that_a_node_may_have(rounding):
    rng, shifts = np.random.default_rng(7), node_shifts(rounding)
    ends = np.array([-(1 << 31), (1 << 31) - 1, 0, 1, -1, 1 << 30, -(1 << 30)], np.int32)
    acc = np.concatenate([ends, rng.integers(-(1 << 31), 1 << 31, 50).astype(np.int32)])
    multipliers = np.array([0, 1, 1 << 30, (1 << 31) - 1], np.int32)
    for shift in {*shifts[:3], *shifts[28:36], *shifts[-3:]}:
        columns = multipliers, np.full(4, shift, np.int32)
        clamps = (np.array(v, np.int8) for v in (0, -128, 127))
        inputs = [np.repeat(acc[:, None], 4, axis=1), *columns, *clamps]
        attributes = {"axis": 1, "rounding": rounding}
        found = run_op("Requantize", portable_overload(rounding), inputs, attributes)
        expected = OPS["Requantize"].reference(*inputs, **attributes)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["tflite", "bm1684x"])
def test_int8_graphs_hold_the_integers_of_uint8_ones_less_128(name):
    wide, narrow = (
        quantized(name, integer_io=True, activation_type=kind) for kind in ("uint8", "int8")
    )
    stored = np.random.default_rng(1).integers(0, 256, (4, 1, 8, 8))
    theirs = Session(wide.model).run(None, {"x_quantized": stored.astype(np.uint8)})
    ours = Session(narrow.model).run(None, {"x_quantized": (stored - 128).astype(np.int8)})
    for first, second in zip(theirs, ours, strict=True):
        np.testing.assert_array_equal(first.astype(int), second.astype(int) + 128)
