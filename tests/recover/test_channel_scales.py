"""Scales of channels: what gets them, which they are, what they gain, and what is refused."""

import json

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import qpasses
from calibration import Session
from opsets.errors import ModelError, UsageError
from qpasses import integerize, verify
from qpasses.emit.overloads import with_bodies
from qpasses.ir.edges import Edges, RealSession
from qpasses.ir.metadata import PREFIX, read_record
from qpasses.ir.record import ChannelQuantization
from qpasses.recover import channel_scales, judge
from tests.support.channel_nets import BODY, channel_feeds, channel_net, channel_weights
from tests.support.fault_finding import Floats, one_off
from tests.support.small_models import every_tensor, numbers
from tests.support.stage_checks import run

PER_CHANNEL = {"activation_scales": "per-channel"}
AUTO = {"activation_scales": "auto"}
STORED = ["a_quantized", "b_quantized", "d_quantized"]
PADS = "group = 6, pads = [1, 1, 1, 1]"
ZEROS_APART = ["IntConv", "IntConvPerChannel", "LutPerChannel"]
ZEROS_ALIKE = ["IntConv", "LutPerChannel"]


def quantize(*args, **options):
    """Nothing is tried but what is asked for."""
    return qpasses.quantize(*args, **{"accuracy": "fast"} | options)


def with_channels(made):
    """The stored tensors whose channels have scales of their own."""
    tensors = read_record(made)[0].tensors
    return {n: each for n, each in tensors.items() if isinstance(each, ChannelQuantization)}


def ops(made):
    return sorted({node.op_type for node in made.graph.node if node.domain == "qpasses"})


def real(made, original, *, optimize=False):
    """``made``, run like ``original``."""
    edges = Edges.between(original, made, read_record(made)[0])
    return RealSession(Session(made, optimize=optimize, threads=1), edges)


def sqnr_db(made, original, feeds):
    ours = real(made, original)
    pairs = [(ours.run(None, feed)[0], run(original, feed)[0]) for feed in feeds]
    noise = sum(float(np.square(ours - theirs).sum()) for ours, theirs in pairs)
    return 10 * np.log10(sum(float(np.square(t).sum()) for _, t in pairs) / noise)


def check(original, feeds, **options):
    """Quantize: verified and proved, with the same integers of either bodies."""
    found = quantize(original, feeds, **options)
    assert found.verdict == "ok"
    assert all(each.proved for each in found.evidence)
    checked = verify(found.model, original, feeds[:2])
    assert checked.verdict == "ok", checked.report["summary"]["problems"]
    sessions = [
        real(found.model, original),
        real(found.model, original, optimize=True),
        real(with_bodies(found.model, "portable"), original),
    ]
    for factor in (1, 30):
        feed = {"x": feeds[-1]["x"] * np.float32(factor)}
        expected, *others = (each.run(None, feed) for each in sessions)
        for outputs in others:
            for one, other in zip(expected, outputs, strict=True):
                np.testing.assert_array_equal(one, other)
    return found


# What they gain

