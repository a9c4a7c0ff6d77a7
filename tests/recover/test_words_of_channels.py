"""Tensors of 16 bits whose channels have scales of their own: gains, proofs, refusals."""

import json
from fractions import Fraction

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import qpasses
from opsets.errors import ModelError
from opsets.qpasses_v1 import OPS
from opsets.table_rules import FAR, NEAR_OF_CHANNELS, SEEN
from qpasses.emit.overloads import with_bodies
from qpasses.evidence.prove import prove_node
from qpasses.ir.edges import codes
from qpasses.ir.function import Function
from qpasses.ir.graph import constant
from qpasses.ir.metadata import PREFIX, read_record
from qpasses.ir.record import ChannelQuantization, of_channel
from qpasses.load.integer_model import read_integer_model
from qpasses.lowering.numbers.table_entries import tabulate
from tests.recover.test_channel_scales import NORMED, real, sqnr_db
from tests.support.channel_nets import BODY, channel_feeds, channel_net, channel_weights
from tests.support.fault_finding import one_off
from tests.support.small_models import numbers

FEEDS, OTHERS = channel_feeds(), channel_feeds(4, seed=99)


def quantized(original, words, **options):
    """With these tensors in 16 bits, and scales of all channels that are free."""
    types = [f"{name}=int16" for name in words]
    given = {"accuracy": "fast", "activation_scales": "per-channel"} | options
    return qpasses.quantize(original, FEEDS, tensor_types=types, **given)


def check(original, words, **options):
    """Quantize: proved, verified, the same integers of either bodies."""
    found = quantized(original, words, **options)
    assert found.verdict == "ok" and all(each.proved for each in found.evidence)
    checked = qpasses.verify(found.model, original, FEEDS[:2])
    assert checked.verdict == "ok", checked.report["summary"]["problems"]
    sessions = [
        real(found.model, original),
        real(found.model, original, optimize=True),
        real(with_bodies(found.model, "portable"), original),
    ]
    for factor in (1, 30):
        feed = {"x": FEEDS[-1]["x"] * np.float32(factor)}
        expected, *others = (each.run(None, feed)[0] for each in sessions)
        for other in others:
            np.testing.assert_array_equal(expected, other)
    return found


def words_by_channel(made):
    """The tensors of 16 bits, and whether their channels have scales."""
    tensors = read_record(made)[0].tensors
    return {
        name.removesuffix("_quantized"): isinstance(each, ChannelQuantization)
        for name, each in tensors.items()
        if each.dtype == "int16"
    }


def ops(made):
    return [node.op_type for node in made.graph.node if node.domain == "qpasses"]


LINES, TABLES = "LutInterpolatedPerChannel", "LutPerChannel"
APART = "IntConvPerChannel"
SHAPES = {
    "what a table reads": ("HardSwish", "a", {}, ["IntConv", LINES, APART, TABLES, "IntConv"]),
    "what it writes": (
        "HardSwish",
        "b",
        {},
        ["IntConv", TABLES, "IntConv", TABLES, "IntConv"],
    ),
    "both": ("HardSwish", "ab", {}, ["IntConv", LINES, "IntConv", TABLES, "IntConv"]),
    "what a depthwise Conv writes": (
        *("HardSwish", "d", {}),
        ["IntConv", TABLES, APART, LINES, "IntConv"],
    ),
    "all": ("HardSwish", "abd", {}, ["IntConv", LINES, "IntConv", LINES, "IntConv"]),
    "a kink": (
        *("LeakyRelu <alpha = 0.1>", "abd", {}),
        ["IntConv", LINES, "IntConv", LINES, "IntConv"],
    ),
    "a Relu that a Conv takes in": (
        *("Relu", "bd", {}),
        ["IntConv", "IntConv", LINES, "IntConv"],
    ),
    "int8": (
        *("HardSwish", "ad", {"activation_type": "int8"}),
        ["IntConv", LINES, APART, LINES, "IntConv"],
    ),
    "portable": (
        *("HardSwish", "ab", {"bodies": "portable"}),
        ["IntConv", LINES, "IntConv", TABLES, "IntConv"],
    ),
    "channels first": (
        *("HardSwish", "ab", {"layout": "nchw"}),
        ["IntConv", LINES, "IntConv", TABLES, "IntConv"],
    ),
    "weights by samples": (
        *("HardSwish", "abd", {"weight_rounding": "second-order"}),
        ["IntConv", LINES, "IntConv", LINES, "IntConv"],
    ),
}


