"""--activation-bits and --narrow-range: fewer codes than the stored type holds."""

import itertools
import json
from functools import cache

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import qpasses
from calibration import Range
from calibration.methods import Wanted, expected_error, threshold
from opsets.target import load_target
from qpasses.ir.metadata import read_record
from qpasses.ir.record import Quantization
from qpasses.ir.settings import Settings
from qpasses.lowering.requantized import accumulators
from qpasses.place.tensor_parameters import activation_parameters
from tests.support.commands import USAGE, Desk, assert_refused, read_json, run
from tests.support.covering import covering_pairs
from tests.support.small_models import (
    cnn,
    every_tensor,
    laid_copies,
    model,
    numbers,
    pictures,
    recorded,
    session,
)
from tests.support.statistics_of import statistics_of

EVERYTHING = """
everything (float[N, 2, 8, 8] x) => (float[N, 3] y, float[N, 4, 4, 4] z) {
    [conv] c = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
    [relu] r = Relu (c)
    [depthwise] d = Conv <group = 4, pads = [1, 1, 1, 1]> (r, w2)
    [add] a = Add (r, d)
    [mul] m = Mul (a, d)
    [sub] less = Sub (m, r)
    [most] s = Max (less, m)
    [sigmoid] g = Sigmoid (s)
    [prelu] q = PRelu (d, slopes)
    [join] j = Concat <axis = 1> (g, q)
    [pad] e = Pad (j, grow, high)
    [max] k = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (e)
    [cut] u = Slice (k, zero, four, axis)
    [clip] l = Clip (u, low, high)
    [turn] t = Transpose <perm = [0, 1, 3, 2]> (l)
    [pool] p = AveragePool <kernel_shape = [2, 2], strides = [2, 2], pads = [0, 0, 1, 1],
        count_include_pad = 1> (t)
    [shift] h = Add (p, row)
    [again] z = Conv (h, w3)
    [mean] v = GlobalAveragePool (z)
    [flat] f = Flatten (v)
    [gemm] y = Gemm (f, w4, b4)
}"""

OPS = {
    *("IntConv", "IntAdd", "IntSub", "IntMul", "LutPair", "Lut", "LutPerChannel", "Concat"),
    *("Pad",),
    *("MaxPool", "Slice", "Clip", "Transpose", "IntAveragePool", "IntGlobalAveragePool"),
    *("Flatten", "IntGemm"),
}

FORMS = ["uint8", "int8"], [2, 4, 7, 8], [False, True], [False, True]
CODES = ["uint8", "int8"], [2, 5], [False, True]
every_form = pytest.mark.parametrize(
    ("dtype", "bits", "narrow", "symmetric"), list(itertools.product(*FORMS))
)
forms = pytest.mark.parametrize(
    ("dtype", "bits", "narrow", "symmetric"), covering_pairs(*FORMS)
)
all_codes = pytest.mark.parametrize(
    ("dtype", "bits", "narrow"), list(itertools.product(*CODES))
)
codes = pytest.mark.parametrize(("dtype", "bits", "narrow"), covering_pairs(*CODES))


@cache
def everything():
    weights = {"w1": numbers(4, 2, 3, 3), "b1": numbers(4), "w2": numbers(4, 1, 3, 3)}
    weights |= {"w3": numbers(4, 8, 1, 1), "w4": numbers(4, 3), "b4": numbers(3)}
    weights |= {"slopes": np.abs(numbers(4, 1, 1)), "row": numbers(4)}
    weights |= {"low": np.float32(-0.5), "high": np.float32(1.5)}
    weights |= {"grow": np.array([0, 0, 0, 0, 0, 0, 1, 0], np.int64)}
    weights |= {"zero": np.array([0]), "four": np.array([7]), "axis": np.array([2])}
    return model(EVERYTHING, opset=21, ir_version=10, **weights)


def samples(count=6, seed=1, scale=1.0):
    return scale * numbers(count, 2, 8, 8, seed=seed)


