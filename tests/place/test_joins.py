"""At the inputs of Concat and Where: one scale, or a table where that loses less."""

import gc
import json
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration import Range, Statistics
from calibration.histogram import Histogram
from opsets.target import load_target
from qpasses import calibrate, merge_tables, quantize
from qpasses.ir.interchange import import_graph
from qpasses.ir.rewriting import Context
from qpasses.ir.settings import Settings
from qpasses.ir.shapes import infer_shapes
from qpasses.place.alignment import aligned, concerned, joins, observed
from qpasses.place.planning import plan
from qpasses.place.ranges import Ranges
from tests.support.commands import Desk
from tests.support.small_models import model, numbers, recorded
from tests.support.stage_checks import CONSTANTS, net, networks
from tests.support.thoroughness import thoroughly

DOCS = Path(__file__).parents[2] / "docs"

CONCAT = "y = Concat <axis = 2> (a, b)"
BRANCHES = "a = Conv (x, w3) b = Conv (x, w3)"
READ = "s = Conv (a, w)"
WIDE, NARROW, OTHER = (-10, 10), (-1, 1), (-2, 2)


def statistics(values):
    """What a run would have seen."""
    values, extremes = values.astype(np.float32), (float(values.min()), float(values.max()))
    return Statistics(*extremes, values.size, 0, 1, 0, 0, Histogram.of(values))


def judged(body, outputs="float[] y", seen=None, method="minmax", bools="", **ranges):
    """The ranges of a graph whose tensors have ``ranges``, and its joins by tensor."""
    made = net([1, 2, 4, 4], body, outputs=outputs, **CONSTANTS)
    if bools:
        value = made.graph.input.add()
        value.CopyFrom(made.graph.input[0])
        value.name, value.type.tensor_type.elem_type = bools, 9
    graph = import_graph(infer_shapes(made))
    settings = Settings(load_target("onnx"), calibration_method=method)
    chosen = plan(graph, Context(settings))
    given_ranges = {name: Range(*each) for name, each in ranges.items()}
    found = Ranges(given_ranges, dict.fromkeys(ranges, "minmax"), seen or {})
    result = aligned(graph, chosen, found, settings)
    ends = {name: (each.low, each.high) for name, each in result.ranges.items()}
    return ends, {each.tensor: each for each in result.joins}


def tables(joined):
    return {name for name, each in joined.items() if each.table}


def test_a_narrow_tensor_that_others_read_keeps_its_range_by_a_table():
    ranges = {"x": OTHER, "a": NARROW, "b": WIDE, "y": WIDE, "s": OTHER}
    ends, joined = judged(f"{BRANCHES} {READ} {CONCAT}", "float[] y, float[] s", **ranges)
    assert tables(joined) == {"a"}
    assert (ends["a"], ends["b"], ends["y"]) == (NARROW, WIDE, WIDE)


def test_losses_are_noise_by_energy_at_each_reader():
    ranges = {"x": OTHER, "a": NARROW, "b": WIDE, "y": WIDE, "s": OTHER}
    _, joined = judged(f"{BRANCHES} {READ} {CONCAT}", "float[] y, float[] s", **ranges)
    fine, coarse = ((width / 255) ** 2 / 12 for width in (2, 20))
    at_a, at_y = 3 / 1**2, 3 / 10**2  # a uniform distribution has a third of its end squared
    found = joined["a"]
    assert found.tied_loss == pytest.approx(coarse * (at_a + at_y))
    assert found.table_loss == pytest.approx(fine * (at_a + at_y / 2) + coarse * at_y)
    assert (found.node, found.op, found.energies) == (found.node, "Concat", "extremes")
    assert (found.range, found.joined_range) == (NARROW, WIDE)
    assert not joined["b"].table


def test_a_narrow_tensor_that_nothing_else_reads_is_stored_at_the_wide_step():
    ends, joined = judged(f"{BRANCHES} {CONCAT}", x=OTHER, a=NARROW, b=WIDE, y=WIDE)
    assert joined["a"].tied_loss < joined["a"].table_loss
    assert tables(joined) == set()
    assert ends["a"] == WIDE


