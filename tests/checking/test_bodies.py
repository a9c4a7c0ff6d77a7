"""Branches and loops: what stands in them becomes integer, and verify finds faults there."""

import json

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import qpasses
from opsets.errors import ModelError
from opsets.op import DOMAIN
from qpasses.ir.model_nodes import nested_graphs, nodes_of
from qpasses.jobs.annotating import annotated
from tests.bench.fuzzing.bodies import body_case, judge_bodies
from tests.support.bodies_nets import (
    BRANCH,
    CASES,
    LOOP,
    body_feeds,
    body_net,
    feeds_of,
    of_text,
    voice_feeds,
    voice_net,
)
from tests.support.fault_finding import Floats, one_off
from tests.support.small_models import model, numbers, session


def summary_of(result):
    return result.report["summary"]


def made_of(name, **options):
    original, feeds = body_net(name), body_feeds(name)
    return original, feeds, qpasses.quantize(original, feeds, **options)


@pytest.mark.thinned
@pytest.mark.parametrize("name", CASES)
def test_what_stands_in_bodies_becomes_integer_and_is_verified(name):
    original, feeds, result = made_of(name)
    assert (result.verdict, summary_of(result)["integer_mac_share"]) == ("ok", 1.0)
    found = qpasses.verify(result.model, original, feeds)
    assert (found.verdict, summary_of(found)["problems"]) == ("ok", [])
    assert summary_of(found)["accuracy"]["sqnr_db"] > 20
    assert found.report["checks"]["qdq"]["codes"] > 0