def limits(dtype, bits, narrow):
    """The codes, from their definition."""
    low = 0 if dtype == "uint8" else -(2 ** (bits - 1))
    return low + bool(narrow), low + 2**bits - 1


def options_of(dtype, bits, narrow, symmetric=False):
    return {
        "activation_type": dtype,
        "activation_bits": bits,
        "narrow_range": bool(narrow),
        "symmetric": symmetric,
    }


@cache
def small(dtype="uint8", bits=4, narrow=False, **options):
    return qpasses.quantize(
        cnn(), pictures(), **options_of(dtype, bits, narrow) | options
    ).model


@cache
def quantized(dtype="uint8", bits=4, narrow=False, symmetric=False):
    """What becomes of ``everything``; whoever changes the model takes a copy."""
    return qpasses.quantize(
        everything(), samples(), **options_of(dtype, bits, narrow, symmetric)
    )


def stored_values(made, feed):
    """Every tensor that the record of ``made`` knows and a node of it writes."""
    found = every_tensor(made, feed)
    copies = laid_copies(made)
    known = {n: v for n, v in read_record(made)[0].tensors.items() if n not in copies}
    constants = {each.name for each in made.graph.initializer}
    inputs = {each.name for each in made.graph.input}
    assert known.keys() - constants - inputs <= found.keys()
    return {name: found[name] for name in known.keys() & found.keys()}


def copied(made):
    copy = onnx.ModelProto()
    copy.CopyFrom(made)
    return copy


def constant_of(made, node, position):
    """A constant of its own for one input of the node."""
    (found,) = [each for each in made.graph.node if each.name == node]
    (tensor,) = [t for t in made.graph.initializer if t.name == found.input[position]]
    own = onnx.TensorProto()
    own.CopyFrom(tensor)
    own.name = f"{tensor.name}_own"
    found.input[position] = own.name
    made.graph.initializer.append(own)
    return made.graph.initializer[-1]


# Every op, in every form


@pytest.mark.thinned
@forms
def test_every_op_is_proved_and_keeps_its_codes(dtype, bits, narrow, symmetric):
    result = quantized(dtype, bits, narrow, symmetric)
    assert result.verdict == "ok"
    found = {node.op_type for node in result.model.graph.node}
    assert found - {"QuantizeLinear", "DequantizeLinear"} == OPS
    others = np.concatenate([samples(3, seed=2), samples(3, seed=3, scale=40)])
    verified = qpasses.verify(result.model, everything(), others)
    assert verified.report["summary"]["problems"] == []
    assert verified.verdict == "ok"
    low, high = limits(dtype, bits, narrow)
    stored = stored_values(result.model, {"x": others})
    assert all(low <= v.min() and v.max() <= high for v in stored.values())
    assert stored["x_quantized"].min() == low or symmetric
    assert stored["x_quantized"].max() == high
    assert {value.dtype.name for value in stored.values()} == {dtype}


@every_form
def test_scales_and_zero_points_span_the_codes(dtype, bits, narrow, symmetric):
    low, high = limits(dtype, bits, narrow)
    settings = Settings(load_target("onnx"), **options_of(dtype, bits, narrow, symmetric))
    found = activation_parameters(Range(-1.0, 3.0), settings)
    assert (found.limits, found.bits, found.narrow) == ((low, high), bits, narrow)
    middle = 2 ** (bits - 1) if dtype == "uint8" else 0
    if symmetric:
        assert found.zero_point == middle
        assert found.scale == np.float32(3 / (high - middle))
        assert found.store(3.0) == high and found.store(-3.0) == middle - (high - middle)
    else:
        assert found.scale == np.float32(4 / (high - low))
        assert found.zero_point == low + round(1 / found.scale)
    assert (found.store(-1e9), found.store(1e9)) == (low, high)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_a_narrow_range_has_as_many_codes_on_both_sides_of_the_middle(dtype):
    for bits in range(2, 9):
        settings = Settings(load_target("onnx"), **options_of(dtype, bits, True, True))
        found = activation_parameters(Range(-2.0, 2.0), settings)
        low, high = found.limits
        assert high - found.zero_point == found.zero_point - low == 2 ** (bits - 1) - 1