@pytest.mark.parametrize("narrow", [WIDE, (-9, 9)])
def test_ranges_that_are_alike_are_tied(narrow):
    ranges = {"x": OTHER, "a": narrow, "b": WIDE, "y": WIDE, "s": OTHER}
    ends, joined = judged(f"{BRANCHES} {READ} {CONCAT}", "float[] y, float[] s", **ranges)
    assert tables(joined) == set()
    assert ends["a"] == WIDE


def test_a_wide_range_is_not_spread_backwards_through_a_max_pool():
    pool = "p = MaxPool <kernel_shape = [1, 1]> (a)"
    body = f"{BRANCHES} {READ} {pool} y = Concat <axis = 2> (p, b)"
    ranges = {"x": OTHER, "a": NARROW, "p": NARROW, "b": WIDE, "y": WIDE, "s": OTHER}
    ends, joined = judged(body, "float[] y, float[] s", **ranges)
    assert tables(joined) == {"p"}
    assert ends["a"] == ends["p"] == NARROW


def test_a_where_is_a_join():
    body = f"{BRANCHES} {READ} y = Where (m, a, b)"
    ranges = {"x": OTHER, "a": NARROW, "b": WIDE, "y": WIDE, "s": OTHER}
    ends, joined = judged(body, "float[] y, float[] s", bools="m", **ranges)
    assert tables(joined) == {"a"}
    assert joined["a"].op == "Where"
    assert ends["a"] == NARROW


def test_of_a_row_of_concats_only_what_is_unlike_is_taken_apart():
    body = f"""{BRANCHES} c = Conv (x, w3) {READ} d = Concat <axis = 2> (a, b)
        t = Conv (d, w) y = Concat <axis = 2> (d, c)"""
    ranges = {"x": OTHER, "a": NARROW, "b": NARROW, "d": NARROW, "c": WIDE, "y": WIDE}
    ends, joined = judged(body, "float[] y, float[] s, float[] t", **ranges, s=OTHER, t=OTHER)
    assert tables(joined) == {"d"}
    assert ends["a"] == ends["b"] == ends["d"] == NARROW


def test_what_is_tied_by_another_way_gets_no_table():
    body = f"{BRANCHES} {READ} {CONCAT} r = Reshape (a, shape) z = Concat <axis = 2> (y, r)"
    ranges = {"x": OTHER, "a": NARROW, "b": WIDE, "y": WIDE, "r": NARROW, "z": WIDE}
    ends, joined = judged(body, "float[] z, float[] s", **ranges, s=OTHER)
    for each in joined.values():
        assert each.table == (ends[each.tensor] != ends[each.result])


ALMOST = {"x": OTHER, "a": NARROW, "b": (-1.3, 1.3), "y": (-1.3, 1.3), "s": OTHER}


def evenly_spread():
    return {name: statistics(np.linspace(*ends, 1001)) for name, ends in ALMOST.items()}


TAILS = np.concatenate([np.linspace(-0.1, 0.1, 1001), [-1, 1]])
"""Hardly anything beyond a tenth of the extremes."""


@pytest.mark.parametrize("method", ["minmax", "moving-average", "mse"])
def test_histograms_say_how_much_the_noise_is_worth(method):
    seen = evenly_spread()
    ends = f"{BRANCHES} {READ} {CONCAT}", "float[] y, float[] s", seen
    _, joined = judged(*ends, method, **ALMOST)
    assert (tables(joined), joined["a"].energies) == (set(), "histograms")
    seen["a"] = statistics(TAILS)
    _, joined = judged(*ends, method, **ALMOST)
    assert tables(joined) == {"a"}


@pytest.mark.parametrize("without", ["a", "y"])
def test_extremes_decide_where_a_tensor_that_is_concerned_has_no_histogram(without):
    seen = evenly_spread() | {"a": statistics(TAILS)}
    seen[without] = replace(seen[without], histogram=None)
    ends = f"{BRANCHES} {READ} {CONCAT}", "float[] y, float[] s", seen
    _, joined = judged(*ends, **ALMOST)
    assert (tables(joined), joined["a"].energies) == (set(), "extremes")


