"""Our ops and their bodies against what other integer systems computed, case by case."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from opsets.fixed_point import ROUNDINGS, saturate, saturating_multiplier
from opsets.kernels import float32_kernel
from opsets.qpasses_v1 import OPS
from opsets.qpasses_v1.lut_interpolated import interpolate
from opsets.realised import node_pair
from opsets.target import load_target
from qpasses.ir.function import Function
from qpasses.ir.interchange import import_graph
from qpasses.ir.record import Quantization
from qpasses.ir.runtime import run_op
from qpasses.lowering.integerize_chain import tabulate
from qpasses.lowering.numbers.coded_slope_numbers import coded_slopes
from qpasses.lowering.numbers.rescaled_numbers import KEPT, rescaled_numbers
from tests.support.conformance import each, ends, float32, load, needs_vectors
from tests.support.op_loops import exact_round
from tests.support.small_models import model

pytestmark = needs_vectors


def mantissa_and_shift(scale):
    """The 24-bit multiplier and the shift of a float32 scale, as arrays [1]."""
    return [np.array([v], np.int32) for v in saturating_multiplier(Fraction(float(scale)), 24)]


def stored(dtype, *values):
    return [np.array(value, dtype) for value in values]


def run_fast(op, inputs, **attributes):
    attributes["rounding"] = "half_to_even"
    return run_op(op, "onnxruntime", inputs, attributes).tolist()


def function_of(body):
    """What ONNX's text makes of one number x: y."""
    graph = import_graph(model(f"g (float[N] x) => (float[N] y) {{ {body} }}", opset=20))
    return Function.of(graph.nodes, graph.inputs, graph.outputs[0], 20)


@each("ort_qlinear", "cases", lambda r: r["op"] == "QLinearConv_requant")
def test_onnxruntime_conv_is_reproduced(case):
    x_scale, w_scale, y_scale = (float32(case[f"{name}_scale_hex"][0]) for name in "xwy")
    acc, (m, s) = np.int32(case["acc"]), mantissa_and_shift(x_scale * w_scale / y_scale)
    dtype, w_type = case["dtype"], case["wdtype"]
    level = float32_kernel(acc, m, s)
    assert saturate(level, case["y_zp"], *ends(dtype)).tolist() == case["ort"]
    silent = *stored(dtype, [[[1]]], 0), *stored(w_type, np.zeros((len(acc), 1, 1)), 0)
    inputs = [*silent, acc, m, s, *stored(dtype, case["y_zp"], *ends(dtype))]
    assert np.ravel(run_fast("IntConv", inputs)).tolist() == case["ort"]


@each("ort_qlinear", "cases", lambda r: r["op"] == "QLinearAdd")
def test_onnxruntime_add_is_reproduced(case):
    dtype, y_scale = case["dtype"], float32(case["y_scale_hex"][0])
    ratios = [Fraction(float(float32(case[f"{k}_scale_hex"][0]) / y_scale)) for k in "ab"]
    shift = max(ratio.denominator for ratio in ratios).bit_length() - 1
    scale = stored(np.int32, *(int(ratio * 2**shift) for ratio in ratios), shift)
    a, b = stored(dtype, *(case["feeds"][k] for k in "ab"))
    a_zero, b_zero, *y_ends = stored(
        dtype, case["a_zp"], case["b_zp"], case["y_zp"], *ends(dtype)
    )
    inputs = [a, a_zero, b, b_zero, *scale, *y_ends]
    assert run_fast("IntAdd", inputs) == case["ort"]


@each("ort_qlinear", "cases", lambda r: r["op"] == "QLinearAveragePool")
def test_onnxruntime_average_pool_is_reproduced(case):
    dtype, kernel = case["dtype"], case["attrs"]["kernel_shape"]
    x_scale, y_scale = (Fraction(float(float32(case[f"{k}_scale_hex"][0]))) for k in "xy")
    scale = saturating_multiplier(x_scale / y_scale / int(np.prod(kernel)), 24)
    x, *zeros_and_ends = stored(
        dtype, case["feeds"]["x"], case["x_zp"], case["y_zp"], *ends(dtype)
    )
    inputs = [x, zeros_and_ends[0], *(np.int32([v]) for v in scale), *zeros_and_ends[1:]]
    window = {"kernel_shape": kernel, "strides": [1, 1], "dilations": [1, 1], "pads": [0] * 4}
    result = run_fast("IntAveragePool", inputs, channels=x.shape[1], **window)
    assert result == case["ort"]