@pytest.mark.parametrize("narrow", [False, True])
def test_a_table_that_is_computed_in_float_is_clipped_to_the_codes(narrow):
    made = model(
        """g (float[1, 2, 64, 64] x) => (float[1, 2, 64, 64] y) {
            [conv] a = Conv (x, w)
            [tanh] t = Tanh (a)
            [last] y = Conv (t, w)
        }""",
        w=numbers(2, 2, 1, 1),
    )
    data, far = numbers(2, 2, 64, 64)[:, None], 30 * numbers(2, 2, 64, 64, seed=1)[:, None]
    options = {"activation_bits": 4, "narrow_range": narrow}
    result = qpasses.quantize(made, [{"x": x} for x in data], **options)
    bodies = {each["name"]: each["body"] for each in result.report["evidence"]["nodes"]}
    assert bodies["tanh"].startswith("onnxruntime_float")
    assert qpasses.verify(result.model, made, [{"x": x} for x in far]).verdict == "ok"
    stored = every_tensor(result.model, {"x": far[0]})["t_quantized"]
    assert (stored.min(), stored.max()) == (narrow, 15)


# Codes beyond: nothing breaks


@all_codes
def test_multipliers_are_chosen_for_all_that_the_type_holds(dtype, bits, narrow):
    weights, bias = numbers(3, 2, 3, 3, dtype=np.float64).round().astype(np.int8), np.ones(3)
    few, all_256 = Quantization(1.0, 1, dtype, bits, bool(narrow)), Quantization(1.0, 1, dtype)
    found, expected = (accumulators(weights, bias, 0, each) for each in (few, all_256))
    np.testing.assert_array_equal(found.low, expected.low)
    np.testing.assert_array_equal(found.high, expected.high)


@codes
def test_integer_inputs_are_clipped_to_the_codes(dtype, bits, narrow):
    made = small(dtype, bits, narrow, integer_io=True)
    (given,), (result,) = made.graph.input, made.graph.output
    assert (given.name, result.name) == ("x_unclipped", "y_quantized")
    metadata = session(made).get_modelmeta().custom_metadata_map
    for key in ("qpasses.inputs", "qpasses.outputs"):
        (entry,) = json.loads(metadata[key]).values()
        assert (entry["bits"], entry["narrow"]) == (bits, narrow)
    beyond = np.arange(256, dtype=np.uint8).view(dtype).repeat(2).reshape(8, 1, 8, 8)
    low, high = limits(dtype, bits, narrow)
    inside = beyond.clip(low, high)
    assert (inside != beyond).any()
    (found,), (expected,) = (
        session(made).run(None, {"x_unclipped": each}) for each in (beyond, inside)
    )
    np.testing.assert_array_equal(found, expected)
    assert qpasses.verify(made, cnn(), pictures(seed=3)).verdict == "ok"


@codes
def test_integer_inputs_give_what_the_ordinary_model_gives(dtype, bits, narrow):
    ordinary, made = small(dtype, bits, narrow), small(dtype, bits, narrow, integer_io=True)
    far = pictures() * 30
    scale, zero_point = recorded(made)["x_unclipped"]
    ends = np.iinfo(dtype)  # what a caller does who knows but the type
    stored = np.rint(far / np.float32(scale)) + zero_point
    feed = {"x_unclipped": stored.clip(ends.min, ends.max).astype(dtype)}
    inside = every_tensor(ordinary, {"x": far})
    for name, values in every_tensor(made, feed).items():
        np.testing.assert_array_equal(values, inside[name])


