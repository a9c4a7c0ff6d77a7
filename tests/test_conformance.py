"""Our arithmetic against what other integer systems computed, case by case."""

import json
import os
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from op_cases import exact_round
from small_models import model

from opsets.fixed_point import ROUNDINGS, requantize, saturate, scale_to_multiplier
from opsets.kernels import float32_kernel
from opsets.qpasses_v1 import OPS
from opsets.qpasses_v1.lut_interpolated import interpolate
from qpasses.function import Function
from qpasses.graph import import_graph
from qpasses.passes.integerize_chain import tabulate
from qpasses.record import Quantization
from qpasses.runtime import run_op

BESIDE_THE_REPOSITORY = Path(__file__).parents[2] / "shared" / "conformance"
FOLDER = Path(os.environ.get("QPASSES_CONFORMANCE", BESIDE_THE_REPOSITORY))

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"no vectors in {FOLDER}: set QPASSES_CONFORMANCE"
)

SINGLE_ROUND = {"tflm_single", "cmsis_single", "tosa_single_round"}
SINGLE_ROUND_24 = {"xnn_rndnu"}  # on the scale's float32 mantissa
FLOAT32 = {"tosa_inexact_round", "xnn_fp32", "litert_conv_xnnpack", "ort_qlinearconv"}
SYSTEMS_OUT_OF_SCOPE = {
    "tflm_double": "rounds twice",
    "cmsis_double": "rounds twice",
    "tosa_double_round": "rounds twice",
    "litert_conv_ref": "rounds twice",
    "litert_conv_opt": "rounds twice, ties up both times",
}
ORT_OPS = {"QLinearConv_requant", "QLinearAdd", "QLinearAveragePool"}
ORT_OPS_OUT_OF_SCOPE = {
    "QuantizeLinear": "takes floats",
    "QLinearSigmoid": "becomes a Lut filled by running it: its values are not ours",
    "QLinearSoftmax": "no integer op yet",
}


def load(name, key):
    if not FOLDER.is_dir():
        return []
    return json.loads((FOLDER / f"{name}.json").read_text("utf-8"))[key]


def each(name, key, keep=lambda record: True):
    records = [record for record in load(name, key) if keep(record)]
    assert records or not FOLDER.is_dir(), f"{name}.json has no such record"
    return pytest.mark.parametrize("case", records, ids=range(len(records)))


def float32(hexadecimal):
    return np.frombuffer(bytes.fromhex(hexadecimal), "<f4")[0]


def mantissa_and_shift(scale):
    """The 24-bit multiplier and the shift of a float32 scale, as arrays [1]."""
    return [np.array([v], np.int32) for v in scale_to_multiplier(Fraction(float(scale)), 24)]


def stored(dtype, *values):
    return [np.array(value, dtype) for value in values]


def ends(dtype):
    return np.iinfo(dtype).min, np.iinfo(dtype).max


def run_fast(op, inputs, **attributes):
    attributes["rounding"] = "half_to_even"
    return run_op(op, "onnxruntime", inputs, attributes).tolist()


def function_of(body):
    """What ONNX's text makes of one number x: y."""
    graph = import_graph(model(f"g (float[N] x) => (float[N] y) {{ {body} }}", opset=20))
    return Function.of(graph.nodes, graph.inputs, graph.outputs[0], 20)


def test_every_system_and_op_is_compared_or_left_out_for_a_reason():
    systems = SINGLE_ROUND | SINGLE_ROUND_24 | FLOAT32 | SYSTEMS_OUT_OF_SCOPE.keys()
    assert all(r["out"].keys() == systems for r in load("requantize_matrix", "cases"))
    ops = {record["op"] for record in load("ort_qlinear", "cases")}
    assert ops == ORT_OPS | ORT_OPS_OUT_OF_SCOPE.keys()