CLIPPED = BODY.replace("HardSwish (a)", "Clip (a, zero, six)")
SHAPES = {
    "as it is": ({}, {}, ZEROS_APART),
    "Relu6": (
        {"body": CLIPPED, "zero": np.float32(0), "six": np.float32(6)},
        {},
        ZEROS_ALIKE,
    ),
    "Relu": ({"body": BODY.replace("HardSwish", "Relu")}, {}, ZEROS_ALIKE),
    "LeakyRelu": (
        {"body": BODY.replace("HardSwish", "LeakyRelu <alpha = 0.1>")},
        {},
        ZEROS_APART,
    ),
    "Sigmoid": ({"body": BODY.replace("HardSwish", "Sigmoid")}, {}, ZEROS_ALIKE),
    "two outputs of a channel": ({"outputs": 2}, {}, ZEROS_APART),
    "strides, asymmetric pads": (
        {"body": BODY.replace(PADS, "group = 6, strides = [2, 1], pads = [0, 2, 1, 0]")},
        {},
        ZEROS_APART,
    ),
    "dilations": (
        {"body": BODY.replace(PADS, "group = 6, dilations = [1, 2], pads = [2, 0, 1, 1]")},
        {},
        ZEROS_APART,
    ),
    "auto_pad of a known size": (
        {"body": BODY.replace(PADS, 'group = 6, auto_pad = "SAME_UPPER"')},
        {},
        ZEROS_APART,
    ),
    "a depthwise Conv without bias": (
        {"body": BODY.replace("(b, e, f)", "(b, e)").replace("(x, k, c)", "(x, k)")},
        {},
        ZEROS_APART,
    ),
    "a free size": ({"size": "h"}, {}, ZEROS_APART),
    "int8": ({}, {"activation_type": "int8"}, ZEROS_APART),
    "symmetric": ({}, {"symmetric": True}, ZEROS_ALIKE),
    "symmetric int8": ({}, {"symmetric": True, "activation_type": "int8"}, ZEROS_ALIKE),
    "exact": ({}, {"exact": True}, ZEROS_APART),
    "portable": ({}, {"bodies": "portable"}, ZEROS_APART),
    "integer edges": ({}, {"integer_io": True}, ZEROS_APART),
    "sums kept": ({}, {"weight_rounding": "sum-preserving"}, ZEROS_APART),
    "weights by samples": ({}, {"weight_rounding": "second-order"}, ZEROS_APART),
    "tables of functions": ({}, {"table_ranges": "function"}, ZEROS_APART),
}


@pytest.mark.thinned
@pytest.mark.parametrize("name", SHAPES)
def test_channels_have_scales_that_are_proved_verified_and_lose_much_less(name):
    shape, options, expected = SHAPES[name]
    original, feeds = channel_net(**shape), channel_feeds()
    found = check(original, feeds, **options, **PER_CHANNEL)
    assert ops(found.model) == expected
    assert found.report["activation_scales"]["tensors"] == len(with_channels(found.model))
    plain = quantize(original, feeds, **options).model
    others = channel_feeds(4, seed=99)
    gain = sqnr_db(found.model, original, others) - sqnr_db(plain, original, others)
    assert gain > 5


NORMED = """
    [first] a = Conv <pads = [1, 1, 1, 1]> (x, k, c)
    [norm] b = InstanceNormalization (a, gamma, beta)
    [last] y = Conv (b, m)
"""


@pytest.mark.thinned
@pytest.mark.parametrize("bodies", ["onnxruntime", "portable"])
@pytest.mark.parametrize("activation_type", ["uint8", "int8"])
def test_an_instance_normalization_reads_channels_with_an_epsilon_each(
    bodies, activation_type
):
    factors = {"gamma": np.abs(numbers(6)), "beta": numbers(6, seed=3)}
    original, feeds = channel_net(NORMED, **factors), channel_feeds()
    options = {"bodies": bodies, "activation_type": activation_type}
    found = check(original, feeds, **options, **PER_CHANNEL)
    assert list(with_channels(found.model)) == ["a_quantized"]
    node = next(n for n in found.model.graph.node if n.op_type == "IntLayerNorm")
    given = {t.name: numpy_helper.to_array(t) for t in found.model.graph.initializer}
    epsilon = given[node.input[5]]
    assert epsilon.shape == (6, 1, 1) and len(np.unique(epsilon)) == 6
    plain, others = quantize(original, feeds, **options).model, channel_feeds(4, seed=99)
    assert sqnr_db(found.model, original, others) > sqnr_db(plain, original, others) + 5
    assert verify(one_off(found.model, node.input[5]), original, feeds[:1]).verdict == "failed"


@pytest.mark.thinned
@pytest.mark.parametrize("dims", [1, 3])
@pytest.mark.parametrize("bodies", ["onnxruntime", "portable"])
def test_sequences_and_volumes_have_them_too(dims, bodies):
    pads = str([1] * 2 * dims)
    original = channel_net(BODY.replace("[1, 1, 1, 1]", pads), dims=dims)
    feeds = channel_feeds(4, dims)
    found = check(original, feeds, bodies=bodies, **PER_CHANNEL)
    assert ops(found.model) == ZEROS_APART
    plain = quantize(original, feeds).model
    others = channel_feeds(3, dims, seed=99)
    assert sqnr_db(found.model, original, others) > sqnr_db(plain, original, others) + 10