def test_what_a_float_node_gives_is_clipped_too():
    made = model(
        """g (float[N, 4] x) => (float[N, 3] y) {
            a = MatMul (x, w)
            s = Softmax (a)
            y = MatMul (s, v)
        }""",
        w=numbers(4, 4),
        v=numbers(4, 3),
    )
    narrow = {"activation_bits": 3, "softmax_nodes": "float"}
    result = qpasses.quantize(made, numbers(20, 4) * 0.1, **narrow)
    far = {"x": numbers(20, 4, seed=5) * 50}
    stored = stored_values(result.model, far)
    assert stored.keys() == {"x_quantized", "a_quantized", "s_quantized", "y_quantized"}
    assert every_tensor(result.model, far)["s_unclipped"].max() > 7
    assert all(value.max() <= 7 for value in stored.values())
    verified = qpasses.verify(result.model, made, far["x"])
    assert verified.verdict == result.verdict == "incomplete"


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("body", ["y = Sqrt (x)", "a = Add (x, u) y = Pow (x, a)"])
def test_only_codes_that_occur_are_listed_as_undefined(body, narrow):
    made = model(f"g (float[N, 9] x, float[N, 9] u) => (float[N, 9] y) {{ {body} }}")
    options = options_of("int8", 4, narrow) | {"calibration_overrides": ["x=-4,9"]}
    data = {"x": np.abs(numbers(9, 9)), "u": np.abs(numbers(9, 9, seed=1))}
    result = qpasses.quantize(made, [data], **options)
    zero_point = recorded(result.model)["x_quantized"][1]
    (found,) = result.report["summary"]["undefined_codes"].values()
    assert found == list(range(-8 + narrow, zero_point))


# Other ways out


@pytest.mark.thinned
@codes
def test_a_qdq_model_clips_between_its_nodes(dtype, bits, narrow):
    options, integer = options_of(dtype, bits, narrow), quantized(dtype, bits, narrow)
    result = qpasses.quantize(everything(), samples(), emit="qdq", **options)
    onnx.checker.check_model(result.model)
    low, high = limits(dtype, bits, narrow)
    constants = {t.name: numpy_helper.to_array(t) for t in result.model.graph.initializer}
    nodes = result.model.graph.node
    quantizing = [node for node in nodes if node.op_type == "QuantizeLinear"]
    for node in quantizing:
        (clip,) = [each for each in nodes if node.output[0] in each.input]
        assert clip.op_type == "Clip"
        assert [int(constants[name]) for name in clip.input[1:]] == [low, high]
    assert quantizing
    far = {"x": samples(seed=4, scale=3)}
    stored, expected = (stored_codes(each.model, far) for each in (result, integer))
    assert stored.keys() == expected.keys()
    gaps = np.concatenate([np.ravel(np.abs(stored[k] - expected[k])) for k in stored])
    assert (gaps > 1).mean() < 0.01  # rounding at one tensor goes on to the next


def stored_codes(made, feed):
    return {
        name: value.astype(int)
        for name, value in every_tensor(made, feed).items()
        if name.endswith("_quantized")
    }


