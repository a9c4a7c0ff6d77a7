"""What the options of a quantization mean in numbers: types, scales, zero points, widths."""

from functools import cache

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper

import qpasses
from tests.support.commands import Desk, read_json
from tests.support.small_models import (
    every_tensor,
    model,
    numbers,
    one_conv,
    pictures,
    recorded,
    save,
    session,
)

CHAIN = """
chain (float[N, 1, 8, 8] x) => (float[N, 3, 4, 4] y) {
    [first] a = Conv (x, w1, b1)
    [relu] r = Relu (a)
    [second] y = Conv (r, w2, b2)
}"""
"""Three tensors with a range of their own: x, r and y."""

FORMS = [("uint8", False), ("uint8", True), ("int8", False), ("int8", True)]
"""Activation type, and whether ranges are symmetric."""


@cache
def chain():
    weights = {"w1": numbers(4, 1, 3, 3), "b1": numbers(4), "w2": numbers(3, 4, 3, 3)}
    return model(CHAIN, **weights, b2=numbers(3))


@cache
def quantized(**options):
    return qpasses.quantize(chain(), pictures(), **options)


def constants(result):
    made = result.model
    return {each.name: numpy_helper.to_array(each) for each in made.graph.initializer}


def node_called(name, result):
    (node,) = [node for node in result.model.graph.node if node.name == name]
    return node


def argument(result, node_name, position):
    return constants(result)[node_called(node_name, result).input[position]]


def evidence(result):
    return {node["name"]: node for node in result.report["evidence"]["nodes"]}


def assert_proved_and_verified(result, made, data):
    assert result.verdict == "ok"
    verified = qpasses.verify(result.model, made, data)
    assert verified.report["summary"]["problems"] == []
    assert verified.verdict == "ok"


def expected_parameters(values, dtype, symmetric):
    """Scale and zero point of real ``values`` as the documentation has them."""
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    if symmetric:
        return np.float32(max(-low, high) / 127), 128 if dtype == "uint8" else 0
    scale = np.float32((high - low) / 255)
    return scale, round(-low / float(scale)) - (0 if dtype == "uint8" else 128)


# Activations


@pytest.mark.parametrize(("dtype", "symmetric"), FORMS)
def test_scales_and_zero_points_follow_from_the_observed_ranges(dtype, symmetric):
    result = quantized(activation_type=dtype, symmetric=symmetric)
    seen = {"x": pictures(), **every_tensor(chain(), {"x": pictures()})}
    for name in ("x", "r", "y"):
        scale, zero_point = recorded(result.model)[f"{name}_quantized"]
        expected = expected_parameters(seen[name], dtype, symmetric)
        assert zero_point == expected[1]
        assert scale == pytest.approx(expected[0], rel=1e-6)  # runs differ in the last bit
        assert scale == np.float32(scale)
        if name != "r":
            edge = "x_quantize" if name == "x" else "y_dequantize"
            assert argument(result, edge, 1) == scale
            assert argument(result, edge, 2) == zero_point


@pytest.mark.parametrize(("dtype", "symmetric"), FORMS)
def test_every_activation_is_stored_in_the_chosen_type_by_fast_bodies(dtype, symmetric):
    result = quantized(activation_type=dtype, symmetric=symmetric)
    stored = every_tensor(result.model, {"x": pictures()})
    assert {value.dtype.name for name, value in stored.items() if name != "y"} == {dtype}
    assert all(each["body"].startswith("onnxruntime") for each in evidence(result).values())
    assert_proved_and_verified(result, chain(), pictures())


@pytest.mark.parametrize("symmetric", [False, True])
def test_int8_is_as_accurate_as_uint8(symmetric):
    outputs = [
        session(quantized(activation_type=dtype, symmetric=symmetric).model).run(
            None, {"x": pictures()}
        )[0]
        for dtype in ("uint8", "int8")
    ]
    np.testing.assert_array_equal(*outputs)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_range_on_one_side_of_zero_puts_the_zero_point_at_the_end(dtype, sign):
    made = model("g (float[N, 4] x) => (float[N, 3] y) { y = MatMul (x, w) }", w=numbers(4, 3))
    data = sign * (np.abs(numbers(8, 4)) + 1)
    result = qpasses.quantize(made, data, activation_type=dtype)
    ends = np.iinfo(dtype)
    scale, zero_point = recorded(result.model)["x_quantized"]
    assert zero_point == (ends.min if sign > 0 else ends.max)
    assert scale == np.float32(np.abs(data).max() / 255)


def test_symmetric_ranges_use_the_codes_from_minus_127_to_127():
    result = quantized(activation_type="int8", symmetric=True)
    codes = every_tensor(result.model, {"x": pictures()})["x_quantized"]
    assert np.abs(codes.astype(int)).max() == 127


# Weights


def channel_scales(weights, axis=0):
    columns = np.moveaxis(weights, axis, 0).reshape(weights.shape[axis], -1)
    return (np.abs(columns).max(axis=1).astype(np.float64) / 127).astype(np.float32)