@pytest.mark.thinned
@pytest.mark.parametrize(
    "options",
    [
        {"activation_type": "int8", "symmetric": True},
        {"integer_io": True},
        {"bodies": "portable"},
        {"tensor_types": [".*=int16"]},
        {"weight_rounding": "second-order"},
        {"bias_correction": "in-sequence"},
        {"activation_scales": "per-channel"},
        {"alignment": "tpu-mlir"},
        {"target": "litert"},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["branches", "loop", "scan"])
def test_bodies_follow_options(name, options):
    original, feeds, result = made_of(name, **options)
    found = qpasses.verify(result.model, original, feeds)
    assert (found.verdict, summary_of(found)["problems"]) == (result.verdict, [])


@pytest.mark.thinned
@pytest.mark.parametrize("emit", ["qdq", "standard"])
@pytest.mark.parametrize("name", CASES)
def test_other_forms_have_bodies_too(name, emit):
    original, feeds, result = made_of(name, emit=emit)
    ours, theirs = (session(each).run(None, feeds[0]) for each in (result.model, original))
    for found, real in zip(ours, theirs, strict=True):
        assert found.shape == real.shape
        assert np.abs(found - real).max() < 0.3 * max(np.abs(real).max(), 1)


@pytest.mark.thinned
@pytest.mark.parametrize("name", ["branches", "loop", "scan", "a branch in a loop"])
def test_no_number_in_a_body_may_change(name):
    original, feeds, result = made_of(name)
    floats = Floats.of(result.model, original, feeds[0])
    differences = floats.check(result.model).differences
    assert [each for each in differences if "multiply-accumulates" not in each] == []
    graphs = list(nested_graphs(result.model.graph))
    read = {name for graph in graphs for node in graph.node for name in node.input}
    inner = [t.name for graph in graphs for t in graph.initializer if t.name in read]
    assert len(inner) > 10
    for each in inner:
        found = floats.differences(one_off(result.model, each))
        assert len(found) > len(differences), each


def test_a_voice_detector_comes_out_integer():
    original, feeds = voice_net(), voice_feeds()
    result = qpasses.quantize(original, feeds)
    assert summary_of(result)["float_nodes"] == []
    names = {each.name: each.op for each in result.evidence}
    for body in ("then", "else"):
        convs = [name for name in names if name.startswith(f"rates/{body}/")]
        assert [names[each] for each in convs].count("IntConv") == 3
    found = qpasses.verify(result.model, original, feeds)
    assert (found.verdict, summary_of(found)["problems"]) == ("ok", [])
    assert found.report["checks"]["qdq"]["max_lsb"] <= 2  # of states of 16 bits, in 15 steps


def test_integers_that_stand_in_bodies_alone_are_seen():
    """By who counts nodes, writes on them, and refuses what is integer already."""
    original, feeds, result = made_of("scan")
    assert all(node.domain != DOMAIN for node in result.model.graph.node)
    inside = [node for node in nodes_of(result.model) if node.domain == DOMAIN]
    latency = result.report["latency"]
    counted = sum(sum(latency[key].values()) for key in ("kernels", "bodies"))
    assert counted == len(inside) > 0
    shown = nodes_of(annotated(qpasses.inspect(result.model)))
    assert all(
        "evidence" in [entry.key for entry in node.metadata_props]
        for node in shown
        if node.domain == DOMAIN
    )
    with pytest.raises(ModelError, match="is an integer model of qpasses already"):
        qpasses.quantize(result.model, feeds)
    qdq = qpasses.quantize(original, feeds, emit="qdq").model
    assert qpasses.integerize(qdq).verdict == "ok"


def test_weights_in_bodies_are_looked_at_too():
    original, feeds = body_net("branches"), body_feeds("branches")
    broken = onnx.ModelProto()
    broken.CopyFrom(original)
    body = next(each for each in nested_graphs(broken.graph) if each is not broken.graph)
    added = numpy_helper.from_array(np.full((2, 2), np.nan, np.float32), "broken")
    body.initializer.append(added)
    with pytest.raises(ModelError, match="weights 'broken' hold NaN"):
        qpasses.quantize(broken, feeds)


def test_cells_of_all_steps_are_within_their_range():
    """Of an LSTM in a branch that hands its last states on alone, joined to one tensor."""
    original = model(
        """g (float[T, 1, 4] x, bool c, float[2, 1, 4] s) => (float[2, 1, 4] y) {
            y = If (c) <then_branch = t () => (float[2, 1, 4] p) {
                h, k = Split <axis = 0> (s, halves)
                [cells] all, last, cell = LSTM <hidden_size = 4> (x, W, R, "", "", h, k)
                p = Concat <axis = 0> (last, cell)
            }, else_branch = e () => (float[2, 1, 4] q) { q = Identity (s) }> }""",
        opset=21,
        halves=np.array([1, 1]),
        W=np.abs(numbers(1, 16, 4)),
        R=numbers(1, 16, 4, seed=1) / 4,
    )
    feeds = [
        {
            "x": np.concatenate([np.full((4, 1, 4), 3), np.full((2, 1, 4), -3)]).astype(
                np.float32
            )
            * drawn,
            "c": np.array(number > 0),
            "s": np.zeros((2, 1, 4), np.float32),
        }
        for number, drawn in enumerate(np.abs(numbers(6, 6, 1, 4, seed=2)))
    ]
    made = qpasses.quantize(original, feeds)
    (node, body), *_ = (
        (node, graph)
        for graph in nested_graphs(made.model.graph)
        for node in graph.node
        if node.op_type == "IntLstm"
    )
    float_session = session(original)
    cells = [np.abs(_cells_by_hand(float_session, feed)).max() for feed in feeds[1:]]
    ends = [np.abs(float_session.run(["y"], feed)[0]).max() for feed in feeds[1:]]
    (scale,) = {
        json.loads(entry.value)
        for value in body.value_info
        if value.name == node.output[2]
        for entry in value.metadata_props
        if entry.key == "qpasses.scale"
    }
    assert max(ends) < 0.7 * max(cells) < 0.7 * 32767 * scale


def _cells_by_hand(float_session, feed):
    """The cells of all steps, each from the states of the step before."""
    states, found = feed["s"], []
    for step in range(len(feed["x"])):
        states = float_session.run(
            ["y"], {"x": feed["x"][[step]], "c": feed["c"], "s": states}
        )[0]
        found.append(states[1])
    return found


def test_inspect_shows_nodes_with_their_place():
    _, _, result = made_of("a loop in a branch")
    inner = "If/then/Loop/body/MatMul"
    assert inner in {each.name for each in result.evidence}
    row = qpasses.inspect(result.model).node(inner)
    assert (row.op, row.proof.proved) == ("IntGemm", True)


def test_a_body_that_no_sample_runs_stays_float():
    original = of_text("float[2, 4] x, bool c", "float[2, 4] y", BRANCH)
    feeds = [{**each, "c": np.array(True)} for each in body_feeds("branches")]
    result = qpasses.quantize(original, feeds)
    reasons = {e["name"]: e["reason"] for e in summary_of(result)["float_nodes"]}
    said = "no sample runs body 'else' of 'choice'"
    assert reasons == {"choice/else/other": said, "choice/Joined_0": said}
    assert "choice/then/product" in {each.name for each in result.evidence}
    assert qpasses.verify(result.model, original, feeds).verdict == "incomplete"


def test_a_loop_without_iterations_stays_float():
    original = of_text("float[2, 4] x", "float[2, 4] y", LOOP.replace("(three,", "(none,"))
    result = qpasses.quantize(original, feeds_of("x"))
    reasons = {e["name"]: e["reason"] for e in summary_of(result)["float_nodes"]}
    assert reasons["loop/body/product"] == "no sample runs body 'body' of 'loop'"


WIDE = """h = MatMul (x, w) k = Mul (h, wide)
    [loop] y = Loop (three, "", k) <body = turn
        (int64 i, bool on, float[2, 4] s) => (bool off, float[2, 4] t)
        { off = Identity (on) [product] q = MatMul (s, v) t = Tanh (q) }
    >"""


def test_a_state_that_is_much_wider_at_first_stays_float():
    original = of_text("float[2, 4] x", "float[2, 4] y", WIDE)
    feeds = feeds_of("x")
    result = qpasses.quantize(original, feeds)
    reasons = {e["name"]: e["reason"] for e in summary_of(result)["float_nodes"]}
    said = "iterations leave 't' much narrower than 's' is at first"
    assert reasons["loop/Carried_0"] == reasons["loop/CarriedOut_0"] == said
    assert reasons["loop/body/product"] == said
    found = qpasses.verify(result.model, original, feeds)
    assert summary_of(found)["problems"] == []
    assert summary_of(found)["accuracy"]["sqnr_db"] > 20


@pytest.mark.parametrize("end", ["Carried", "CarriedOut"])
def test_a_state_goes_out_as_it_comes_in(end):
    original, feeds, result = made_of("loop", nodes_to_exclude=[f"loop/{end}_0"])
    left = {each["name"] for each in summary_of(result)["float_nodes"]}
    assert {"loop/Carried_0", "loop/CarriedOut_0"} <= left
    assert summary_of(qpasses.verify(result.model, original, feeds))["problems"] == []


DRAWING = LOOP.replace("o = Add (q, h)", "g = RandomNormalLike (q) o = Add (q, g)")
IN_SCAN = """
    y, z = Scan (zeros, x) <num_scan_inputs = 1,
        body = turn (float[4] s, float[4] e) => (float[4] t, float[4] o) {
        q = MatMul (e, w)
        r = If (c) <
            then_branch = yes () => (float[4] a) { a = MatMul (s, v) },
            else_branch = no () => (float[4] b) { b = Relu (s) }
        >
        p = Add (q, r) t = Tanh (p) o = Identity (t)
    }>"""


@pytest.mark.parametrize(
    ("inputs", "nodes", "sizes", "said"),
    [
        ("float[2, 4] x", DRAWING, (2, 4), "draws random numbers"),
        ("float[5, 4] x, bool c", IN_SCAN, (5, 4), "is inside of a Scan"),
    ],
    ids=["draws", "in a Scan"],
)
def test_bodies_that_are_left_whole_have_a_reason(inputs, nodes, sizes, said):
    original = of_text(inputs, "float[a, b] y" if "Loop" in nodes else "float[4] y", nodes)
    feeds = feeds_of(inputs, sizes)
    result = qpasses.quantize(original, feeds)
    reasons = {e["op_type"]: e["reason"] for e in summary_of(result)["float_nodes"]}
    assert said in reasons["Loop" if "Loop" in nodes else "If"]
    assert qpasses.verify(result.model, original, feeds).verdict == result.verdict


LISTED = """g (float[1, 8, 5] x) => (float[a, b, 3] y) {
    k = Conv (x, kernel)
    rows = Transpose <perm = [0, 2, 1]> (k)
    none = SequenceEmpty <dtype = 1> ()
    part = Slice (wide, zero, eight, one)
    last, all = Loop (five, "", start, none) <body = turn
        (int64 i, bool on, float[1, 8] h, seq(float[?, ?]) q)
        => (bool off, float[1, 8] t, seq(float[?, ?]) r) {
        off = Identity (on) e = Gather <axis = 1> (rows, i) p = Mul (h, e) s = Add (p, e)
        t = Tanh (s) r = SequenceInsert (q, t)
    }>
    o = ConcatFromSequence <axis = 1, new_axis = 1> (all)
    y = MatMul (o, part)
}"""


def test_a_list_that_a_loop_carries_is_left_and_all_around_is_integer():
    """Its types are kept, constants are folded, and products are counted."""
    constants = {
        **{"kernel": numbers(8, 8, 1), "wide": numbers(12, 3), "start": numbers(1, 8) * 0},
        **{"zero": np.array([0]), "eight": np.array([8]), "one": np.array([0])},
    }
    original = model(LISTED, opset=17, five=np.int64(5), **constants)
    feeds = [{"x": numbers(1, 8, 5, seed=seed)} for seed in range(8)]
    result = qpasses.quantize(original, feeds)
    summary = summary_of(result)
    assert summary["macs"] == 5 * 8 * (8 + 3) and summary["integer_mac_share"] == 1
    found = qpasses.verify(result.model, original, feeds)
    assert (found.verdict, summary_of(found)["problems"]) == (result.verdict, [])


def test_sizes_in_bodies_are_known_where_those_of_inputs_are_free():
    inputs = "float[N, 5, 4] x, bool c"
    nodes = """h = MatMul (x, w)
    y = If (c) <
        then_branch = yes () => (float[N, 4] a)
            { q = MatMul (h, v) a = ReduceMean <axes = [1], keepdims = 0> (q) },
        else_branch = no () => (float[N, 4] b)
            { p = Softmax (h) b = ReduceMean <axes = [1], keepdims = 0> (p) }
    >"""
    original, feeds = of_text(inputs, "float[N, 4] y", nodes), feeds_of(inputs, (2, 5, 4))
    result = qpasses.quantize(original, feeds)
    assert (result.verdict, summary_of(result)["float_nodes"]) == ("ok", [])
    found = qpasses.verify(result.model, original, feeds)
    assert (found.verdict, summary_of(found)["problems"]) == ("ok", [])


def test_a_loop_may_begin_with_the_state_of_a_net():
    original = model(
        """g (float[6, 1, 8] x) => (float[1, 8] y) {
        all, last = GRU <hidden_size = 8> (x, rows_x, rows_h)
        h = Squeeze (last, first)
        y = Loop (three, "", h) <body = turn
            (int64 i, bool on, float[1, 8] s) => (bool off, float[1, 8] t) {
            off = Identity (on) p = MatMul (s, w) r = Relu (p) o = Add (r, s) t = MatMul (o, v)
        }>
    }""",
        **{"rows_x": numbers(1, 24, 8) / 2, "rows_h": numbers(1, 24, 8, seed=3) / 2},
        **{"w": numbers(8, 8) / 2, "v": numbers(8, 8, seed=3) / 2},
        **{"first": np.array([0]), "three": np.int64(3)},
    )
    feeds = [{"x": numbers(6, 1, 8, seed=seed)} for seed in range(8)]
    result = qpasses.quantize(original, feeds)
    found = qpasses.verify(result.model, original, feeds)
    assert (found.verdict, summary_of(found)["problems"]) == ("ok", [])


@pytest.mark.parametrize("to", ["tosa", "tflite"])
@pytest.mark.parametrize("name", ["branches", "loop"])
def test_exits_refuse_bodies_by_name(name, to, tmp_path):
    _, _, result = made_of(name, integer_io=True)
    onnx.save(result.model, tmp_path / "made.onnx")
    with pytest.raises(qpasses.ModelError, match="branches and loops have no form"):
        qpasses.export(tmp_path / "made.onnx", tmp_path / "out", to=to)


def test_functions_are_called_in_bodies():
    made = model(
        f"g (float[2, 4] x, bool c) => (float[2, 4] y) {{ {BRANCH} }}".replace(
            "q = MatMul (h, v)", "q = local.twice (h, v)"
        ),
        domains=["local"],
        functions='<domain: "local", opset_import: ["" : 17]> '
        "twice (a, b) => (d) { e = MatMul (a, b) d = MatMul (e, b) }",
        **{each: numbers(4, 4, seed=seed) for seed, each in enumerate("wvu")},
    )
    feeds = body_feeds("branches")
    result = qpasses.quantize(made, feeds)
    assert (result.verdict, summary_of(result)["integer_mac_share"]) == ("ok", 1.0)
    assert qpasses.verify(result.model, made, feeds).verdict == "ok"


def swapped(body):
    body.output[1].name, body.output[2].name = body.output[2].name, body.output[1].name


def other_zero(body):
    node = next(each for each in body.node if each.op_type == "IntGemm")
    body.initializer.append(numpy_helper.from_array(np.uint8(7), "mine"))
    node.input[1] = "mine"


def renamed(body):
    body.name = "mine"


def added(body):
    body.node.append(onnx.helper.make_node("Identity", [body.input[0].name], ["idle"], "idle"))


@pytest.mark.thinned
@pytest.mark.parametrize("change", [swapped, other_zero, renamed, added])
def test_a_changed_body_is_found(change):
    original, feeds, result = made_of("loop")
    changed = onnx.ModelProto()
    changed.CopyFrom(result.model)
    (loop,) = (each for each in changed.graph.node if each.op_type == "Loop")
    change(loop.attribute[0].g)
    try:
        found = qpasses.verify(changed, original, feeds)
    except qpasses.QPassesError:
        return
    assert found.verdict == "failed" and summary_of(found)["problems"]


def test_what_a_record_says_of_a_value_of_a_loop_is_compared():
    original, feeds, result = made_of("loop")
    (loop,) = (each for each in result.model.graph.node if each.op_type == "Loop")
    keys = [each.key for each in loop.metadata_props]
    assert any(each.startswith("Carried_0 ") for each in keys)
    for each in loop.metadata_props:
        if each.key.endswith("scales"):
            each.value = '{"y": [0.75]}'
    found = qpasses.verify(result.model, original, feeds)
    assert found.verdict == "failed"


@pytest.mark.parametrize("name", ["branches", "loop", "a branch in a loop"])
def test_a_table_of_a_model_with_bodies_gives_the_same(name, tmp_path):
    original, feeds, result = made_of(name)
    table = qpasses.calibrate(original, feeds, tmp_path / "table.npz")
    again = qpasses.quantize(original, feeds, calibration_table=tmp_path / "table.npz")
    assert table is not None and again.verdict == result.verdict
    pairs = zip(again.model.graph.node, result.model.graph.node, strict=True)
    assert all(one == other for one, other in pairs)


def test_a_table_of_a_body_that_no_sample_runs_is_refused(tmp_path):
    original = of_text("float[2, 4] x, bool c", "float[2, 4] y", BRANCH)
    feeds = [{**each, "c": np.array(True)} for each in body_feeds("branches")]
    with pytest.raises(qpasses.DataError, match="'b' held no values"):
        qpasses.calibrate(original, feeds, tmp_path / "table.npz")


def test_what_a_body_makes_infinite_stays_float():
    nodes = BRANCH.replace("a = Relu (q)", "n = Log (q) r = Sub (n, n) a = MatMul (r, u)")
    original = of_text("float[2, 4] x, bool c", "float[2, 4] y", nodes)
    feeds = body_feeds("branches")
    result = qpasses.quantize(original, feeds)
    reasons = {e["name"]: e["reason"] for e in summary_of(result)["float_nodes"]}
    assert any("NaN or infinite" in each for each in reasons.values())


@pytest.mark.thinned
@pytest.mark.parametrize("name", CASES)
def test_a_quantized_model_with_bodies_becomes_integer(name):
    _, feeds, result = made_of(name, emit="qdq")
    made = qpasses.integerize(result.model, feeds)
    assert (made.verdict, summary_of(made)["integer_mac_share"]) == ("ok", 1.0)
    found = qpasses.verify(made.model, result.model, feeds)
    assert (found.verdict, summary_of(found)["problems"]) == ("ok", [])


@pytest.mark.thinned
@pytest.mark.parametrize("number", range(8))
def test_random_graphs_with_bodies_are_what_they_are_made_from(number):
    made = body_case(11, number)
    assert made is None or judge_bodies(made) is None


def test_a_net_in_a_scan_whose_last_states_nobody_reads_is_verified():
    net = """g (float[3, 4, 2, 3] x, float[4, 2, 3] s0) => (float[3, 4, 1, 2, 5] y) {
        last, y = Scan <num_scan_inputs = 1, body = step
            (float[A, B, C] s, float[A, B, C] u)
            => (float[A, B, C] next, float[?, ?, ?, ?] all) {
            a = Add (s, u)
            all = LSTM <hidden_size = 5> (a, w, r)
            next = Tanh (s)
        }> (s0, x)
    }"""
    given = model(net, opset=18, w=numbers(1, 20, 3), r=numbers(1, 20, 5, seed=1))
    feeds = [
        {"x": numbers(3, 4, 2, 3, seed=seed), "s0": numbers(4, 2, 3, seed=9 + seed)}
        for seed in range(3)
    ]
    made = qpasses.quantize(given, feeds)
    assert qpasses.verify(made.model, given, feeds).verdict == made.verdict == "ok"


def test_a_sequence_that_stays_beside_a_state_that_never_changes_is_verified():
    net = """g (float[2, 3] x) => (float[A, 3] y) {
        none = SequenceEmpty ()
        last, all = Loop (three, "", x, none) <body = step
            (int64 i, bool on, float[2, 3] h, seq(float[?, 3]) before)
            => (bool goes_on, float[2, 3] next, seq(float[?, 3]) after) {
            next = Identity (h)
            place = Unsqueeze (i, at_0)
            part = Slice (h, at_0, place, at_0)
            act = Sigmoid (part)
            after = SequenceInsert (before, act)
            goes_on = Identity (on)
        }>
        y = ConcatFromSequence <axis = 0> (all)
    }"""
    given = model(net, opset=18, three=np.array(3), at_0=np.array([0]))
    feeds = [{"x": numbers(2, 3, seed=seed)} for seed in range(3)]
    made = qpasses.quantize(given, feeds)
    assert qpasses.verify(made.model, given, feeds).report["summary"]["problems"] == []


def test_what_a_loop_in_a_scan_computes_is_observed():
    net = """g (float[3, 2, 4] x, float[2, 4] s0, int64 often) => (float[3, 2, 4] y) {
        last, y = Scan <num_scan_inputs = 1, body = step
            (float[2, 4] s, float[2, 4] u) => (float[2, 4] next, float[?, ?] given) {
            a = Add (s, u)
            end, all = Loop (often, "", a) <body = turn
                (int64 i, bool on, float[?, ?] h)
                => (bool goes_on, float[?, ?] h_next, float[?, ?] p) {
                q = MatMul (h, w)
                m = ReduceMean <keepdims = 1> (q)
                p = Add (m, h)
                h_next = Sigmoid (h)
                goes_on = Identity (on)
            }>
            given = Gather (all, minus)
            next = Tanh (s)
        }> (s0, x)
    }"""
    given = model(net, opset=18, minus=np.array(-1), w=numbers(4, 4))
    feeds = [
        {"x": numbers(3, 2, 4, seed=n), "s0": numbers(2, 4, seed=n + 9), "often": np.array(2)}
        for n in range(3)
    ]
    made = qpasses.quantize(given, feeds)
    assert qpasses.verify(made.model, given, feeds).verdict == made.verdict
