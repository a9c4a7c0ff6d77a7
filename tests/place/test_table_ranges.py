"""--table-ranges function: what a table gives spans what its function can give."""

import numpy as np
import pytest

import qpasses
from calibration import Range
from opsets.target import load_target
from qpasses.ir.function import Function
from qpasses.ir.metadata import read_record
from qpasses.ir.settings import Settings
from qpasses.place.tensor_parameters import activation_parameters
from tests.support.commands import USAGE, Desk, assert_refused, read_json
from tests.support.small_models import every_tensor, model, numbers, pictures

FORMS = [("uint8", 8), ("int8", 8), ("uint8", 4), ("int8", 3)]
forms = pytest.mark.parametrize(("dtype", "bits"), FORMS)


def net(body, outputs="float[N, C, H, W] y", **weights):
    weights = {"w": numbers(3, 1, 3, 3), "v": numbers(2, 3, 1, 1), **weights}
    return model(
        f"""g (float[N, 1, 8, 8] x) => ({outputs}) {{
            [first] a = Conv (x, w)
            {body}
        }}""",
        opset=21,
        ir_version=10,
        **weights,
    )


def quantized(made, **options):
    return qpasses.quantize(
        made, pictures(), **{"table_ranges": "function", "layout": "nchw", **options}
    )


def meanings(result):
    tensors = read_record(result.model)[0].tensors
    return {name.removesuffix("_quantized"): each for name, each in tensors.items()}


def values_of(stored):
    """What its codes mean."""
    low, high = stored.limits
    return (np.arange(low, high + 1) - stored.zero_point) * np.float32(stored.scale)


def methods(result):
    return {each["name"]: each["method"] for each in result.report["calibration"]["tensors"]}


def ranges(result):
    return {each["name"]: each["range"] for each in result.report["calibration"]["tensors"]}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


# Which range


@forms
def test_the_range_is_that_of_the_function_over_the_codes_of_its_source(dtype, bits):
    made = net("s = Sigmoid (a) y = Conv (s, v)")
    options = {"activation_type": dtype, "activation_bits": bits}
    result = quantized(made, **options)
    found, settings = meanings(result), Settings(load_target("onnx"), **options)
    ends = sigmoid(values_of(found["a"])[[0, -1]].astype(np.float64))
    assert ranges(result)["s"] == pytest.approx(ends.tolist(), abs=1e-6)
    expected = activation_parameters(Range(*ends.tolist()), settings)
    assert found["s"].zero_point == expected.zero_point
    assert found["s"].scale == pytest.approx(expected.scale, rel=1e-5)
    calibrated = meanings(quantized(made, table_ranges="calibrated", **options))
    assert found["s"].scale != calibrated["s"].scale
    assert {k: v for k, v in found.items() if k != "s"} == {
        k: v for k, v in calibrated.items() if k != "s"
    }


CHAINS = {
    "two ops": ("[f] s = Tanh (a) [g] t = Exp (s) y = Conv (t, v)", {"t"}),
    "a branch that rejoins": ("h = Sigmoid (a) s = Mul (a, h) y = Conv (s, v)", {"s"}),
    "two ends": (
        "h = Sigmoid (a) s = Mul (a, h) b = Conv (h, v) c = Conv (s, v) y = Add (b, c)",
        {"h", "s"},
    ),
    "by channel": ("s = PRelu (a, slopes) y = Conv (s, v)", {"s"}),
    "one after the other": (
        "s = PRelu (a, slopes) p = MaxPool <kernel_shape = [2, 2]> (s) t = Elu (p) "
        "y = Conv (t, v)",
        {"s", "t"},
    ),
    "with Relu at its end": ("s = Cos (a) t = Relu (s) y = Conv (t, v)", {"t"}),
}


@pytest.mark.thinned
@forms
@pytest.mark.parametrize("name", CHAINS)
def test_no_result_for_any_code_is_clipped(name, dtype, bits):
    body, ends = CHAINS[name]
    made = net(body, slopes=numbers(3, 1, 1))
    result = quantized(made, activation_type=dtype, activation_bits=bits)
    assert result.verdict == "ok"
    assert {tensor for tensor, how in methods(result).items() if how == "function"} == ends
    far = {"x": pictures(seed=3) * 100}
    stored, found = every_tensor(result.model, far), meanings(result)
    for node in result.model.graph.node:
        if not node.op_type.startswith("Lut"):
            continue
        x, y = (
            found[each.removesuffix("_quantized")] for each in (node.input[0], node.output[0])
        )
        real = dequantized(stored[node.input[0]], x)
        function = read_record(result.model)[0].nodes[node.name].function
        wanted = run_by_channel(function, real)
        error = np.abs(dequantized(stored[node.output[0]], y) - wanted)
        assert error.max() <= 0.5001 * y.scale
    assert qpasses.verify(result.model, made, far["x"]).verdict == "ok"


def dequantized(values, meaning):
    return (values.astype(np.float32) - meaning.zero_point) * np.float32(meaning.scale)


def run_by_channel(text, real):
    """The function of [N, C, H, W], whose channels it may tell apart."""
    moved = np.moveaxis(real, 1, 0)
    rows = moved.reshape(len(moved), -1)
    return np.moveaxis(Function.from_text(text).run(rows).reshape(moved.shape), 0, 1)


