"""Weights that samples choose: kept in the record, verified by their digest, never worse."""

import json
from io import StringIO

import numpy as np
import onnx
import pytest
from onnx.numpy_helper import to_array
from rich.console import Console

import qpasses
from opsets.errors import UsageError
from qpasses import integerize, verify
from qpasses.ir.metadata import PREFIX
from qpasses.ir.model_nodes import nested_graphs
from qpasses.ir.record import digest_of
from qpasses.recover import judge, on_samples, round_weights
from qpasses.recover.judge import gains
from qpasses.recover.round_weights import UNROUNDED
from qpasses.report.terminal import print_report
from tests.support.fault_finding import one_off
from tests.support.small_models import model as small
from tests.support.stage_checks import net, run

SECOND = {"weight_rounding": "second-order"}


def quantize(*args, **options):
    """Without what accuracy is by default, but for the ``options``."""
    return qpasses.quantize(*args, **{"accuracy": "fast"} | options)


BODY = """
    a = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, k, c)
    b = Relu (a)
    d = Conv <kernel_shape = [3, 3], group = 6> (b, e)
    f = Flatten (d)
    g = Gemm (f, m, n)
    h = Tanh (g)
    y = MatMul (h, s)
"""


def numbers():
    rng = np.random.default_rng(3)
    shapes = {
        **{"k": (6, 4, 3, 3), "c": (6,), "e": (6, 1, 3, 3)},
        **{"m": (96, 8), "n": (8,), "s": (8, 5)},
    }
    return {
        name: rng.normal(0.02, 0.2, shape).astype(np.float32) for name, shape in shapes.items()
    }


def smooth(count):
    """Pictures whose neighbours are alike."""
    rng = np.random.default_rng(7)
    return [
        {"x": np.cumsum(rng.standard_normal((1, 4, 6, 6)), axis=3).astype(np.float32)}
        for _ in range(count)
    ]


@pytest.fixture(scope="module")
def model():
    return net([1, 4, 6, 6], BODY, **numbers())


@pytest.fixture(scope="module")
def made(model):
    return quantize(model, smooth(20), **SECOND)


def noise(integer, model, feeds):
    return sum(
        float(np.square(run(integer, each)[0] - run(model, each)[0]).sum()) for each in feeds
    )


def test_weights_that_samples_choose_are_verified_and_lose_less(model, made):
    plain = quantize(model, smooth(20)).model
    found = verify(made.model, model, smooth(4))
    assert made.verdict == found.verdict == "ok"
    assert found.report["checks"]["float_graph"]["chosen_weights"] == 4
    assert noise(made.model, model, smooth(30)) < noise(plain, model, smooth(30))


def test_the_same_samples_choose_the_same_weights(model, made):
    again = quantize(model, smooth(20), **SECOND).model
    assert again.SerializeToString() == made.model.SerializeToString()


def test_where_moments_are_many_what_follows_sees_what_was_chosen_before(model, monkeypatch):
    monkeypatch.setattr(on_samples, "AT_ONCE", 1)
    made, plain = (quantize(model, smooth(20), **each).model for each in (SECOND, {}))
    assert verify(made, model, smooth(4)).verdict == "ok"
    assert noise(made, model, smooth(30)) < noise(plain, model, smooth(30))


def shown(found):
    written = StringIO()
    print_report(Console(file=written, width=400), found.report, verbose=True)
    return written.getvalue()


def test_weights_of_too_many_inputs_keep_their_sums(model, monkeypatch):
    monkeypatch.setattr(round_weights, "WIDEST", 8 * 36**2)
    found = quantize(model, smooth(20), **SECOND)
    (name,) = found.report["weight_rounding"]["too_wide"]
    assert f"second-order, of 4 nodes; too wide for it, with sums kept: {name}" in shown(found)
    second = found.model
    sums = quantize(model, smooth(20), weight_rounding="sum-preserving").model
    assert verify(second, model, smooth(4)).verdict == "ok"
    both = [{t.name: t for t in each.graph.initializer} for each in (second, sums)]
    names = [name for name in both[0] if name.endswith("weight_int8")]
    alike = [both[0][name].raw_data == both[1][name].raw_data for name in names]
    assert alike == [False, False, True, False]  # of the Gemm, which reads 96 numbers