def test_standard_ops_give_the_same_integers():
    original, feeds = channel_net(), channel_feeds()
    made = quantize(original, feeds, **PER_CHANNEL).model
    written = quantize(
        original, feeds, emit="standard", bodies="portable", **PER_CHANNEL
    ).model
    assert {node.domain for node in written.graph.node} == {""}
    for feed in channel_feeds(3, seed=9):
        np.testing.assert_array_equal(run(written, feed), run(made, feed))


# Which they are


def lows_and_highs(original, feeds, name):
    seen = np.concatenate([every_tensor(original, feed)[name] for feed in feeds])
    axes = tuple(axis for axis in range(seen.ndim) if axis != 1)
    return seen.min(axes).astype(float), seen.max(axes).astype(float)


@pytest.mark.parametrize("activation_type", ["uint8", "int8"])
def test_channels_hold_what_was_seen_and_a_quarter_more_within_the_range(activation_type):
    original, feeds = channel_net(), channel_feeds()
    options = {"activation_type": activation_type}
    made = quantize(original, feeds, **options, **PER_CHANNEL).model
    plain = read_record(quantize(original, feeds, **options).model)[0].tensors
    found = with_channels(made)
    assert sorted(found) == STORED
    for name, meaning in found.items():
        whole, (low, high) = plain[name], lows_and_highs(original, feeds, name[0])
        first, last = whole.type_limits
        ends = [(each - whole.zero_point) * whole.scale for each in (first, last)]
        floor, ceiling = min(ends[0], low.min()), max(ends[1], high.max())
        low = np.minimum(np.maximum(low * 1.25, floor), ends[0] / 64)
        high = np.maximum(np.minimum(high * 1.25, ceiling), ends[1] / 64)
        scale = (high - low) / 255
        assert meaning.dtype == activation_type
        np.testing.assert_allclose(meaning.scales, scale, rtol=1e-6)
        assert [*meaning.zero_points] == [first + round(v) for v in -low / scale]


def test_a_dip_that_rounds_to_zero_in_the_tensor_is_kept_in_narrow_channels():
    k = channel_weights()["k"].copy()
    k[1] *= 200  # so wide that -0.375 is less than half a step
    original, feeds = channel_net(k=k), channel_feeds()
    assert (
        read_record(quantize(original, feeds).model)[0].tensors["b_quantized"].zero_point == 0
    )
    found = with_channels(quantize(original, feeds, **PER_CHANNEL).model)["b_quantized"]
    dips = [-zero * scale for zero, scale in zip(found.zero_points, found.scales, strict=True)]
    assert dips[0] == pytest.approx(1.25 * -0.375, abs=max(found.scales[:1]))


# Held-back samples judge


def bare(made):
    """What is computed, without what is said of it."""
    copy = onnx.ModelProto()
    copy.CopyFrom(made)
    del copy.metadata_props[:]
    return copy.SerializeToString(deterministic=True)


def test_auto_takes_them_where_held_back_samples_gain(monkeypatch):
    original, feeds = channel_net(), channel_feeds(24)
    found = check(original, feeds, **AUTO)
    said = found.report["activation_scales"]
    assert (said["asked"], said["chosen"], said["tensors"]) == ("auto", "per-channel", 2)
    assert (said["held_back"], said["free_tensors"], said["reason"]) == (6, 3, "")
    assert said["sqnr_db"]["per-channel"] > said["sqnr_db"]["per-tensor"] + 10
    asked = quantize(original, feeds, **PER_CHANNEL).model
    monkeypatch.setattr(channel_scales, "GAIN_DB", 0.0)
    assert bare(asked) == bare(quantize(original, feeds, **AUTO).model)


@pytest.mark.parametrize("weight_rounding", ["nearest", "auto"])
def test_what_gains_less_than_noise_has_the_integers_of_the_default(
    monkeypatch, weight_rounding
):
    monkeypatch.setattr(judge, "NOISE_DB", 100.0)
    original = channel_net(e=channel_weights()["e"] * np.float32(1e-6))  # scales are raised
    feeds, rest = channel_feeds(24), {"weight_rounding": weight_rounding}
    found = check(original, feeds, **rest, **AUTO)
    said = found.report["activation_scales"]
    assert (said["chosen"], said["tensors"], said["free_tensors"]) == ("per-tensor", 0, 3)
    assert bare(found.model) == bare(quantize(original, feeds, **rest).model)