def test_what_is_infinite_or_undefined_is_left_out():
    made = net("p = Abs (a) q = Log (p) y = MaxPool <kernel_shape = [2, 2]> (q)")
    result = quantized(made)
    x = np.abs(values_of(meanings(result)["a"]).astype(np.float64))
    low, high = np.log(x[x > 0]).min(), np.log(x[x > 0]).max()
    assert ranges(result)["q"] == pytest.approx([low, high], rel=1e-5)
    rooted = net(
        "q = Sqrt (a) y = MaxPool <kernel_shape = [2, 2]> (q)", w=abs(numbers(3, 1, 3, 3))
    )
    data = np.abs(pictures())
    result = qpasses.quantize(
        rooted, data, table_ranges="function", calibration_overrides=["a=-4,9"]
    )
    assert ranges(result)["q"] == pytest.approx([0, 3], abs=0.01)


def test_a_function_of_no_finite_result_keeps_the_calibrated_range():
    body = "s = Sub (x, one) q = Log (s) b = Conv (q, w) y = Add (a, b)"
    made, data = net(body, one=np.float32(1)), np.abs(pictures()) + 2
    options = {"table_ranges": "function"}
    found = methods(qpasses.quantize(made, data, **options))
    assert found["q"] == "function"
    result = qpasses.quantize(made, data, calibration_overrides=["x=0,0.5"], **options)
    assert methods(result)["q"] == "minmax"
    floats = {
        node["op_type"]: node["reason"] for node in result.report["summary"]["float_nodes"]
    }
    assert "not defined for any code" in floats["Log"]


# Ties and overrides


def test_tied_tensors_take_the_union():
    made = net("s = Sigmoid (a) y = Concat <axis = 1> (s, a)")
    found = meanings(quantized(made))
    assert found["s"] == found["a"] == found["y"]
    made = net(
        "b = Conv (x, u) s = Sigmoid (a) y = Concat <axis = 1> (s, b)",
        u=numbers(2, 1, 3, 3) / 99,
    )
    result = quantized(made)
    found, given = meanings(result), ranges(result)
    assert found["s"] == found["b"] == found["y"]
    union = max(given["s"][1], given["y"][1]) - min(given["b"][0], given["y"][0], 0)
    assert found["y"].scale == pytest.approx(union / 255, rel=1e-6)
    assert given["s"][1] > given["y"][1]


def test_a_table_before_a_max_pool_widens_what_it_moves_to():
    made = net("s = Sigmoid (a) p = MaxPool <kernel_shape = [2, 2]> (s) y = Conv (p, v)")
    result = quantized(made)
    found, given = meanings(result), ranges(result)
    assert found["s"] == found["p"]
    assert found["s"].scale == pytest.approx(given["s"][1] / 255, rel=1e-6)
    assert given["s"][1] > given["p"][1]


def test_an_override_for_the_tensor_wins():
    made = net("s = Sigmoid (a) y = Conv (s, v)")
    result = quantized(made, calibration_overrides=["s=0,0.5"])
    assert (methods(result)["s"], ranges(result)["s"]) == ("given", [0, 0.5])
    result = quantized(made, calibration_overrides=["s=mse"])
    assert methods(result)["s"] == "mse"


def test_what_is_no_table_keeps_its_range():
    made = net("r = Relu (a) b = Conv (r, v) c = Conv (r, v) d = Add (b, c) y = Mul (b, d)")
    results = [quantized(made, table_ranges=each) for each in ("function", "calibrated")]
    assert results[0].report["calibration"] == results[1].report["calibration"]
    assert meanings(results[0]) == meanings(results[1])


def test_nodes_that_stay_float_have_no_table():
    made = net("[s] s = Sigmoid (a) y = Conv (s, v)")
    result = quantized(made, nodes_to_exclude=["s"])
    assert "function" not in methods(result).values()


# Reports and errors


def test_the_command_line_prints_and_records_which_tensors(tmp_path):
    desk = Desk(tmp_path, net("s = Sigmoid (a) y = Conv (s, v)"), pictures())
    ended = desk.quantize("--table-ranges", "function")
    assert ended.code == 0
    assert "ranges of functions" in ended.out and "1 tensor: s" in ended.out
    report = read_json(desk.report)
    assert report["configuration"]["table_ranges"] == "function"
    (entry,) = [e for e in report["calibration"]["tensors"] if e["method"] == "function"]
    assert entry["name"] == "s"
    assert entry["extremes"][1] < entry["range"][1]
    assert desk.verify().code == 0
    ended = desk.quantize()
    assert "ranges of functions" not in ended.out
    assert "function" not in {
        e["method"] for e in read_json(desk.report)["calibration"]["tensors"]
    }


def test_a_calibration_table_gives_the_other_ranges(tmp_path):
    made = net("s = Sigmoid (a) y = Conv (s, v)")
    table = tmp_path / "table.json"
    qpasses.calibrate(made, pictures(), table)
    result = quantized(made, calibration_table=table)
    assert meanings(result) == meanings(quantized(made))


@pytest.mark.parametrize("given", ["guessed", "Function", ""])
def test_an_unknown_source_of_ranges_is_named(tmp_path, given):
    desk = Desk(tmp_path, net("y = Sigmoid (a)"), pictures())
    assert_refused(desk.quantize("--table-ranges", given), USAGE, "--table-ranges")
    with pytest.raises(
        qpasses.UsageError, match=r"table_ranges: unknown .* calibrated, function"
    ):
        quantized(net("y = Sigmoid (a)"), table_ranges=given)