@pytest.mark.thinned
@pytest.mark.parametrize("name", SHAPES)
def test_words_of_channels_are_proved_verified_and_lose_less(name):
    curve, words, options, expected = SHAPES[name]
    original = channel_net(BODY.replace("HardSwish", curve))
    found = check(original, words, **options)
    assert ops(found.model) == expected
    assert words_by_channel(found.model) == dict.fromkeys(words, True)
    plain = quantized(original, words, activation_scales="per-tensor", **options).model
    gain = sqnr_db(found.model, original, OTHERS) - sqnr_db(plain, original, OTHERS)
    assert gain > (3 if len(words) == 1 else -0.3)  # others have no noise to lose


def test_channels_that_are_far_apart_gain_what_one_scale_loses():
    small = np.float32([1, 1000, 1e-3, 1, 1, 1]).reshape(-1, 1, 1, 1)
    weights = channel_weights()
    far = {"k": weights["k"] * small, "e": weights["e"] / small}
    original = channel_net(BODY.replace("HardSwish", "LeakyRelu <alpha = 0.1>"), **far)
    found = check(original, "ab")
    assert words_by_channel(found.model) == dict.fromkeys("ab", True)
    plain = quantized(original, "ab", activation_scales="per-tensor").model
    gain = sqnr_db(found.model, original, OTHERS) - sqnr_db(plain, original, OTHERS)
    assert gain > 10


@pytest.mark.parametrize("dims", [1, 3])
def test_sequences_and_volumes_have_them_too(dims):
    original = channel_net(BODY.replace("[1, 1, 1, 1]", str([1] * 2 * dims)), dims=dims)
    feeds = channel_feeds(4, dims)
    types = {"tensor_types": ["[ad]=int16"], "activation_scales": "per-channel"}
    made = qpasses.quantize(original, feeds, accuracy="fast", **types)
    assert made.verdict == "ok" and words_by_channel(made.model) == {"a": True, "d": True}
    assert qpasses.verify(made.model, original, feeds[:1]).verdict == "ok"


def test_a_norm_reads_them_with_an_epsilon_each():
    factors = {"gamma": np.abs(numbers(6)), "beta": numbers(6, seed=3)}
    original = channel_net(NORMED, **factors)
    found = check(original, "a")
    assert words_by_channel(found.model) == {"a": True}
    node = next(each for each in found.model.graph.node if each.op_type == "IntLayerNorm")
    assert qpasses.verify(one_off(found.model, node.input[5]), original).verdict == "failed"


def test_scales_follow_from_what_was_seen_with_the_headroom_of_words():
    original = channel_net()
    tensors = read_record(quantized(original, "d").model)[0].tensors
    scales = np.array(tensors["d_quantized"].scales)
    whole = read_record(quantized(original, "d", activation_scales="per-tensor").model)[
        0
    ].tensors["d_quantized"]
    assert tensors["d_quantized"].zero_points == (0,) * 6
    assert scales.max() == pytest.approx(whole.scale) and scales.min() < whole.scale
    assert scales.min() >= whole.scale / 1024 * (1 - 1e-6)


# Lines that are far from what they stand for


STEEP = BODY.replace("b = HardSwish (a)", "p = Abs (a) b = Sqrt (p)")


def test_tables_without_near_lines_have_one_scale_and_are_no_float_islands():
    original = channel_net(STEEP)
    found = check(original, "ab")
    assert words_by_channel(found.model) == {"a": False, "b": False}
    assert ops(found.model)[1] == "Lut16" and not found.report["summary"]["float_nodes"]


def test_lines_of_each_channel_are_as_near_as_is_asked():
    made = quantized(channel_net(), "ab").model
    read = read_integer_model(made, "made")
    node = next(each for each in read.graph.nodes if each.op == LINES)
    record = read.record
    x, y = (record.tensors[t.name] for t in (node.inputs[0], node.outputs[0]))
    function = Function.from_text(record.nodes[node.name].function)
    given = [constant(each) for each in node.inputs[1:]]
    rows = np.tile(codes(x), (6, 1))
    found = OPS[LINES].reference(rows, *given, axis=0, rounding=node.attrs["rounding"])
    for channel, row in enumerate(found.astype(np.int64)):
        table, _ = tabulate(function, of_channel(x, channel), of_channel(y, channel))
        seen = (np.abs(codes(x).astype(int)) <= SEEN) & (np.abs(table.astype(int)) <= SEEN)
        gaps = np.abs(row - table)[seen]
        assert (
            gaps.max() <= NEAR_OF_CHANNELS["int16"] or np.square(gaps).mean() <= FAR["int16"]
        )


# The checker


