"""Average pools and means by the forms of a target: node, evidence, checking."""

from itertools import product

import numpy as np
import onnx
import pytest

from opsets.fixed_point import rounding_divide
from opsets.forms import MEAN_FORMS, POOL_FORMS
from opsets.qpasses_v1 import OPS
from opsets.target import load_target
from qpasses import quantize, verify
from qpasses.ir.runtime import run_op
from qpasses.load.integer_model import read_integer_model
from qpasses.lowering.averages import MOST_COUNTED
from tests.support.conformance import each, needs_vectors
from tests.support.small_models import model, numbers

EXACT = """name = "other"
description = "one unusual rule"
multiplier_bits = 31
fast_kernels = false
"""
DIVIDED = 'average_pool = "divided"\n'
RECIPROCAL = 'average_pool = "reciprocal"\n'
NARROW = 'elementwise = "get_scale_and_shift"\nelementwise_bits = 7\n'
FOLDED = 'mean = "folded"\n'
ROUNDINGS = "half_to_even", "half_up", "half_away"


def target_of(folder, rules, rounding="half_up"):
    path = folder / "other.toml"
    path.write_text(f'{EXACT}rounding = "{rounding}"\n{rules}', "utf-8")
    return path


def network(body):
    return model(
        f"""g (float[N, 3, 7, 7] x) => (float[N, 3, p, q] y) {{
            [first] a = Conv (x, w)
            {body}
            [last] y = Conv (b, w)
        }}""",
        opset=21,
        ir_version=10,
        w=numbers(3, 3, 1, 1),
        axes=np.array([3]),
    )


def made_for(path, body, **options):
    feeds = [{"x": numbers(1, 3, 7, 7, seed=i)} for i in range(4)]
    real = network(body)
    result = quantize(real, feeds, target=path, **options)
    assert result.verdict == "ok", result.report["summary"]["because"]
    assert verify(result.model, real, feeds).verdict == "ok"
    return result


def node_of(result, name="pool"):
    return next(node for node in result.model.graph.node if node.name == name)


POOL = "[pool] b = AveragePool <kernel_shape = [3, 3]> (a)"
PADDED = "[pool] b = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (a)"
COUNTED = PADDED.replace("> (a)", ", count_include_pad = 1> (a)")
CUT = "[pool] b = AveragePool <ceil_mode = 1, kernel_shape = [2, 2], strides = [2, 2]> (a)"
WHOLE = "[pool] b = GlobalAveragePool (a)"
MEAN = "[pool] b = ReduceMean (a, axes)"
SUM = "[pool] b = ReduceSum (a, axes)"

FOLLOWED = [
    (DIVIDED, POOL, "IntCountedAveragePool"),
    (DIVIDED, PADDED, "IntCountedAveragePool"),
    (DIVIDED, WHOLE, "IntReduce"),
    (RECIPROCAL, POOL, "IntAveragePool"),
    (RECIPROCAL, PADDED, "IntCountedAveragePool"),
    (RECIPROCAL, COUNTED, "IntAveragePool"),
    (RECIPROCAL, CUT, "IntCountedAveragePool"),
    (RECIPROCAL, WHOLE, "IntGlobalAveragePool"),
    (NARROW, POOL, "IntAveragePool"),
    (NARROW, WHOLE, "IntGlobalAveragePool"),
    (FOLDED, MEAN, "IntReduce"),
    (NARROW, MEAN, "IntReduce"),
    (NARROW, SUM, "IntReduce"),
]


@pytest.mark.thinned
@pytest.mark.parametrize(("rules", "body", "op"), FOLLOWED)
@pytest.mark.parametrize("activation_type", ["uint8", "int8"])
def test_a_network_is_made_proved_and_verified(tmp_path, rules, body, op, activation_type):
    path = target_of(tmp_path, rules)
    result = made_for(path, body, activation_type=activation_type)
    (proof,) = (each for each in result.evidence if each.name == "pool")
    assert (proof.op, proof.mismatches, proof.problem) == (op, 0, "")
    assert proof.body.startswith(HELD.get(op, "onnxruntime")) and node_of(result).op_type == op
    assert result.report["summary"]["integer_only"]


@pytest.mark.thinned
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize(("rules", "body"), [(NARROW, POOL), (FOLDED, MEAN)])
def test_each_rounding_is_followed(tmp_path, rules, body, rounding):
    result = made_for(target_of(tmp_path, rules, rounding), body)
    found = {
        item.name: onnx.helper.get_attribute_value(item) for item in node_of(result).attribute
    }
    assert found["rounding"].decode() == rounding


@pytest.mark.thinned
@pytest.mark.parametrize("rules", [DIVIDED, RECIPROCAL])
@pytest.mark.parametrize(
    "body", [POOL, PADDED, WHOLE, POOL + "[clamp] c = Relu (b) [again] b2 = Abs (c)"]
)
def test_input_and_output_share_one_scale(tmp_path, rules, body):
    if "Abs" in body:
        body = body.replace("b = Average", "p = Average").replace("(b)", "(p)")
        body = body.replace("b2 =", "b =")
    result = made_for(target_of(tmp_path, rules), body)
    stored = read_integer_model(result.model, "made").record.tensors
    ends = [stored[f"{name}_quantized"] for name in ("a", "c" if "Relu" in body else "b")]
    assert ends[0] == ends[1]