@pytest.mark.parametrize("per_channel", [True, False])
def test_weights_and_biases_are_stored_at_the_scale_of_the_largest_weight(per_channel):
    result = quantized(per_channel=per_channel)
    for name, x, w, b in (("first", "x", "w1", "b1"), ("second", "r", "w2", "b2")):
        initial = {each.name: each for each in chain().graph.initializer}
        weights, bias = (numpy_helper.to_array(initial[key]) for key in (w, b))
        scale = channel_scales(weights)
        if not per_channel:
            scale = np.broadcast_to(scale.max(), scale.shape)
        wide = scale.astype(np.float64)
        stored = np.rint(weights / wide.reshape(-1, 1, 1, 1))
        np.testing.assert_array_equal(argument(result, name, 2), stored)
        assert argument(result, name, 2).dtype == np.int8
        steps = recorded(result.model)[f"{x}_quantized"][0] * wide
        np.testing.assert_array_equal(argument(result, name, 4), np.rint(bias / steps))


def test_without_per_channel_each_node_has_one_multiplier():
    result = quantized(per_channel=False)
    for name, x, y, w in (("first", "x", "r", "w1"), ("second", "r", "y", "w2")):
        multiplier, shift = argument(result, name, 5), argument(result, name, 6)
        assert multiplier.size == shift.size == 1
        initial = {each.name: each for each in chain().graph.initializer}
        w_scale = channel_scales(numpy_helper.to_array(initial[w])).max()
        scales = recorded(result.model)
        real = scales[f"{x}_quantized"][0] * float(w_scale) / scales[f"{y}_quantized"][0]
        assert multiplier[0] / 2.0 ** shift[0] == pytest.approx(real, rel=2**-13)
    assert argument(quantized(), "first", 5).size == 4
    assert_proved_and_verified(result, chain(), pictures())


def test_per_channel_is_the_more_accurate_where_channels_differ_in_size():
    weights = numbers(4, 1, 3, 3) * np.array([1, 10, 100, 1000]).reshape(4, 1, 1, 1)
    made = one_conv(weights, numbers(4), after="y = Mul (c, even)", even=_even_out())
    by_channel, by_tensor = (
        qpasses.quantize(made, pictures(), per_channel=each).report["accuracy"]["outputs"][0]
        for each in (True, False)
    )
    assert by_channel["sqnr_db"] > by_tensor["sqnr_db"]


def _even_out():
    return np.array([1000, 100, 10, 1], np.float32).reshape(1, 4, 1, 1)


@pytest.mark.parametrize("dead", [False, True])
def test_a_huge_bias_raises_the_one_scale_and_is_listed(dead):
    weights = numbers(4, 1, 3, 3)
    if dead:
        weights[2] = 0
    made = one_conv(weights, [0, 1, 3e7, 2])
    result = qpasses.quantize(made, pictures(), per_channel=False)
    assert result.report["summary"]["raised_weight_scales"] == {"conv": [2]}
    bias = argument(result, "conv", 4)
    assert abs(int(bias[2]) - (1 << 30)) < 1 << 12
    assert bias[0] == 0
    assert_proved_and_verified(result, made, pictures())


def test_a_dead_channel_raises_nothing_where_its_bias_fits():
    weights = numbers(4, 1, 3, 3)
    weights[1] = 0
    made = one_conv(weights, numbers(4))
    result = qpasses.quantize(made, pictures(), per_channel=False)
    assert result.report["summary"]["raised_weight_scales"] == {}
    assert not argument(result, "conv", 2)[1].any()
    assert_proved_and_verified(result, made, pictures())


@pytest.mark.parametrize("size", [0, 5])
def test_weights_that_are_zero_throughout_have_one_scale_too(size):
    made = one_conv(np.zeros((4, 1, 3, 3)), [size] * 4)
    result = qpasses.quantize(made, pictures(), per_channel=False)
    assert_proved_and_verified(result, made, pictures())
    (found,) = session(result.model).run(None, {"x": pictures()})
    np.testing.assert_allclose(found, size, atol=size / 255)


# Widths of multipliers, and bodies

SUMS = """
sums (float[N, 1, 8, 8] x) => (float[N, 4, 1, 1] y) {
    [first] a = Conv (x, w1, b1)
    [second] b = Conv (x, w2)
    [sum] s = Add (a, b)
    [mean] y = GlobalAveragePool (s)
}"""


@cache
def sums():
    weights = {"w1": numbers(4, 1, 3, 3), "b1": numbers(4), "w2": numbers(4, 1, 3, 3, seed=1)}
    return model(SUMS, **weights)


@cache
def summed(**options):
    return qpasses.quantize(sums(), pictures(), **options)


def multipliers(result):
    return np.concatenate(
        [
            values.ravel()
            for name, values in constants(result).items()
            if name.endswith(("multiplier", "_multiplier"))
        ]
    )


def test_exact_multipliers_have_31_bits_which_double_holds():
    exact = summed(exact=True)
    widest = argument(exact, "first", 5)
    assert widest.min() >= 1 << 30
    assert argument(summed(), "first", 5).max() < 1 << 24
    assert multipliers(exact).max() > 1 << 24
    assert evidence(exact)["first"]["body"] == "onnxruntime_double"
    assert exact.report["target"] == "exact"
    assert exact.report["summary"]["fast_mac_share"] == 1
    assert_proved_and_verified(exact, sums(), pictures())