@each("tosa_ops", "cases", lambda r: r["op"] == "table" and r["dtype"] == "int8")
def test_tosa_tables_are_looked_up_alike(case):
    """TOSA orders a table by code, Lut by its byte."""
    x, table = np.int8(case["x"]), np.roll(np.int8(case["table"]), 128)
    assert OPS["Lut"].reference(x, table).tolist() == case["y"]
    for body in OPS["Lut"].bodies:
        assert run_op("Lut", body.overload, [x, table], {}).tolist() == case["y"]


@each("tosa_ops", "cases", lambda r: r["op"] == "table" and r["dtype"] == "int16")
def test_tosa_interpolated_tables_are_reproduced(case):
    """Its result has seven fraction bits, which the op rounds away."""
    x, table = np.int16(case["x"]), np.int16(case["table"])
    assert interpolate(x, table).tolist() == case["y"]
    op, given = OPS["LutInterpolated"], stored(np.int16, 0, *ends("int16"))
    for shift, rounding in product((7, 12), ROUNDINGS):
        expected = [exact_round(Fraction(total, 1 << shift), rounding) for total in case["y"]]
        inputs = [x, table, np.array(shift, np.int32), *given]
        assert op.reference(*inputs, rounding=rounding).tolist() == expected
        attributes = {"rounding": rounding}
        accepting = [body for body in op.bodies if body.accepts({}, attributes)]
        assert len(accepting) == (1 if rounding == "half_away" else 2)
        for body, optimize in product(accepting, (False, True)):
            found = run_op(op.name, body, inputs, attributes, optimize=optimize)
            assert found.tolist() == expected


TFLITE_TABLES = {
    "logistic": ("Sigmoid", [0, 0, 0]),
    "tanh": ("Tanh", [0, 0, 0]),
    "gelu": ("Gelu", [0, 0, 0, 0, 1]),  # that one is a tie: TFLite rounds it away from zero
    "hard_swish": ("HardSwish", [12, 0, 4]),  # not a table there, but int16 arithmetic
}
"""Op here, and how many of the 256 codes of each case differ."""


@pytest.mark.parametrize("op", TFLITE_TABLES)
def test_tflite_activations_are_reproduced_but_for_counted_codes(op):
    ours, counts = TFLITE_TABLES[op]
    function, found = function_of(f"y = {ours} (x)"), []
    for case in load(f"tflite_{op}", "cases"):
        x, y = (
            Quantization(float(float32(t["scale_f32_hex"][0])), t["zp"], t["dtype"])
            for t in case["tensors"]
        )
        table, undefined = tabulate(function, x, y)
        assert undefined == []
        codes = np.ravel(np.int8(case["feeds"][0]))
        assert sorted(codes) == list(range(-128, 128))
        gaps = np.abs(table[codes.view(np.uint8)] - np.ravel(case["expected_all"]))
        assert gaps.max() <= 1
        found.append(int((gaps > 0).sum()))
    assert found == counts


@pytest.mark.parametrize("op", TFLITE_TABLES)
def test_tflite_activations_are_the_tables_of_target_tosa(op):
    """MLIR's legalization follows TFLite's kernels."""
    function, rules = (
        function_of(f"y = {TFLITE_TABLES[op][0]} (x)"),
        load_target("tosa").table_rules,
    )
    for case in load(f"tflite_{op}", "cases"):
        x, y = (
            Quantization(float(float32(t["scale_f32_hex"][0])), t["zp"], t["dtype"])
            for t in case["tensors"]
        )
        table, _ = tabulate(function, x, y, rules)
        codes = np.ravel(np.int8(case["feeds"][0]))
        assert (table[codes.view(np.uint8)] == np.ravel(case["expected_all"])).all()


def test_the_tflite_gelu_that_differs_is_a_tie():
    real = function_of("y = Gelu (x)").run(np.float32([102 * 0.0625]))
    assert (real / np.float32(0.03)).tolist() == [212.5]