def test_a_standard_model_keeps_its_codes():
    made = qpasses.quantize(everything(), samples(), emit="standard", activation_bits=4).model
    integer = quantized(bits=4).model
    far = {"x": samples(seed=4, scale=30)}
    for found, expected in zip(
        session(made).run(None, far), session(integer).run(None, far), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_a_model_of_all_256_codes_says_nothing_of_bits():
    made = small(bits=8)
    texts = [entry.key for value in made.graph.value_info for entry in value.metadata_props]
    assert "qpasses.scale" in texts
    assert not {"qpasses.bits", "qpasses.narrow"} & set(texts)
    assert "x_unclipped" not in every_tensor(made, {"x": pictures()})
    four = small(bits=4)
    texts = [entry.key for value in four.graph.value_info for entry in value.metadata_props]
    assert {"qpasses.bits", "qpasses.narrow"} <= set(texts)


def test_inspect_shows_the_codes(tmp_path):
    desk = Desk(tmp_path, cnn(), pictures())
    assert desk.quantize("--activation-bits", 4, "--narrow-range").code == 0
    ended = run("inspect", desk.output, "--node", "y_quantized")
    assert ended.code == 0 and "stored 1 .. 15" in " ".join(ended.out.split())
    row = qpasses.inspect(desk.output).node("y_quantized")
    assert [each.codes for each in (*row.inputs, *row.outputs)] == 2 * [(1, 15)]
    assert desk.quantize().code == 0
    assert ", stored" not in run("inspect", desk.output, "--node", "y_quantized").out


# What verify notices


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("node", "position", "bits"),
    [("conv", 9, 4), ("add", 9, 7), ("mul", 8, 4), ("clip", 2, 7), ("x_clip", 2, 4)],
)
def test_a_clamp_beyond_the_codes_is_a_problem_of_its_node(node, position, bits):
    made = copied(quantized(bits=bits).model)
    tensor = constant_of(made, node, position)
    value = numpy_helper.to_array(tensor)
    assert value == 2**bits - 1
    tensor.CopyFrom(numpy_helper.from_array(value + np.uint8(1), tensor.name))
    report = qpasses.verify(made, everything(), samples()).report
    assert report["summary"]["verdict"] == "failed"
    problems = {each["name"]: each["problem"] for each in report["evidence"]["nodes"]}
    assert "gives codes from" in problems[node]


@pytest.mark.parametrize(("node", "position"), [("sigmoid", 1), ("prelu", 1), ("most", 2)])
def test_a_table_entry_beyond_the_codes_is_a_problem_of_its_node(node, position):
    made = copied(quantized(bits=4).model)
    tensor = constant_of(made, node, position)
    table = numpy_helper.to_array(tensor).copy()
    table.flat[-1] = 16
    tensor.CopyFrom(numpy_helper.from_array(table, tensor.name))
    report = qpasses.verify(made, everything(), samples()).report
    problems = {each["name"]: each["problem"] for each in report["evidence"]["nodes"]}
    assert "to 16, those of its tensor are 0 to 15" in problems[node]


@pytest.mark.parametrize(("key", "value"), [("bits", 5), ("narrow", True)])
def test_a_record_of_other_codes_is_noticed(key, value):
    made = copied(small())
    (entry,) = [
        each
        for info in made.graph.value_info
        if info.name == "x_quantized"
        for each in info.metadata_props
        if each.key == f"qpasses.{key}"
    ]
    entry.value = json.dumps(value)
    report = qpasses.verify(made, cnn(), pictures()).report
    assert report["summary"]["verdict"] == "failed"
    assert any("'x_quantized'" in each for each in report["summary"]["problems"])


def with_setting(made, key, value):
    copy = copied(made)
    (entry,) = [e for e in copy.metadata_props if e.key == "qpasses.configuration"]
    entry.value = json.dumps(json.loads(entry.value) | {key: value})
    return copy


@pytest.mark.parametrize(("key", "value"), [("activation_bits", 5), ("activation_bits", 8)])
def test_changed_settings_are_noticed(key, value):
    report = qpasses.verify(with_setting(small(), key, value), cnn(), pictures()).report
    assert any("unlike the recorded settings" in p for p in report["summary"]["problems"])


def test_changed_settings_in_which_a_zero_point_is_no_code_are_refused():
    made = with_setting(small(), "narrow_range", True)
    with pytest.raises(qpasses.VerificationError, match=r"'r_quantized' is unlike.*point 0"):
        qpasses.verify(made, cnn(), pictures())


@pytest.mark.parametrize(
    "wrong",
    [{"bits": 1}, {"bits": 9}, {"bits": 4.0}, {"bits": True}, {"narrow": 1}, {"bits": 3}],
)
def test_an_impossible_record_is_refused(wrong):
    entries = {"scale": 0.5, "zero_point": 9, "dtype": "uint8", "bits": 4, "narrow": False}
    Quantization(**entries)
    with pytest.raises(ValueError):
        Quantization(**entries | wrong)


# Calibration knows of them


