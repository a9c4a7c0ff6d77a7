"""Multiply-accumulates of recurrent layers, branches, loops."""

import numpy as np
import onnx
import pytest

import qpasses
from tests.support.small_models import model, numbers, save

RECURRENT = """g (float[N, T, 4] x) => (float[N, 3] y) {
    t = Transpose <perm = [1, 0, 2]> (x)
    a, h = OP <hidden_size = 5, direction = "DIRECTION"> (t, w, r)
    last = Gather (h, zero)
    y = MatMul (last, m)
}"""

IF = """g (float[N, 4] x, bool c) => (float[N, 4] y) {
    a = MatMul (x, m)
    y = If (c) <
        then_branch = t () => (float[N, 4] p) { p = MatMul (a, m) },
        else_branch = e () => (float[N, 4] q) { b = MatMul (a, m) q = MatMul (b, m) }
    >
}"""

LOOP = """g (float[1, 4] x) => (float[1, 4] y) {
    a = MatMul (x, m)
    y = Loop (trips, START, a) <body = b (int64 i, bool go, float[1, 4] v) =>
        (bool on, float[1, 4] w) { CONDITION w = MatMul (v, m) }>
}"""

COLLECTING = """g (float[1, 4] x) => (float[1, 4] y, float[k, 1, 4] all) {
    a = MatMul (x, m)
    y, all = Loop (trips, "", a) <body = b (int64 i, bool go, float[1, 4] v) =>
        (bool on, float[1, 4] w, float[1, 4] z)
        { on = Less (i, two) w = MatMul (v, m) z = Identity (w) }>
}"""

SCAN = """g (float[6, 4] x) => (float[6, 4] y) {
    a = MatMul (x, m)
    last, y = Scan <num_scan_inputs = 1, body = b (float[4] s, float[4] v) =>
        (float[4] t, float[4] w) { u = MatMul (v, m) t = Add (s, u) w = Identity (t) }>
        (zero, a)
}"""

ROWS = [{"x": numbers(1, 4, seed=seed)} for seed in range(3)]
SQUARE = numbers(4, 4)


def quantized(text, feeds, **weights):
    made = model(text, **weights)
    return made, qpasses.quantize(made, feeds)


def recurrent(op, direction, gates):
    text = RECURRENT.replace("OP", op).replace("DIRECTION", direction)
    ways = 2 if direction == "bidirectional" else 1
    weights = {
        "w": numbers(ways, gates * 5, 4),
        "r": numbers(ways, gates * 5, 5),
        "zero": np.int64(0),
        "m": numbers(5, 3),
    }
    feeds = [{"x": numbers(2, 7, 4, seed=seed)} for seed in range(3)]
    return quantized(text, feeds, **weights)[1], ways


@pytest.mark.thinned
@pytest.mark.parametrize(("op", "gates"), [("GRU", 3), ("LSTM", 4), ("RNN", 1)])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_a_recurrent_layer_multiplies_input_and_state_in_each_step(op, gates, direction):
    made, ways = recurrent(op, direction, gates)
    summary = made.report["summary"]
    inside, behind = 7 * 2 * ways * gates * 5 * (4 + 5), 2 * 5 * 3
    assert summary["macs"] == inside + behind
    assert summary["integer_mac_share"] == 1.0
    assert summary["macs_not_counted"] == []
    assert summary["integer_only"]


def test_an_if_counts_both_branches():
    feeds = [{**feed, "c": np.bool_(i % 2)} for i, feed in enumerate(ROWS)]
    summary = quantized(IF, feeds, m=SQUARE)[1].report["summary"]
    assert (summary["macs"], summary["macs_not_counted"]) == (4 * 16, [])
    assert summary["integer_mac_share"] == 1


def loop(condition, start='""', text=LOOP, **more):
    text = text.replace("CONDITION", condition).replace("START", start)
    weights = {"m": SQUARE, "trips": np.int64(5), **more}
    return quantized(text, ROWS, **weights)[1].report["summary"]


@pytest.mark.parametrize(
    ("condition", "start", "more"),
    [
        ("on = Identity (go)", '""', {}),
        ("on = Identity (go)", "yes", {"yes": np.bool_(True)}),
        ("on = Identity (yes)", '""', {"yes": np.bool_(True)}),
        ("on = Constant <value = bool {1}> ()", '""', {}),
    ],
)
def test_a_loop_that_only_its_count_ends_is_counted(condition, start, more):
    summary = loop(condition, start, **more)
    assert (summary["macs"], summary["macs_not_counted"]) == ((1 + 5) * 16, [])