def p_relu_inputs(case):
    """Of IntPRelu, with 31-bit multipliers; for PRelu they hold its stored slopes too."""
    tensors = {each["role"]: each for each in case["tensors"]}
    x, y = tensors["in0"], tensors["out"]
    scales = {k: Fraction(float(float32(t["scale_f32_hex"][0]))) for k, t in tensors.items()}
    ratio = scales["in0"] / scales["out"]
    if "in1" in tensors:
        codes = np.array(tensors["in1"]["const"]) - tensors["in1"]["zp"]
        slopes = [scales["in1"] * code for code in codes.ravel().tolist()]
        shape = codes.shape
    else:
        slopes, shape = [Fraction(float(float32(case["params"]["alpha_f32_hex"][0])))], ()
    pairs = [saturating_multiplier(abs(ratio * slope), 31) for slope in slopes]
    multiplier, shift = np.int32(pairs).T
    multiplier = multiplier * np.int32([-1 if slope < 0 else 1 for slope in slopes])
    scale = *stored(np.int32, *saturating_multiplier(ratio, 31)), multiplier.reshape(shape)
    zeros = stored(np.int8, x["zp"], y["zp"], *ends("int8"))
    return [np.int8(case["feeds"][0]), zeros[0], *scale, shift.reshape(shape), *zeros[1:]]


TFLITE_SLOPES = {"leaky_relu": [0, 0, 16, 64], "prelu": [3, 0]}
"""How many results of each case differ: its reference rounds twice, ties at last away from
zero, and a negative slope's product before its sign is turned."""


@pytest.mark.parametrize("op", TFLITE_SLOPES)
def test_tflite_slopes_are_reproduced_but_for_counted_ties(op):
    found = []
    for case in load(f"tflite_{op}", "cases"):
        inputs, attributes = p_relu_inputs(case), {"rounding": "half_up"}
        ours = OPS["IntPRelu"].reference(*inputs, **attributes)
        body = run_op("IntPRelu", "portable_half_up", inputs, attributes)
        np.testing.assert_array_equal(body, ours)
        theirs = case.get("expected_all") or case["expected"]["ref"]
        gaps = np.abs(ours.astype(int) - theirs)
        assert gaps.max() <= 1
        found.append(int((gaps > 0).sum()))
    assert found == TFLITE_SLOPES[op]


BUILDS = {"tflm_double": "tflm", "tflm_single": "tflite-single"}
"""Columns of what was compiled from C, by target."""


def quantization_of(tensor):
    return Quantization(float(float32(tensor["scale_f32_hex"][0])), tensor["zp"], "int8")


def of_pair(op, a, b, meanings, target):
    """What meaning and body give for stored a and b with the numbers of a target."""
    numbers = rescaled_numbers(*meanings, target)
    zeros = [each.zero for each in meanings]
    inputs = [np.int8(a), zeros[0], np.int8(b), zeros[1], *numbers.values(), zeros[2]]
    return by_meaning_and_body(op, [*inputs, *stored(np.int8, *ends("int8"))], target)


def of_slopes(x, numbers, meanings, target):
    zeros = [each.zero for each in meanings]
    inputs = [np.int8(x), zeros[0], *numbers.values(), zeros[1]]
    inputs += stored(np.int8, *ends("int8"))
    return by_meaning_and_body("IntCodedPRelu", inputs, target)


def by_meaning_and_body(op, inputs, target):
    rounds = {"rounding": target.rounding}
    meant = OPS[op].reference(*inputs, **rounds)
    body = OPS[op].body("portable", dict(zip(OPS[op].inputs, inputs, strict=True)), rounds)
    for optimize in (False, True):
        found = run_op(op, body, inputs, rounds, optimize=optimize)
        np.testing.assert_array_equal(found, meant)
    return meant


def reference_of(case):
    return case.get("expected_all") or case["expected"]["ref"]