def test_what_the_joins_do_not_concern_needs_no_histogram():
    seen = evenly_spread() | {"a": statistics(TAILS)}
    seen |= {name: replace(seen[name], histogram=None) for name in ("x", "b", "s")}
    ends = f"{BRANCHES} {READ} {CONCAT}", "float[] y, float[] s", seen
    _, joined = judged(*ends, **ALMOST)
    assert (tables(joined), joined["a"].energies) == ({"a"}, "histograms")


def test_a_tensor_without_values_has_no_energy_whatever_its_range_is():
    seen = evenly_spread()
    del seen["a"]
    ends = f"{BRANCHES} {READ} {CONCAT}", "float[] y, float[] s", seen
    _, joined = judged(*ends, **ALMOST)
    noise = (2.6 / 255) ** 2 / 12
    assert joined["a"].tied_loss == pytest.approx(
        noise / np.mean(np.square(np.linspace(-1.3, 1.3, 1001))), rel=1e-3
    )


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("y = Conv (x, w)", set()),
        (f"{BRANCHES} {CONCAT}", {"y"}),
        (f"{BRANCHES} {READ} {CONCAT}", {"a", "y"}),
        (
            f"""{BRANCHES} {READ} p = Transpose (a) q = Transpose (b)
            y = Concat <axis = 2> (p, q)""",
            {"a", "y"},
        ),
        (
            f"{BRANCHES} {READ} c = Concat <axis = 2> (a, b) r = Relu (c) y = Conv (r, w)",
            {"a", "c", "r"},
        ),
        (f"{BRANCHES} {READ} y = Add (a, b)", set()),
    ],
)
def test_concerned_is_what_computing_nodes_read_of_the_tensors_tied_to_joins(body, names):
    outputs = "float[] y, float[] s" if READ in body else "float[] y"
    graph = import_graph(infer_shapes(net([1, 2, 4, 4], body, outputs=outputs, **CONSTANTS)))
    assert {*concerned(graph, plan(graph, Context(Settings(load_target("onnx")))))} == names


def test_a_tensor_that_is_zero_throughout_loses_nothing():
    ranges = {"x": OTHER, "a": (0, 0), "b": WIDE, "y": WIDE, "s": OTHER}
    _, joined = judged(f"{BRANCHES} {READ} {CONCAT}", "float[] y, float[] s", **ranges)
    assert tables(joined) == set()


def test_what_a_pad_fills_with_is_no_range():
    body = f"""{BRANCHES} {READ} p = Pad (a, grow, low) r = Reshape (p, flat)
        q = Reshape (b, flat) y = Concat <axis = 0> (r, q)"""
    constants = {**CONSTANTS, "flat": np.array([-1])}
    graph = import_graph(
        infer_shapes(net([1, 2, 4, 4], body, outputs="float[] y, float[] s", **constants))
    )
    names = observed(graph, plan(graph, Context(Settings(load_target("onnx")))))
    assert "q" in names
    assert "r" not in names


@thoroughly(60)
@given(made=networks(), data=st.data())
def test_ends_of_moving_nodes_differ_at_tables_of_joins_alone(made, data):
    graph = import_graph(infer_shapes(made))
    settings = Settings(load_target("onnx"))
    chosen = plan(graph, Context(settings))
    both = st.tuples(st.integers(-9, 0), st.integers(0, 9))
    ranges = {name: Range(*data.draw(both)) for name in chosen.tensors}
    found = aligned(graph, chosen, Ranges(ranges, {}), settings)
    apart = {(each.tensor, each.result) for each in found.joins if each.table}
    ties = [pair for pair in chosen.ties if pair[0] in found.ranges]
    unlike = {pair for pair in ties if len({found.ranges[name] for name in pair}) > 1}
    assert unlike == apart