def test_a_pool_of_two_scales_stays_float_and_says_why(tmp_path):
    path = target_of(tmp_path, DIVIDED)
    feeds = [{"x": numbers(1, 3, 7, 7, seed=i)} for i in range(4)]
    result = quantize(network(POOL), feeds, target=path, alignment="tpu-mlir")
    (left,) = (
        each for each in result.report["summary"]["float_nodes"] if each["name"] == "pool"
    )
    assert "needs input and output of one scale and zero point" in left["reason"]


@pytest.mark.parametrize(
    ("rules", "body"),
    [(FOLDED, MEAN), (NARROW, PADDED), (RECIPROCAL, WHOLE)],
)
def test_a_size_that_varies_has_no_one_multiplier(tmp_path, rules, body):
    real, feeds = network(body), [{"x": numbers(1, 3, 7, 7, seed=i)} for i in range(4)]
    real.graph.input[0].type.tensor_type.shape.dim[3].dim_param = "W"
    result = quantize(real, feeds, target=target_of(tmp_path, rules))
    (left,) = (
        each for each in result.report["summary"]["float_nodes"] if each["name"] == "pool"
    )
    assert "another multiplier for each" in left["reason"]


HELD = {"IntCountedAveragePool": "portable"}
"""Ops without a fast body."""

TAMPERED = [
    (DIVIDED, PADDED, "multiplier", 2),
    (DIVIDED, PADDED, "x_zero", 1),
    (RECIPROCAL, POOL, "multiplier", 1908874354),
    (RECIPROCAL, PADDED, "multiplier", 1),
    (RECIPROCAL, PADDED, "x_zero", 1),
    (NARROW, POOL, "shift", 4),
    (FOLDED, MEAN, "multiplier", 5),
]


@pytest.mark.thinned
@pytest.mark.parametrize(("rules", "body", "name", "value"), TAMPERED)
def test_a_changed_number_is_found(tmp_path, rules, body, name, value):
    path = target_of(tmp_path, rules)
    feeds = [{"x": numbers(1, 3, 7, 7, seed=i)} for i in range(4)]
    result = quantize(network(body), feeds, target=path)
    changed = onnx.ModelProto.FromString(result.model.SerializeToString())
    node = next(each for each in changed.graph.node if each.name == "pool")
    place = list(OPS[node.op_type].inputs).index(name)
    old = next(each for each in changed.graph.initializer if each.name == node.input[place])
    array = onnx.numpy_helper.to_array(old)
    new = onnx.numpy_helper.from_array(np.full_like(array, value), "changed")
    changed.graph.initializer.append(new)
    node.input[place] = "changed"
    assert verify(changed, network(body), feeds).verdict == "failed"


# What other systems computed, through reference and bodies


def through(op, inputs, attributes):
    """What the reference and every portable body that accepts the node give, if it is one."""
    expected = OPS[op].reference(*inputs, **attributes)
    constants = dict(zip(OPS[op].inputs, inputs, strict=True))
    bodies = [
        body
        for body in OPS[op].bodies
        if body.flavour == "portable" and body.accepts(constants, attributes)
    ]
    for body, optimize in product(bodies, (False, True)):
        found = run_op(op, body.overload, inputs, attributes, optimize=optimize)
        np.testing.assert_array_equal(found, expected)
    assert bodies
    return expected


def reference(case):
    return case["expected_all"] if "expected_all" in case else case["expected"]["ref"]


def counted(x, kernel, stride, pads, low=-128, x_zero=0, y_zero=0):
    """TFLite's average of stored int8, zero points left in, or TOSA's: [N, C, H, W]."""
    zeros = (np.int8(y_zero), np.int8(low), np.int8(127))
    pair = np.array(2, np.int32), np.array(1, np.int32)
    window = {"kernel_shape": list(kernel), "pads": list(pads), "uncounted_pads": list(pads)}
    window |= {"strides": [stride] * 2, "dilations": [1, 1], "channels": x.shape[1]}
    return through(
        "IntCountedAveragePool",
        [x, np.int8(x_zero), *pair, *zeros],
        {**window, "rounding": "half_away"},
    )