@pytest.mark.parametrize("op", ["Add", "Sub"])
def test_tflite_sums_are_reproduced_by_meaning_and_body(op):
    target, cases = load_target("litert"), load(f"tflite_{op.lower()}", "cases")
    for case in cases:
        meanings = [quantization_of(tensor) for tensor in case["tensors"]]
        found = of_pair(f"IntRescaled{op}", *case["feeds"], meanings, target)
        np.testing.assert_array_equal(found, reference_of(case))
    assert cases


@pytest.mark.parametrize("column", BUILDS)
@each("c_ops", "add")
def test_tflite_micro_sums_are_reproduced_by_meaning_and_body(case, column):
    scales, zeros = ([case[f"{k}{i}"] for i in ("1", "2", "o")] for k in "sz")
    meanings = [Quantization(*pair, "int8") for pair in zip(scales, zeros, strict=True)]
    target = load_target(BUILDS[column])
    found = of_pair("IntRescaledAdd", case["a"], case["b"], meanings, target)
    assert found.tolist() == case[column]


def test_tflite_slopes_are_reproduced_by_meaning_and_body():
    target, count = load_target("litert"), 0
    for case in load("tflite_leaky_relu", "cases") + load("tflite_prelu", "cases"):
        tensors = {each["role"]: each for each in case["tensors"]}
        x, y = (quantization_of(tensors[role]) for role in ("in0", "out"))
        alpha = case["params"].get("alpha_f32_hex", ["0000803e"])[0]
        numbers = coded_slopes(x, y, np.array(float32(alpha)), True, target)
        if "in1" in tensors:
            slopes = quantization_of(tensors["in1"])
            codes = np.int32(tensors["in1"]["const"]) - slopes.zero_point
            scale = target.real_scale("PRelu", (x.scale, slopes.scale), y.scale)
            pair = target.elementwise_multiplier(scale)
            names = "slope_codes", "slope_multiplier", "slope_shift"
            numbers |= dict(zip(names, (codes, *map(np.int32, pair)), strict=True))
        found = of_slopes(case["feeds"][0], numbers, (x, y), target)
        np.testing.assert_array_equal(found, reference_of(case))
        count += 1
    assert count == len(TFLITE_SLOPES["leaky_relu"]) + len(TFLITE_SLOPES["prelu"])


@pytest.mark.parametrize("column", BUILDS)
@each("c_ops", "leaky_relu")
def test_tflite_micro_slopes_are_reproduced_by_meaning_and_body(case, column):
    x, y = (Quantization(case[f"{k}_scale"], case[f"{k}_zp"], "int8") for k in ("in", "out"))
    target = load_target(BUILDS[column])
    above, below = (
        map(np.int32, node_pair((multiplier, 31 - exponent), target.rounding))
        for multiplier, exponent in (case["mult_identity"], case["mult_alpha"])
    )
    parts = [*above, np.int32(1), *below]  # derived in double by who wrote the record
    numbers = dict(enumerate(parts))
    found = of_slopes(np.arange(-128, 128), numbers, (x, y), target)
    assert found.tolist() == case[column]


@each("tpumlir", "MultiplierShift_HalfUp", lambda r: -128 <= r["x"] <= 127)
def test_tpu_mlir_operands_are_reproduced_by_meaning_and_body(case):
    """An operand beside zero: its own rounding is all there is."""
    target, m, s = load_target("bm1684x"), case["multiplier"], case["rshift"]
    pair = [np.int32(value) for value in node_pair((m, s), target.rounding)]
    zero, kept = np.int8(0), [np.int32(value) for value in KEPT]
    inputs = [np.int8([case["x"]]), zero, np.int8([0]), zero, np.int32(0), *pair, *pair]
    inputs += [*kept, *stored(np.int8, 0, *ends("int8"))]
    found = by_meaning_and_body("IntRescaledAdd", inputs, target)
    assert found.tolist() == [min(max(case["y"], -128), 127)]


ONE_OVER = "m = Neg (x) e = Exp (m) one = Constant <value_float = 1.0> () s = Add (e, one)"
SIGMOID_IN_STEPS = f"{ONE_OVER} y = Reciprocal (s)"


def symmetric(bits, unsigned, narrow):
    """The smallest and the largest code."""
    largest = 2 ** (bits - (not unsigned)) - 1
    return 0 if unsigned else -largest - (not narrow), largest