def test_figures_are_those_of_the_model_that_the_other_samples_make(monkeypatch):
    monkeypatch.setattr(judge, "TELLING", 0)
    original, feeds = channel_net(), channel_feeds(24)
    said = quantize(original, feeds, **AUTO).report["activation_scales"]["sqnr_db"]
    plain = quantize(original, feeds).model
    assert said["per-tensor"] == pytest.approx(sqnr_db(plain, original, feeds[::4]), abs=0.1)


@pytest.mark.parametrize("count", [1, 3])
def test_too_few_samples_judge_nothing(count):
    original, feeds = channel_net(), channel_feeds(count)
    found = check(original, feeds, **AUTO)
    assert found.report["activation_scales"] == {
        **{"asked": "auto", "chosen": "per-tensor", "tensors": 0, "free_tensors": 3},
        **{"held_back": 0, "sqnr_db": {}},
        "reason": "too few different samples to hold any back: give more",
    }
    assert bare(found.model) == bare(quantize(original, feeds).model)


def test_without_free_tensors_nothing_changes_for_a_reason():
    original = channel_net("a = Conv (x, k, c) y = Conv (a, m)")
    for asked in (AUTO, PER_CHANNEL):
        found = check(original, channel_feeds(), **asked)
        said = found.report["activation_scales"]
        assert (said["chosen"], said["free_tensors"]) == ("per-tensor", 0)
        assert said["reason"] == "every tensor is read by what sums its channels"


def test_fast_reports_nothing_and_the_default_is_what_samples_tell():
    original, feeds = channel_net(), channel_feeds(24)
    assert quantize(original, feeds).report["activation_scales"] is None
    for found in (qpasses.quantize(original, feeds), check(original, feeds, accuracy=None)):
        assert found.report["configuration"]["accuracy"] == "balanced"
        assert found.report["activation_scales"]["chosen"] == "per-channel"
        assert found.report["weight_rounding"]["asked"] == "auto"


def test_after_a_table_of_ranges_a_run_of_its_own_sees_the_same_channels():
    original, feeds = channel_net(), channel_feeds(24)
    table = qpasses.calibrate(original, feeds).table
    made = [qpasses.quantize(original, feeds, calibration_table=t) for t in (None, table)]
    assert with_channels(made[1].model)
    assert made[0].model.graph == made[1].model.graph


def test_random_samples_judge_nothing_by_default():
    found = qpasses.quantize(channel_net(), "random:24", input_shape={"x": [1, 3, 8, 8]})
    assert found.report["configuration"]["accuracy"] == "fast"
    assert found.report["activation_scales"] is found.report["weight_rounding"] is None


# What is refused

REFUSED = {
    "tflite": ({"target": "tflite"}, "target 'tflm' has one scale for a tensor"),
    "tosa": ({"target": "tosa"}, "target 'tosa' has one scale for a tensor"),
    "qdq": ({"emit": "qdq"}, "onnxruntime runs no Conv between Q/DQ nodes of channels"),
    "4 bits": ({"activation_bits": 4}, "activations have fewer codes than 256"),
    "narrow": ({"narrow_range": True}, "activations have fewer codes than 256"),
    "weights": ({"per_channel": False}, "weights have one scale for all channels"),
    "streams": ({"residual_type": "int16"}, "residual streams have 16 bits"),
}


@pytest.mark.thinned
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused_and_auto_says_why(name):
    options, reason = REFUSED[name]
    original, feeds = channel_net(), channel_feeds()
    with pytest.raises(UsageError) as caught:
        quantize(original, feeds, **options, **PER_CHANNEL)
    assert reason in str(caught.value)
    assert "(--activation-scales)" in str(caught.value)
    found = quantize(original, feeds, **options, **AUTO)
    assert found.report["activation_scales"]["reason"] == reason
    assert found.report["activation_scales"]["chosen"] == "per-tensor"
    assert bare(found.model) == bare(quantize(original, feeds, **options).model)