@needs_vectors
@each("tflite_average_pool_2d", "cases")
def test_tflites_averages_are_reproduced(case):
    y, p = case["tensors"][1], case["params"]
    images = np.moveaxis(np.array(case["feeds"][0], np.int8), 3, 1)
    pads = [0] * 4
    if p["padding"] == "SAME":
        for axis in (0, 1):
            size, stride = images.shape[axis + 2], p["stride"]
            missing = max((-(-size // stride) - 1) * stride + p["k"][axis] - size, 0)
            pads[axis], pads[axis + 2] = missing // 2, missing - missing // 2
    low = y["zp"] if p["fused_act"] == "RELU" else -128
    found = np.moveaxis(counted(images, p["k"], p["stride"], pads, low), 1, 3)
    assert found.ravel().tolist() == np.ravel(reference(case)).tolist()


@needs_vectors
@each("c_ops", "avgpool")
def test_cmsis_averages_are_reproduced(case):
    images = np.moveaxis(np.array(case["x"], np.int8), 3, 1)
    found = counted(images, case["kernel"], case["stride"], [case["pad"]] * 4)
    assert np.moveaxis(found, 1, 3).ravel().tolist() == np.ravel(case["cmsis"]).tolist()


@needs_vectors
@each("tosa_ops", "cases", lambda r: r["op"] == "avg_pool2d" and not any(r["pad"]))
def test_tosas_averages_are_reproduced(case):
    images, cells = (
        np.moveaxis(np.array(case["x"], np.int8), 3, 1),
        int(np.prod(case["kernel"])),
    )
    target = load_target("tosa")
    pair = POOL_FORMS["reciprocal"].numbers(1, cells, target)
    zeros = np.int8(case["in_zp"]), np.int8(case["out_zp"])
    window = {"kernel_shape": case["kernel"], "strides": [case["stride"]] * 2, "pads": [0] * 4}
    window |= {"dilations": [1, 1], "channels": images.shape[1], "rounding": "half_up"}
    scale = [np.array([each], np.int32) for each in pair]
    ends = zeros[1], np.int8(-128), np.int8(127)
    found = through("IntAveragePool", [images, zeros[0], *scale, *ends], window)
    assert np.moveaxis(found, 1, 3).ravel().tolist() == np.ravel(case["y"]).tolist()


@needs_vectors
@each("tosa_ops", "cases", lambda r: r["op"] == "avg_pool2d")
def test_tosas_averages_are_divisions_ties_away_from_zero(case):
    images = np.moveaxis(np.array(case["x"], np.int8), 3, 1)
    top, bottom, left, right = case["pad"]
    zeros = {"x_zero": case["in_zp"], "y_zero": case["out_zp"]}
    pads = [top, left, bottom, right]
    found = counted(images, case["kernel"], case["stride"], pads, **zeros)
    assert np.moveaxis(found, 1, 3).ravel().tolist() == np.ravel(case["y"]).tolist()


COUNTS = sorted({*range(1, 130), *(2**k + d for k in range(7, 21) for d in (-1, 0, 1))})


@pytest.mark.parametrize("cells", [each for each in COUNTS if each <= MOST_COUNTED])
def test_a_reciprocal_is_a_division_ties_away_from_zero(cells):
    """Around every tie, and at the ends of what 255 levels sum up to."""
    ties = np.arange(-509, 510, 2) * cells // 2
    sums = np.concatenate(
        [ties + step for step in range(-2, 3)] + [[-255 * cells, 255 * cells]]
    )
    sums = np.clip(sums, -255 * cells, 255 * cells)
    form, target = POOL_FORMS["reciprocal"], load_target("tosa")
    found = form.levels(sums, cells, form.numbers(1, cells, target), "half_up")
    assert (found == rounding_divide(sums, cells, "half_away")).all()


@needs_vectors
@each("tflite_mean", "cases")
def test_tflites_means_are_reproduced(case):
    x, y = (t for t in case["tensors"] if t["role"] in ("in0", "out"))
    axes, target = case["params"]["axes"], load_target("tflite")
    stored = np.array(case["feeds"][0], np.int8)
    cells = int(np.prod([stored.shape[axis] for axis in axes]))
    pair = MEAN_FORMS["folded"].numbers(x["scale"][0] / y["scale"][0], cells, target)
    scale = [np.array(each, np.int32) for each in pair]
    ends = [np.int8(value) for value in (y["zp"], -128, 127)]
    attributes = {
        "axes": [axis - stored.ndim for axis in axes],
        "keepdims": int(case["params"]["keep_dims"]),
        "mean": 2,
        "rounding": "tflite_double",
    }
    found = through("IntReduce", [stored, np.int8(x["zp"]), *scale, *ends], attributes)
    assert found.ravel().tolist() == np.ravel(reference(case)).tolist()


def test_a_pool_with_gaps_that_a_target_declines_runs_in_float():
    """onnxruntime would fuse it into a kernel without dilations, which no session loads."""
    made = model(
        """g (float[3, 4, 6, 4] x) => (float[A, B, C, D] y) {
            [pool] y = AveragePool <count_include_pad = 1, dilations = [1, 2],
                kernel_shape = [3, 2], pads = [2, 0, 1, 0]> (x) }""",
        opset=19,
    )
    given = [{"x": numbers(3, 4, 6, 4)}]
    result = quantize(made, given, target="litert")
    left = [each["name"] for each in result.report["summary"]["float_nodes"]]
    assert left == ["pool", "pool_apart"]
    assert verify(result.model, made, given).verdict == "incomplete"