@pytest.mark.parametrize(
    "condition", ["s = ReduceSum <keepdims = 0> (v) on = Less (s, s)", "on = Not (go)"]
)
def test_a_loop_that_its_condition_may_end_is_named(condition):
    summary = loop(condition)
    assert (summary["macs"], summary["macs_not_counted"]) == (16, ["IntGemm"])


def test_a_loop_runs_as_often_as_it_collects():
    summary = loop("", text=COLLECTING, two=np.int64(2))
    assert (summary["macs"], summary["macs_not_counted"]) == ((1 + 3) * 16, [])


CARRYING = """g (float[N, 4] x) => (float[N, k] y) {
    a = MatMul (x, m)
    y = Loop (trips, "", a) <body = b (int64 i, bool go, float v) =>
        (bool on, float w) { on = Identity (go) u = MatMul (v, m) w = WHOLE }>
}"""


@pytest.mark.parametrize(
    ("whole", "macs", "named"),
    [("Identity (u)", 6 * 16, []), ("Concat <axis = 0> (u, u)", 16, ["IntGemm"])],
)
def test_what_a_loop_carries_is_as_large_as_at_first_unless_it_grows(whole, macs, named):
    text = CARRYING.replace("WHOLE", whole).replace("float v", "float[A, B] v")
    summary = loop("", text=text.replace("float w", "float[C, D] w"))
    assert (summary["macs"], summary["macs_not_counted"]) == (macs, named)


def test_a_loop_without_products_is_none_that_cannot_be_counted():
    text = LOOP.replace("w = MatMul (v, m)", "w = Add (v, v)")
    summary = loop("on = Not (go)", text=text)
    assert (summary["macs"], summary["macs_not_counted"]) == (16, [])


def test_a_scan_runs_once_for_each_row():
    feeds = [{"x": numbers(6, 4, seed=seed)} for seed in range(3)]
    zero = np.zeros(4, np.float32)
    summary = quantized(SCAN, feeds, m=SQUARE, zero=zero)[1].report["summary"]
    assert summary["macs"] == 2 * 6 * 16
    assert summary["integer_mac_share"] == 1


# What a model records of its float nodes


@pytest.fixture(scope="module")
def with_loop(tmp_path_factory):
    """A float model with a Loop, its integer form, which leaves that in float, written."""
    folder = tmp_path_factory.mktemp("loop")
    text = LOOP.replace("CONDITION", "on = Identity (go)").replace("START", '""')
    given = model(text, m=SQUARE, trips=np.int64(5))
    qpasses.quantize(given, ROWS, folder / "made.onnx", nodes_to_exclude=["Loop/.*"])
    return given, folder / "made.onnx"


def test_verify_knows_the_share_without_the_float_model_too(with_loop):
    given, path = with_loop
    alone, beside = qpasses.verify(path), qpasses.verify(path, given, ROWS)
    assert alone.report["summary"]["problems"] == beside.report["summary"]["problems"] == []
    shares = [each.report["summary"]["integer_mac_share"] for each in (alone, beside)]
    assert shares == [pytest.approx(1 / 6)] * 2


def forged(path, folder, text):
    made = onnx.load(path)
    next(e for e in made.metadata_props if e.key == "qpasses.float_macs").value = text
    return save(folder, "forged.onnx", made)


def test_verify_finds_another_count_of_a_float_node(with_loop, tmp_path):
    given, path = with_loop
    found = qpasses.verify(forged(path, tmp_path, '{"Loop/body/MatMul": 7}'), given, ROWS)
    assert found.verdict == "failed"
    assert "float nodes" in found.report["summary"]["problems"][0]


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '{"Loop/body/MatMul": -1}',
        '{"Loop/body/MatMul": "7"}',
        '{"Loop/body/MatMul": 1.5}',
    ],
)
def test_counts_that_are_none_are_refused(with_loop, tmp_path, text):
    with pytest.raises(qpasses.ModelError, match="float_macs"):
        qpasses.inspect(forged(with_loop[1], tmp_path, text))


def test_a_model_without_float_products_records_none():
    made = qpasses.quantize(
        model("g (float[1, 4] x) => (float[1, 4] y) { y = MatMul (x, m) }", m=SQUARE), ROWS
    )
    assert "qpasses.float_macs" not in {each.key for each in made.model.metadata_props}