@pytest.mark.parametrize("asked", [PER_CHANNEL, AUTO])
def test_without_samples_nothing_is_known_of_channels(asked, tmp_path):
    original, table = channel_net(), tmp_path / "model.table"
    qpasses.calibrate(original, channel_feeds(2), table)
    with pytest.raises(UsageError, match="follows from samples: give --data"):
        quantize(original, calibration_table=table, **asked)


# Hostile originals and samples


def flat(value):
    return [{"x": np.full((1, 3, 8, 8), value, np.float32)}]


def once():
    """Samples of which one alone has anything."""
    return flat(0) * 7 + channel_feeds(1)


def of_channel(name, channel, value):
    weights = channel_weights()[name].copy()
    weights[channel] = value
    return {name: weights}


SILENT = of_channel("k", 2, 0) | of_channel("c", 2, 0)
HOSTILE = {
    "one sample": ({}, channel_feeds(1)),
    "samples alike": ({}, flat(0.5) * 6),
    "zeros": ({}, flat(0) * 6),
    "huge": ({}, flat(1e12) * 6),
    "tiny": ({}, flat(1e-30) * 6),
    "seen once": ({}, once()),
    "a constant channel": (of_channel("k", 2, 0), channel_feeds(8)),
    "a channel of zeros": (SILENT, channel_feeds(8)),
    "next to zero weights": (of_channel("k", 2, 1e-20), channel_feeds(8)),
    "next to zero weights and bias": (
        of_channel("k", 2, 1e-20) | of_channel("c", 2, 1e-20),
        channel_feeds(8),
    ),
    "denormal weights": (of_channel("k", 2, 1e-40), channel_feeds(8)),
    "a dead filter": (of_channel("e", 2, 0), channel_feeds(8)),
    "next to a dead filter": (of_channel("e", 2, 1e-20), channel_feeds(8)),
    "a large bias": (of_channel("f", 2, 1e6), channel_feeds(8)),
    "a large bias before": (of_channel("c", 2, 1e6), channel_feeds(8)),
    "large weights": (of_channel("k", 2, 1e18), channel_feeds(8)),
}