def test_exact_moves_fewer_accumulators_against_real_arithmetic_than_24_bits_do():
    made = model(
        "g (float[N, 512] x) => (float[N, 16] y) { y = MatMul (x, w) }", w=numbers(512, 16)
    )
    exact, plain = (
        qpasses.quantize(made, numbers(8, 512), exact=each).report["evidence"]["nodes"][0]
        for each in (True, False)
    )
    assert exact["domain"] == plain["domain"]
    assert exact["reference_moved"] == 0
    assert plain["reference_moved"] > 0


def test_exact_is_short_for_a_target():
    by_name = summed(target="exact")
    assert by_name.model == summed(exact=True).model
    assert by_name.model == summed(target="exact", exact=True).model


@pytest.mark.parametrize("name", ["mine", "onnx"])
def test_exact_beside_another_target_is_a_conflict(tmp_path, name):
    rules = f'name = "{name}"', 'description = ""', "multiplier_bits = 16"
    path = save(tmp_path, "mine.toml", "\n".join([*rules, 'rounding = "half_up"']).encode())
    message = Desk(tmp_path, sums(), pictures()).refused("--exact", "--target", path)
    assert "exact" in message
    assert name in message


def test_portable_bodies_mean_the_same_as_the_default_ones():
    portable, default = summed(bodies="portable"), summed()
    assert {each["body"] for each in evidence(portable).values()} == {"portable"}
    fast = {each["body"] for each in evidence(default).values()}
    assert fast == {"onnxruntime", "onnxruntime_pool"}
    assert constants(portable).keys() == constants(default).keys()
    for name, values in constants(default).items():
        np.testing.assert_array_equal(constants(portable)[name], values)
    feed = {"x": pictures()}
    found = [session(each.model).run(None, feed)[0] for each in (portable, default)]
    np.testing.assert_array_equal(*found)
    assert_proved_and_verified(portable, sums(), pictures())


def test_exact_multipliers_in_portable_bodies():
    portable, default = summed(bodies="portable", exact=True), summed(exact=True)
    assert {each["body"] for each in evidence(portable).values()} == {"portable"}
    assert portable.report["summary"]["fast_mac_share"] == 0
    for name, values in constants(default).items():
        np.testing.assert_array_equal(constants(portable)[name], values)
    assert_proved_and_verified(portable, sums(), pictures())


# All of them together, and what is no option


def test_options_are_reported_and_recorded(tmp_path):
    desk = Desk(tmp_path, chain(), pictures())
    options = "--no-per-channel", "--activation-type", "int8", "--symmetric", "--exact"
    ended = desk.quantize(*options, "--weight-type", "int8", "--calibration-method", "minmax")
    assert ended.code == 0, ended.err
    expected = {
        "per_channel": False,
        "activation_type": "int8",
        "weight_type": "int8",
        "symmetric": True,
        "calibration_method": "minmax",
        "bodies": "onnxruntime",
        "emit": "integer",
        "integer_io": False,
    }
    configuration = read_json(desk.report)["configuration"]
    assert configuration | expected == configuration
    shown = ended.out.splitlines()[1].split(", ")
    assert {"activation-type int8", "no-per-channel", "symmetric", "exact"} <= {*shown}
    assert not any(each.startswith(("weight-type", "calibration")) for each in shown)
    assert desk.verify().code == 0
    alike = qpasses.quantize(
        chain(),
        pictures(),
        per_channel=False,
        activation_type="int8",
        symmetric=True,
        exact=True,
    )
    assert alike.model.SerializeToString(deterministic=True) == desk.output.read_bytes()


UNKNOWN = {
    "activation-type": ("int4", "uint8"),
    "weight-type": ("uint8", "int8"),
    "calibration-method": ("median", "minmax"),
    "bodies": ("fast", "portable"),
    "emit": ("tflite", "qdq"),
    "target": ("onxx", "onnx"),
}


@pytest.mark.parametrize("option", UNKNOWN)
def test_an_unknown_value_is_named_with_those_that_are_known(tmp_path, option):
    value, known = UNKNOWN[option]
    message = Desk(tmp_path, chain(), pictures()).refused(f"--{option}", value)
    for words in (option, value, known):
        assert words in message


@pytest.mark.parametrize("option", UNKNOWN)
def test_an_unknown_value_is_refused_from_python_too(option):
    value, known = UNKNOWN[option]
    with pytest.raises(qpasses.UsageError, match=f"{value}.*{known}"):
        qpasses.quantize(chain(), pictures(), **{option.replace("-", "_"): value})


def test_stored_tensors_are_declared_in_the_chosen_type():
    graph = quantized(activation_type="int8").model.graph
    declared = {value.name: value.type.tensor_type.elem_type for value in graph.value_info}
    stored = {name: kind for name, kind in declared.items() if name.endswith("_quantized")}
    assert set(stored.values()) == {TensorProto.INT8}