def with_one_more(place, index=()):
    """What adds one to the constant at an input of the node."""

    def apply(model, node):
        tensor = next(t for t in model.graph.initializer if t.name == node.input[place])
        values = numpy_helper.to_array(tensor).copy()
        values[index] += 1
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))

    return apply


def with_axis(axis):
    def apply(_model, node):
        next(each for each in node.attribute if each.name == "axis").i = axis

    return apply


def forged(made, op, change):
    copy = onnx.ModelProto()
    copy.CopyFrom(made)
    change(copy, next(each for each in copy.graph.node if each.op_type == op))
    return copy


FORGERIES = {
    "an entry": ("abd", LINES, with_one_more(1, (3, 200))),
    "the shift": ("abd", LINES, with_one_more(2)),
    "the zero point": ("abd", LINES, with_one_more(3)),
    "the lowest code": ("abd", LINES, with_one_more(4)),
    "an entry to bytes": ("a", LINES, with_one_more(1, (5, 0))),
    "the axis": ("abd", LINES, with_axis(1)),
    "an entry of bytes": ("b", TABLES, with_one_more(1, (2, 7))),
    "a multiplier": ("abd", "IntConv", with_one_more(5, 1)),
    "a shift": ("abd", "IntConv", with_one_more(6, 1)),
    "a bias": ("abd", "IntConv", with_one_more(4, 1)),
    "a multiplier to words": ("d", APART, with_one_more(5, 1)),
    "a zero point": ("d", APART, with_one_more(1, 1)),
}


def is_refused(made, original):
    """Whether it is not the model, or none at all."""
    try:
        return qpasses.verify(made, original).verdict == "failed"
    except ModelError:
        return True


@pytest.mark.thinned
@pytest.mark.parametrize("name", FORGERIES)
def test_forged_words_of_channels_are_refused(name):
    words, op, change = FORGERIES[name]
    original = channel_net()
    made = quantized(original, words).model
    assert not is_refused(made, original)
    assert is_refused(forged(made, op, change), original)


RECORDS = {
    "a scale": ("scales", lambda scales: [scales[0] * 2, *scales[1:]]),
    "a zero point": ("zero_points", lambda zeros: [1, *zeros[1:]]),
    "the type": ("dtype", lambda _dtype: "int8"),
    "the axis": ("axis", lambda axis: axis + 1),
}


@pytest.mark.thinned
@pytest.mark.parametrize("name", RECORDS)
def test_a_forged_record_of_channels_is_refused(name):
    original, copy = channel_net(), onnx.ModelProto()
    copy.CopyFrom(quantized(original, "abd").model)
    (value,) = [each for each in copy.graph.value_info if each.name == "a_quantized"]
    key, change = RECORDS[name]
    (entry,) = [each for each in value.metadata_props if each.key == f"{PREFIX}{key}"]
    entry.value = json.dumps(change(json.loads(entry.value)))
    assert is_refused(copy, original)


def test_words_that_nobody_asked_for_are_refused():
    original = channel_net()
    copy = quantized(original, "d").model
    (entry,) = [each for each in copy.metadata_props if "configuration" in each.key]
    entry.value = entry.value.replace('"d=int16"', "")
    assert is_refused(copy, original)


# Evidence


def test_a_body_that_is_wrong_for_one_code_of_one_channel_is_counted(monkeypatch):
    read = read_integer_model(quantized(channel_net(), "ab").model, "made")
    node = next(each for each in read.graph.nodes if each.op == LINES)
    right = prove_node(node, read.record)
    assert right.proved and right.kind == "exhaustive"
    assert (right.domain, right.channels) == (6 * 65536, 6)
    op, meaning, first = OPS[LINES], OPS[LINES].reference, constant(node.inputs[1])[0]

    def wrong(x, tables, *rest, **attributes):
        found = meaning(x, tables, *rest, **attributes).copy()
        found[(0, 9)] += bool((tables[0] == first).all())
        return found

    changed = op.__class__(**{**vars(op), "reference": wrong})
    monkeypatch.setitem(OPS, LINES, changed)
    assert prove_node(node, read.record).mismatches == 1


def test_multipliers_to_words_of_channels_are_the_nearest_of_each():
    made = quantized(channel_net(), "abd").model
    record, read = read_record(made)[0], read_integer_model(made, "made")
    for node in [each for each in read.graph.nodes if each.op == "IntConv"][:2]:
        ratios = record.nodes[node.name].real_scales()
        multiplier, shift = (constant(node.inputs[place]) for place in (5, 6))
        for ratio, m, s in zip(ratios, multiplier.tolist(), shift.tolist(), strict=True):
            assert abs(Fraction(ratio) - Fraction(m, 1 << s)) <= Fraction(1, 1 << (s + 1))