EYE = np.eye(2, dtype=np.float32)[:, :, None, None]

NODES = [
    "a = Conv (x, w)",
    "v = Conv (a, w)",
    "z = Conv (x, large)",
    "c = Concat <axis = 1> (a, z)",
    "y = Conv (c, both)",
]


def unlike(nodes=NODES):
    """One of two tensors of a Concat is forty times as wide; the other is read by v too."""
    ends = "float[N, 2, 4, 4] v, float[N, 2, 4, 4] y"
    text = f"g (float[N, 2, 4, 4] x) => ({ends}) {{ {' '.join(nodes)} }}"
    both = np.concatenate([EYE, EYE], axis=1)
    return model(text, w=EYE, large=40 * EYE, both=both)


def samples():
    return [{"x": numbers(2, 2, 4, 4, seed=seed)} for seed in range(4)]


def sqnr(result):
    return {each["name"]: each["sqnr_db"] for each in result.report["accuracy"]["outputs"]}


def test_a_table_saves_the_other_readers_of_a_narrow_tensor(monkeypatch):
    with_table = sqnr(quantize(unlike(), samples()))
    monkeypatch.setattr(joins, "LEAST_GAIN", np.inf)
    tied = sqnr(quantize(unlike(), samples()))
    assert with_table["v"] > tied["v"] + 20
    assert with_table["y"] > tied["y"] - 0.5


def test_the_order_of_nodes_does_not_matter():
    order = [NODES[i] for i in (2, 0, 3, 4, 1)]
    first, second = (quantize(unlike(nodes), samples()) for nodes in (NODES, order))
    assert recorded(first.model) == recorded(second.model)
    assert first.report["joins"] == second.report["joins"]


def test_the_terminal_shows_the_tables(tmp_path):
    desk = Desk(tmp_path, unlike(), numbers(8, 2, 4, 4))
    lines = desk.quantize("--verbose").out.splitlines()
    assert "Tables at joins: 1 of 2 inputs, losses predicted from histograms" in lines
    assert [line.split()[0] for line in lines if "e-0" in line and ".." in line] == ["a"]


def test_the_report_names_the_joins_and_every_key_is_described():
    entries = quantize(unlike(), samples()).report["joins"]
    assert {each["tensor"]: each["table"] for each in entries} == {"a": True, "z": False}
    described = (DOCS / "report.md").read_text("utf-8")
    section = described.partition("## `joins`")[2].partition("\n## ")[0]
    assert [key for key in entries[0] if f"`{key}`" not in section] == []
    assert json.dumps(entries)
    assert quantize(unlike(), samples(), alignment="tpu-mlir").report["joins"] == []


# Histograms of the tensors concerned alone


def tailed():
    """A Concat of a, which has heavy tails and another reader, and z, which is 1.3 as wide."""
    text = """g (float[N, 2, 4, 4] x, float[N, 2, 4, 4] u) =>
        (float[N, 2, 4, 4] v, float[N, 2, 4, 4] y) {
            a = Conv (x, w)
            v = Conv (a, w)
            z = Conv (u, w)
            c = Concat <axis = 1> (a, z)
            y = Conv (c, both)
        }"""
    return model(text, w=EYE, both=np.concatenate([EYE, EYE], axis=1))


def tailed_samples(count=6):
    """Of x one value in 32 is 1 or -1, the others are within 0.05; u is spread evenly."""
    random = np.random.default_rng(4)
    feeds = []
    for sign in range(count):
        x, u = (random.uniform(-1, 1, (1, 2, 4, 4)).astype(np.float32) for _ in range(2))
        x *= np.float32(0.05)
        x.flat[3] = (-1) ** sign
        feeds.append({"x": x, "u": np.float32(1.3) * u})
    return feeds


def graph_bytes(result):
    return result.model.graph.SerializeToString(deterministic=True)


def joined_by(result):
    return [
        (each["tensor"], each["table"], each["energies"]) for each in result.report["joins"]
    ]