@each("yehangyang_lut", "cases")
def test_yehangyang_tables_are_reproduced_by_truncating_and_rounding_adds_at_most_1(case):
    """Scales, division and truncation in float32, the function of our chain before them."""
    low, high = case["x_range"]
    y_low, y_high = symmetric(case["output_bit"], case["output_unsign"], case["narrow"])
    _, x_high = symmetric(case["input_bit"], case["input_unsign"], narrow=False)
    assert high == x_high
    x_scale = np.float32(case["input_amax"]) / np.float32(x_high)
    y_scale = np.float32(case["output_amax"]) / np.float32(y_high)
    codes, theirs = np.arange(low, high + 1), np.array(case["y"])
    x = codes.astype(np.float32) * x_scale
    if case["op"] == "sigmoid":
        real = function_of(SIGMOID_IN_STEPS).run(x)
    else:
        real = function_of("y = Tanh (x)").real(x.astype(np.float64)).astype(np.float32)
    assert np.clip(np.trunc(real / y_scale), y_low, y_high).tolist() == theirs.tolist()

    op = "Sigmoid" if case["op"] == "sigmoid" else "Tanh"
    types = ("uint8" if case[f"{side}_unsign"] else "int8" for side in ("input", "output"))
    scales = (float(scale) for scale in (x_scale, y_scale))
    table, _ = tabulate(function_of(f"y = {op} (x)"), *map(symmetric_8, scales, types))
    ours = np.clip(table[codes & 255].astype(int), y_low, y_high)
    further = (ours - theirs) * np.sign(np.where(theirs == 0, ours, theirs))
    assert set(further.tolist()) <= {0, 1}


@each("yehangyang_softmax", "cases")
def test_yehangyang_softmax_is_reproduced_by_meaning_and_bodies(case):
    """By its own tables where the case holds them, else by its formula in float32.

    float32's exponential differs between libraries in the last bit, which entries of 32 bits
    show; no result does.
    """
    tables = softmax_tables_of(case)
    x = np.array(case["x"], np.uint8 if case["input_unsign"] else np.int8)
    totals = tables[0][x.view(np.uint8)].sum(axis=1)
    is_given = "denominator_table" in case
    exact = is_given or case["acc_bit"] < 32
    np.testing.assert_allclose(totals, case["denominator"], rtol=0 if exact else 1e-6)
    dtype = np.uint8 if case["output_unsign"] else np.int8
    y_ends = symmetric(case["output_bit"], case["output_unsign"], case["narrow"])
    given = [x, tables[0].astype(np.int32), tables[1], *stored(dtype, 0, *y_ends)]
    op = OPS["TableSoftmax"]
    constants = dict(zip(op.inputs, given, strict=True))
    for rounding in ROUNDINGS:
        attributes = {"axis": -1, "published": 1, "rounding": rounding}
        assert op.reference(*given, **attributes).tolist() == case["y"]
        for flavour in ("onnxruntime", "portable"):
            body = op.body(flavour, constants, attributes)
            assert body.flavour == flavour
            assert run_op("TableSoftmax", body, given, attributes).tolist() == case["y"]


def softmax_tables_of(case):
    """T and P, int64 [2, 256] by the byte of the code; scales and division in float32."""
    low, high = symmetric(case["input_bit"], case["input_unsign"], case["narrow"])
    codes, tables = np.arange(low, high + 1), np.zeros((2, 256), np.int64)
    if "denominator_table" in case:
        by_byte = case["denominator_table"], case["numerator_table"]
        tables[:, codes & 255] = np.array(by_byte)[:, codes & (len(codes) - 1)]
        return tables
    _, y_high = symmetric(case["output_bit"], case["output_unsign"], case["narrow"])
    x_scale, y_scale, largest = (
        np.float32(value) / np.float32(over)
        for value, over in (
            (case["input_amax"], high),
            (case["output_amax"], y_high),
            (case["acc_elem_max"], 1),
        )
    )
    real, step = np.exp((codes - high).astype(np.float32) * x_scale), 1 / largest
    tables[:, codes & 255] = np.trunc([real / step, real / (step * y_scale)])
    return tables


def symmetric_8(scale, dtype):
    return Quantization(scale, 0, dtype)