@each("requantize_matrix", "cases")
def test_the_matrix_of_systems_is_reproduced(case):
    acc, (m, s) = np.array(case["acc"]), mantissa_and_shift(float32(case["scale_f32_hex"]))
    single = requantize(acc, case["multiplier"], case["shift_tosa"], "half_up")
    levels = dict.fromkeys(SINGLE_ROUND, single)
    levels |= dict.fromkeys(SINGLE_ROUND_24, requantize(acc, m, s, "half_up"))
    levels |= dict.fromkeys(FLOAT32, float32_kernel(acc, m, s))
    for system, level in levels.items():
        assert saturate(level, 0, -128, 127).tolist() == case["out"][system], system


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
    scale = scale_to_multiplier(x_scale / y_scale / int(np.prod(kernel)), 24)
    x, *zeros_and_ends = stored(
        dtype, case["feeds"]["x"], case["x_zp"], case["y_zp"], *ends(dtype)
    )
    inputs = [x, zeros_and_ends[0], *(np.int32([v]) for v in scale), *zeros_and_ends[1:]]
    window = {"kernel_shape": kernel, "strides": [1, 1], "dilations": [1, 1], "pads": [0] * 4}
    result = run_fast("IntAveragePool", inputs, channels=x.shape[1], **window)
    assert result == case["ort"]


@each("c_requantize", "quantize_multiplier", lambda r: 2**-31 <= r["real"] < 2**29)
def test_tflite_multipliers_of_our_shifts_are_reproduced(case):
    m, exponent = case["single_round_build"]
    assert scale_to_multiplier(float.fromhex(case["real_hex"]), 31) == (m, 31 - exponent)


@each("c_requantize", "requantize")
def test_tflm_single_rounding_and_xnnpack_are_reproduced(case):
    x, (m, s) = np.array(case["x"]), mantissa_and_shift(float32(case["scale_f32_hex"]))
    single = requantize(x, case["multiplier"], 31 - case["shift_tflite"], "half_up")
    assert single.tolist() == case["tflm_single"]
    for level, system in (
        (float32_kernel(x, m, s), "xnn_fp32_s8_zp0"),
        (requantize(x, m, s, "half_up"), "xnn_rndnu_s8_zp0"),
    ):
        assert saturate(level, 0, -128, 127).tolist() == case[system], system


@each("c_requantize", "requantize_int64_acc_reduced_multiplier")
def test_tflm_47_bit_accumulators_are_reproduced(case):
    m, shift = case["cmsis_reduced_multiplier"], 15 - case["shift"]
    assert requantize(case["x"], m, shift, "half_up").tolist() == case["tflm"]


@each("c_requantize", "xnn_qu8")
def test_xnnpack_uint8_is_reproduced(case):
    """Left out: rndnu16, which rounds twice."""
    x, (m, s) = np.array(case["x"]), mantissa_and_shift(float32(case["scale_f32_hex"]))
    even, up = float32_kernel(x, m, s), requantize(x, m, s, "half_up")
    assert saturate(even, case["zp"], 0, 255).tolist() == case["fp32"]
    assert saturate(up, case["zp"], 0, 255).tolist() == case["rndnu"]


@each("tosa_rescale", "cases", lambda r: r["rounding_mode"] == "SINGLE_ROUND")
def test_tosa_single_round_is_reproduced(case):
    x = np.array(case["x"]) - case["in_zp"]
    level = requantize(x, case["multiplier"], case["shift"], "half_up")
    assert saturate(level, case["out_zp"], *ends(case["out_dtype"])).tolist() == case["y"]


@each("tosa_rescale", "cases", lambda r: r["rounding_mode"] == "INEXACT_ROUND")
def test_tosa_inexact_round_is_reproduced(case):
    x, m, s = (np.array(v) for v in (case["x"], [case["multiplier"]], [case["shift"]]))
    level = float32_kernel(x - case["in_zp"], m, s)
    assert saturate(level, case["out_zp"], *ends(case["out_dtype"])).tolist() == case["y"]


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
    pairs = [scale_to_multiplier(abs(ratio * slope), 31) for slope in slopes]
    multiplier, shift = np.int32(pairs).T
    multiplier = multiplier * np.int32([-1 if slope < 0 else 1 for slope in slopes])
    scale = *stored(np.int32, *scale_to_multiplier(ratio, 31)), multiplier.reshape(shape)
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


@each("tpumlir", "MultiplierShift_HalfUp")
def test_tpu_mlir_multipliers_and_shifts_are_reproduced(case):
    """What its LeakyRelu and PRelu do below zero."""
    level = requantize(case["x"], case["multiplier"], case["rshift"], "half_up")
    assert int(level) == case["y"]


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


def symmetric_8(scale, dtype):
    return Quantization(scale, 0, dtype)