PLAIN = """g (float[1, 4, 6, 6] x, bool on) => (float[1, 5] y) {{ {} }}"""
BRANCHES = """g (float[1, 4, 6, 6] x, bool on) => (float[1, 5] y) {{
    y = If (on) <
        then_branch = yes () => (float[1, 5] y1) {{ {} }},
        else_branch = no () => (float[1, 5] z) {{ z = Gemm (row, q) }}
    >
}}"""
TURNS = """g (float[1, 8] x, int64 n) => (float[1, 8] y) {
    y = Loop (n, "", x) <body = turn
        (int64 i, bool on, float[1, 8] s) => (bool off, float[1, 8] t)
        { off = Identity (on) p = MatMul (s, w) t = Tanh (p) }>
}"""


def chosen(text, feeds, **constants):
    """The integer model, and its weights by what they are called at the end."""
    original = small(text, **constants)
    made = quantize(original, feeds, **SECOND).model
    assert verify(made, original, feeds[:4]).verdict == "ok"
    found = {
        each.name.rpartition("/")[2]: to_array(each)
        for graph in nested_graphs(made.graph)
        for each in graph.initializer
        if each.name.endswith("weight_int8")
    }
    return original, found


def test_weights_of_a_branch_are_chosen_as_those_outside():
    nodes = BODY.replace("[3, 3], g", "[3, 3], pads = [1, 1, 1, 1], g")
    given = {**numbers(), "m": np.resize(numbers()["m"], (216, 8))}
    other = {"row": np.ones((1, 2), np.float32), "q": np.ones((2, 5), np.float32)}
    feeds = [{**each, "on": np.array(True)} for each in smooth(20)]
    _, plain = chosen(PLAIN.format(nodes), feeds, **given)
    inner = nodes.replace("y =", "y1 =")
    _, inside = chosen(BRANCHES.format(inner), feeds, **given, **other)
    assert len(plain) == 4
    for name, codes in plain.items():
        assert np.array_equal(codes, inside[name]), name


def test_weights_of_a_loop_are_chosen_on_all_its_iterations():
    rng = np.random.default_rng(5)
    mixed = rng.standard_normal((8, 8)) / 9  # inputs that go together
    feeds = [
        {"x": (rng.standard_normal((1, 8)) @ mixed).astype(np.float32), "n": np.array(k % 4)}
        for k in range(24)
    ]
    weights = rng.standard_normal((8, 8)).astype(np.float32)
    original, second = chosen(TURNS, feeds, w=weights)
    plain = quantize(original, feeds, weight_rounding="sum-preserving").model
    (codes,) = second.values()
    (kept,) = (
        to_array(t)
        for g in nested_graphs(plain.graph)
        for t in g.initializer
        if t.name.endswith("weight_int8")
    )
    assert not np.array_equal(codes, kept)


def test_a_changed_weight_is_found_and_so_is_a_changed_digest(model, made):
    names = [t.name for t in made.model.graph.initializer if t.name.endswith("weight_int8")]
    for name in names:
        (problem,) = problems(one_off(made.model, name), model)
        assert "are not those that its record has the digest of" in problem
    forged = changed(made.model, "weights", lambda text: text[::-1])
    assert len(problems(forged, model)) == 4
    dropped = changed(made.model, "weights", lambda text: "")
    assert len(problems(dropped, model)) == 4


def test_weights_two_codes_away_are_found_even_with_their_digest(model, made):
    forged = onnx.ModelProto()
    forged.CopyFrom(made.model)
    node = next(n for n in forged.graph.node if n.op_type == "IntGemm")
    (tensor,) = [t for t in forged.graph.initializer if t.name == node.input[2]]
    values = onnx.numpy_helper.to_array(tensor).copy()
    values[0, 0] += 5 if values[0, 0] < 0 else -5
    tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    for entry in node.metadata_props:
        if entry.key == PREFIX + "weights":
            entry.value = json.dumps(digest_of(values))
    assert any(
        "1 of its weights are two codes or more" in each for each in problems(forged, model)
    )


def test_no_weights_are_chosen_where_that_was_not_asked(model, made):
    forged = changed(made.model, None, None, weight_rounding="nearest")
    assert all("of its weights, not 'nearest'" in each for each in problems(forged, model))