@pytest.mark.thinned
@pytest.mark.parametrize("asked", [PER_CHANNEL, AUTO], ids=["per-channel", "auto"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_channels_are_proved_and_verified(name, asked):
    weights, feeds = HOSTILE[name]
    check(channel_net(**weights), feeds, **asked)


def test_a_sample_that_is_skipped_says_nothing_of_channels():
    original, feeds = channel_net(), channel_feeds(8)
    broken = [*feeds, {"x": np.full((1, 3, 8, 8), np.nan, np.float32)}]
    for asked in (PER_CHANNEL, AUTO):
        found = quantize(original, broken, on_bad_sample="skip", **asked)
        assert bare(found.model) == bare(quantize(original, feeds, **asked).model)


def test_an_original_that_is_quantized_keeps_the_scales_that_it_gives():
    original, feeds = channel_net(), channel_feeds(8)
    given = quantize(original, feeds, emit="qdq").model
    found = integerize(given, feeds, **PER_CHANNEL)
    assert found.verdict == "ok"
    assert with_channels(found.model) == {}
    assert bare(found.model) == bare(integerize(given, feeds).model)


LEFT = {
    "an output of the graph": ({"ends": "yb"}, ["a_quantized", "d_quantized"]),
    "read by a MaxPool": (
        {
            "body": BODY.replace("(b, e, f)", "(p, e, f)")
            + "p = MaxPool <kernel_shape = [2, 2]> (b)"
        },
        ["d_quantized"],
    ),
    "read by a Conv that sums": (
        {
            "body": BODY.replace("(t, m)", "(z, m)")
            + "z1 = Conv <pads = [1, 1, 1, 1]> (b, g) z = Add (t, z1)",
            "g": numbers(6, 6, 3, 3),
        },
        ["a_quantized", "d_quantized"],
    ),
    "read by a function with steps": (
        {"body": BODY.replace("(t, m)", "(z, m)") + "r = Round (d) z = Add (t, r)"},
        ["a_quantized", "b_quantized"],
    ),
    "padded by the runtime": (
        {
            "body": BODY.replace(PADS, 'group = 6, auto_pad = "SAME_UPPER", strides = [2, 2]'),
            "size": "h",
        },
        ["a_quantized", "d_quantized"],
    ),
}


@pytest.mark.thinned
@pytest.mark.parametrize("name", LEFT)
def test_what_others_read_has_one_scale(name):
    shape, expected = LEFT[name]
    found = check(channel_net(**shape), channel_feeds(), **PER_CHANNEL)
    assert sorted(with_channels(found.model)) == expected


# Forged models


@pytest.fixture(scope="module")
def made():
    """With portable bodies: fused ones belong to their tables, no others are known."""
    return quantize(channel_net(), channel_feeds(), bodies="portable", **PER_CHANNEL).model


def problems(made):
    found = verify(made, channel_net(), channel_feeds(1))
    assert found.verdict == "failed"
    return found.report["summary"]["problems"]


def forged(made, name, change):
    """A copy that says something else of a stored tensor; ``change`` has its entries."""
    copy = onnx.ModelProto()
    copy.CopyFrom(made)
    (value,) = [each for each in copy.graph.value_info if each.name == name]
    entries = {each.key: json.loads(each.value) for each in value.metadata_props}
    change(entries)
    for each in value.metadata_props:
        each.value = json.dumps(entries[each.key])
    return copy


@pytest.mark.thinned
@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize(
    ("key", "amount"), [("scales", 0.01), ("zero_points", 1), ("zero_points", -1)]
)
def test_a_recorded_parameter_of_a_channel_that_changed_is_found(made, name, key, amount):
    def change(entries):
        old = entries[PREFIX + key][3]
        entries[PREFIX + key][3] = (
            old + amount if key == "zero_points" else float(np.float32(old * (1 + amount)))
        )

    assert problems(forged(made, name, change))


@pytest.mark.thinned
@pytest.mark.parametrize("name", ["b_quantized", "d_quantized"])
@pytest.mark.parametrize("axis", [0, 2, 3])
def test_another_axis_is_found_where_pictures_are_as_wide_as_they_have_channels(name, axis):
    feeds = [{"x": each["x"][..., :6, :6]} for each in channel_feeds()]
    original = channel_net(BODY.replace("HardSwish", "Relu"), size=6)
    made = quantize(original, feeds, bodies="portable", **PER_CHANNEL).model
    other = forged(made, name, lambda entries: entries.update({f"{PREFIX}axis": axis}))
    differences = Floats.of(made, original, feeds[0]).differences(other)
    assert any("its channels lie along 1" in each for each in differences)


def test_channels_without_an_axis_are_refused(made):
    copy = onnx.ModelProto()
    copy.CopyFrom(made)
    (value,) = [each for each in copy.graph.value_info if each.name == "a_quantized"]
    (entry,) = [each for each in value.metadata_props if each.key == f"{PREFIX}axis"]
    value.metadata_props.remove(entry)
    with pytest.raises(ModelError, match=r"metadata is damaged.*axis"):
        verify(copy, channel_net(), channel_feeds(1))


def test_settings_that_ask_for_none_are_found(made):
    copy = onnx.ModelProto()
    copy.CopyFrom(made)
    for entry in copy.metadata_props:
        if entry.key == f"{PREFIX}configuration":
            said = json.loads(entry.value) | {"activation_scales": "per-tensor"}
            entry.value = json.dumps(said)
    assert any("has scales of its channels, unlike" in each for each in problems(copy))


@pytest.mark.parametrize(
    "name", ["depthwise.x_zero", "depthwise.bias_int32", "first.bias_int32"]
)
def test_a_constant_that_changed_is_found(made, name):
    assert problems(one_off(made, name))


def test_tables_that_changed_are_found(made):
    names = [
        t.name for t in made.graph.initializer if numpy_helper.to_array(t).shape == (6, 256)
    ]
    assert len(names) == 2
    for name in names:
        assert problems(one_off(made, name))


@pytest.mark.parametrize("asked", [PER_CHANNEL, AUTO])
def test_the_same_samples_give_the_same_bytes(asked):
    first, second = (
        quantize(channel_net(), channel_feeds(), **asked).model.SerializeToString()
        for _ in range(2)
    )
    assert first == second