def test_minmax_collects_the_histograms_that_say_where_a_table_pays():
    found = quantize(tailed(), tailed_samples())
    assert joined_by(found) == [("a", True, "histograms"), ("z", False, "histograms")]
    entries = {each["name"]: each for each in found.report["calibration"]["tensors"]}
    counted = {name for name, each in entries.items() if each["zeros"] is not None}
    assert counted == {"a", "z", "c"}  # c is joined of the others
    assert {name for name, each in entries.items() if each["std"] is not None} == counted
    assert {each["method"] for each in entries.values()} == {"minmax"}


@pytest.mark.thinned
@pytest.mark.parametrize("options", [{}, {"histograms": False}, {"alignment": "tpu-mlir"}])
@pytest.mark.parametrize("alignment", ["qpasses", "tpu-mlir"])
def test_a_run_and_a_table_of_the_same_samples_give_one_model(options, alignment, tmp_path):
    made, feeds, parts = tailed(), tailed_samples(), [tmp_path / "1", tmp_path / "2"]
    direct = quantize(made, feeds, alignment=alignment, accuracy="fast")
    options = {"alignment": alignment} | options
    for number, path in enumerate(parts, 1):
        calibrate(made, feeds, path, shard=(number, 2), **options)
    merge_tables(parts, tmp_path / "whole")
    one = calibrate(made, feeds, tmp_path / "one", **options)
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "one").read_bytes()
    for table in (one.table, tmp_path / "whole"):
        found = quantize(made, None, calibration_table=table, alignment=alignment)
        assert joined_by(found) == joined_by(direct)
        assert graph_bytes(found) == graph_bytes(direct)


def test_a_run_that_was_stopped_goes_on_with_its_histograms(tmp_path):
    made, feeds, steps = tailed(), tailed_samples(), []

    def stopping(stage, total):
        def advance():
            steps.append(stage)
            if steps.count("calibrate") == 3:
                raise KeyboardInterrupt

        return advance

    path, options = tmp_path / "table", {"histograms": False, "workers": 1}
    with pytest.raises(KeyboardInterrupt):
        calibrate(made, feeds, path, progress=stopping, **options)
    assert (tmp_path / "table.checkpoint").exists()
    resumed = calibrate(made, feeds, path, **options)
    assert resumed.report["samples"]["resumed"] > 0
    assert resumed.table == calibrate(made, feeds, **options).table
    assert {n for n, each in resumed.table.tensors.items() if each.histogram} == {
        "a",
        "c",
        "z",
    }


def test_a_table_without_histograms_is_judged_by_extremes():
    made, feeds = tailed(), tailed_samples()
    table = calibrate(made, feeds, histograms=False).table
    bare = {name: replace(each, histogram=None) for name, each in table.tensors.items()}
    found = quantize(made, None, calibration_table=replace(table, tensors=bare))
    assert joined_by(found) == [("a", False, "extremes"), ("z", False, "extremes")]


def test_ranges_of_another_tool_are_judged_by_extremes(tmp_path):
    made, feeds, path = tailed(), tailed_samples(), tmp_path / "table"
    calibrate(made, feeds, path, table_format="onnxruntime")
    found = quantize(made, feeds, calibration_table=path)
    assert {each["energies"] for each in found.report["joins"]} == {"extremes"}


def test_the_rules_of_tpu_mlir_collect_no_histograms():
    entries = quantize(tailed(), tailed_samples(), alignment="tpu-mlir").report["calibration"]
    assert {each["zeros"] for each in entries["tensors"]} == {None}


def test_memory_does_not_grow_with_the_number_of_samples():
    made = tailed()
    feed = {name: np.tile(x, (64, 1, 1, 1)) for name, x in tailed_samples(1)[0].items()}

    def peak(count):
        gc.collect()
        gc.disable()  # else the peak is where it happens to collect
        tracemalloc.start()
        calibrate(made, [feed] * count, histograms=False, workers=1)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        gc.enable()
        return found

    peak(10)
    each = (peak(1510) - peak(10)) / 1500
    assert each < feed["x"].nbytes / 50  # its name and position, not its values