def problems(integer, model):
    found = verify(integer, model, smooth(1))
    assert found.verdict == "failed"
    return [each for each in found.report["summary"]["problems"] if each.startswith("node")]


def changed(model, key, change, **configuration):
    """A copy whose nodes say something else under ``key``."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for node in copy.graph.node if key else ():
        for entry in node.metadata_props:
            if entry.key == PREFIX + key:
                entry.value = json.dumps(change(json.loads(entry.value)))
    for entry in copy.metadata_props if configuration else ():
        if entry.key == PREFIX + "configuration":
            entry.value = json.dumps(json.loads(entry.value) | configuration)
    return copy


def test_qdq_models_have_the_chosen_weights_and_keep_them(model, made):
    qdq = quantize(model, smooth(20), emit="qdq", **SECOND).model
    ours = {t.raw_data for t in made.model.graph.initializer if "weight_int8" in t.name}
    for emitted in (qdq, integerize(qdq).model):
        assert ours <= {t.raw_data for t in emitted.graph.initializer}


def test_without_samples_nothing_can_be_chosen(model, tmp_path):
    table = tmp_path / "model.table"
    qpasses.calibrate(model, smooth(3), table)
    with pytest.raises(UsageError, match=r"second-order.*give --data"):
        quantize(model, calibration_table=table, **SECOND)


@pytest.mark.parametrize("samples", [1, 3])
def test_few_samples_and_samples_all_alike_are_enough(model, samples):
    feeds = [{"x": np.zeros((1, 4, 6, 6), np.float32)}] * samples
    assert quantize(model, feeds, **SECOND).verdict == "ok"


# Held-back samples choose how

AUTO = {"weight_rounding": "auto"}


ROUNDINGS = ["nearest", "sum-preserving", "second-order"]


@pytest.fixture(scope="module")
def pictures():
    """A net with so many outputs that chance is small."""
    body = """
        a = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, k, c)
        b = Relu (a)
        y = Conv <kernel_shape = [3, 3], group = 6> (b, e)
    """
    made = numbers()
    return net([1, 4, 6, 6], body, **{name: made[name] for name in "kce"})


def test_held_back_samples_choose_what_gains_most(pictures, monkeypatch):
    monkeypatch.setattr(judge, "NOISE_DB", 0.1)
    found = quantize(pictures, smooth(64), **AUTO)
    said = found.report["weight_rounding"]
    assert (said["asked"], said["held_back"]) == ("auto", 16)
    assert list(said["sqnr_db"]) == ["nearest", UNROUNDED, *ROUNDINGS[1:]]
    assert said["chosen"] == max(ROUNDINGS, key=said["sqnr_db"].get) != "nearest"
    assert verify(found.model, pictures, smooth(2)).verdict == "ok"


def test_what_costs_more_is_tried_where_more_is_left_to_gain(pictures, monkeypatch):
    monkeypatch.setattr(judge, "TELLING", 0)
    said = quantize(pictures, smooth(64), **AUTO).report["weight_rounding"]
    to_gain = said["sqnr_db"][UNROUNDED] - said["sqnr_db"]["nearest"]
    assert judge.NOISE_DB < to_gain < 2 * judge.NOISE_DB
    assert list(said["sqnr_db"]) == ["nearest", UNROUNDED, "sum-preserving"]


def test_nothing_is_tried_where_weights_in_float_gain_nothing(model, monkeypatch):
    monkeypatch.setattr(round_weights, "gains", lambda *_: False)
    said = quantize(model, smooth(24), **AUTO).report["weight_rounding"]
    assert said["chosen"] == "nearest"
    assert list(said["sqnr_db"]) == ["nearest", UNROUNDED]


@pytest.mark.parametrize("way", ["sum-preserving", UNROUNDED])
def test_each_figure_is_that_of_the_rounding_alone(pictures, way, monkeypatch):
    monkeypatch.setattr(judge, "TELLING", 0)
    feeds = smooth(64)
    said = quantize(pictures, feeds, **AUTO).report["weight_rounding"]["sqnr_db"]
    judges = feeds[::4]
    options = {"weight_rounding": "sum-preserving"}
    qdq = quantize(pictures, feeds, emit="qdq", **options).model
    if way == UNROUNDED:
        read_in_float(qdq, "ke")
    real = [run(pictures, each)[0] for each in judges]
    lost = [run(qdq, each)[0] - one for each, one in zip(judges, real, strict=True)]
    powers = [[np.square(each).sum() for each in both] for both in (real, lost)]
    decibels = 10 * np.log10(np.divide(*powers))
    assert said[way] == pytest.approx(decibels.mean(), 0.01)


def read_in_float(qdq, names):
    """The nodes of ``qdq`` that multiply read these numbers, in order."""
    nodes = [n for n in qdq.graph.node if n.op_type in ("Conv", "Gemm", "MatMul")]
    for node, name in zip(nodes, names, strict=True):
        values = onnx.numpy_helper.from_array(numbers()[name], f"{name} in float")
        node.input[1] = values.name
        qdq.graph.initializer.append(values)


@pytest.mark.filterwarnings("error")
def test_outputs_that_are_infinite_judge_nothing():
    made = net([1, 4], "h = MatMul (x, m) y = Exp (h)", m=np.eye(4, dtype=np.float32) * 100)
    feeds = [{"x": np.full((1, 4), 2 + i / 8, np.float32)} for i in range(8)]
    said = quantize(made, feeds, **AUTO).report["weight_rounding"]
    assert (said["chosen"], said["held_back"], said["sqnr_db"]) == ("nearest", 0, {})


@pytest.mark.parametrize(
    ("gained", "expected"),
    [
        ([0.6, 0.6], True),
        ([0.4, 0.4, 0.4], False),
        ([1.0, 0.9, 1.1, 1.0], True),
        ([9.0, -3.0, 2.0, -4.0], False),
        ([2.0, 0.2, 2.0, -0.2], False),
        ([-1.0, -1.0], False),
    ],
)
def test_a_gain_is_more_than_noise_and_chance(gained, expected):
    before = np.linspace(10, 40, len(gained))
    assert gains(before, before + gained) is expected


def test_what_gains_less_than_noise_stays_nearest(model, monkeypatch):
    monkeypatch.setattr(judge, "NOISE_DB", 100.0)
    found = quantize(model, smooth(24), **AUTO)
    assert found.report["weight_rounding"]["chosen"] == "nearest"
    plain = quantize(model, smooth(24)).model
    ours, theirs = (
        {t.name: t.raw_data for t in each.graph.initializer} for each in (found.model, plain)
    )
    assert ours == theirs
    assert verify(found.model, model, smooth(2)).verdict == "ok"
    forged = changed(found.model, None, None, weight_rounding="nearest")
    assert len(problems(forged, model)) == 4


@pytest.mark.parametrize("samples", [1, 3])
def test_too_few_samples_judge_nothing(model, samples):
    found = quantize(model, smooth(samples), **AUTO)
    assert found.report["weight_rounding"] == {
        **{"asked": "auto", "chosen": "nearest", "nodes": 4, "held_back": 0, "sqnr_db": {}},
        "too_wide": [],
    }
    assert verify(found.model, model, smooth(2)).verdict == "ok"


def test_samples_that_are_all_alike_judge_nothing(model):
    found = quantize(model, smooth(1) * 24, **AUTO, activation_scales="auto")
    rounded, scaled = (found.report[each] for each in ("weight_rounding", "activation_scales"))
    assert (rounded["chosen"], rounded["held_back"], rounded["sqnr_db"]) == ("nearest", 0, {})
    assert (scaled["chosen"], scaled["held_back"]) == ("per-tensor", 0)


def test_outputs_that_are_no_floats_are_judged_by_what_is_behind_them():
    made = net(
        [1, 8], "z = MatMul (x, m) y = ArgMax <axis = 1> (z)", outputs="int64[] y", m=np.eye(8)
    )
    feeds = [{"x": each["x"].reshape(-1)[:8].reshape(1, 8)} for each in smooth(8)]
    said = quantize(made, feeds, **AUTO).report["weight_rounding"]
    assert (said["chosen"], said["held_back"]) == ("nearest", 2)
    assert said["sqnr_db"]["nearest"] == said["sqnr_db"][UNROUNDED] > 40