def seen(seed=0):
    return statistics_of(np.random.default_rng(seed).laplace(size=20000).astype(np.float32))


@pytest.mark.parametrize("method", ["mse", "octav", "aciq-laplace", "entropy"])
def test_methods_choose_a_narrower_range_for_fewer_bits(method):
    widths = [threshold(method, seen(), Wanted(bits)).width for bits in (8, 4, 2)]
    assert widths[0] > widths[1] > widths[2]


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("bits", [2, 3, 8])
def test_the_expected_error_is_that_of_the_codes(bits, narrow, symmetric):
    values = np.random.default_rng(1).normal(0.3, 1, 200_000).astype(np.float32)
    settings = Settings(load_target("onnx"), **options_of("uint8", bits, narrow, symmetric))
    real = Range(-1.5, 1.5) if symmetric else Range(-1.0, 2.0)
    stored = activation_parameters(real, settings)
    levels = np.clip(np.rint(values / stored.scale) + stored.zero_point, *stored.limits)
    error = np.mean((values - (levels - stored.zero_point) * stored.scale) ** 2)
    told = expected_error(statistics_of(values), real, settings.rules.wanted)
    assert told == pytest.approx(error, rel=2e-3)


@pytest.mark.parametrize("command", ["quantize", "calibrate"])
def test_the_command_line_hands_the_bits_to_the_method(tmp_path, command):
    desk = Desk(tmp_path, cnn(), pictures(40))
    widths = []
    for bits in (8, 3):
        given = "--calibration-method", "mse", "--activation-bits", bits, "--narrow-range"
        assert getattr(desk, command)(*given).code == 0
        report = read_json(desk.report)
        assert report["configuration"]["activation_bits"] == bits
        assert report["configuration"]["narrow_range"] is True
        low, high = report["calibration"]["tensors"][0]["range"]
        widths.append(high - low)
    assert widths[1] < widths[0]


def test_a_table_is_converted_for_the_bits(tmp_path):
    table = tmp_path / "table.json"
    qpasses.calibrate(cnn(), pictures(40), table)
    found = [
        qpasses.convert_table(
            table, table_format="onnxruntime", calibration_method="mse", activation_bits=bits
        )
        for bits in (8, 4)
    ]
    assert found[0] != found[1]


def test_few_codes_are_judged_by_how_many_there_are():
    made = model(
        """g (float[N, 1, 8, 8] x) => (float[N, 2, 8, 8] y) {
            [one] a = Conv (x, w1)
            [two] b = Conv (x, w2)
            [join] y = Concat <axis = 1> (a, b)
        }""",
        w1=np.float32([[[[1]]]]),
        w2=np.float32([[[[0.1]]]]),
    )
    wide, narrow = (
        qpasses.quantize(made, pictures(), activation_bits=bits, integer_io=True).report
        for bits in (8, 4)
    )
    assert wide["warnings"] == []
    (warning,) = narrow["warnings"]
    assert "'b' uses 2 of 16 codes" in warning


# What cannot be


@pytest.mark.parametrize("given", ["1", "9", "0", "-4", "4.5", "four"])
def test_an_impossible_number_of_bits_is_named(tmp_path, given):
    desk = Desk(tmp_path, cnn(), pictures())
    assert_refused(desk.quantize("--activation-bits", given), USAGE, "--activation-bits")
    assert not desk.output.exists()


@pytest.mark.parametrize("given", [1, 9, 4.0, True, "4", None])
def test_an_impossible_number_of_bits_is_named_in_python(given):
    with pytest.raises(qpasses.UsageError, match="activation_bits: a whole number from 2"):
        qpasses.quantize(cnn(), pictures(), activation_bits=given)
    with pytest.raises(qpasses.UsageError, match="activation_bits"):
        qpasses.calibrate(cnn(), pictures(), activation_bits=given)


def test_narrow_range_is_true_or_false():
    with pytest.raises(qpasses.UsageError, match="narrow_range: True or False"):
        qpasses.quantize(cnn(), pictures(), narrow_range=1)
