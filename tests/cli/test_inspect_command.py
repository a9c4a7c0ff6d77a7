"""qpasses inspect of models that are not integer yet, of two models, and in a viewer."""

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from rich.console import Console

import qpasses
from qpasses.report.fitted_tables import Column, fitting, folded, print_fitted
from qpasses.report.preview_tables import print_preview
from tests.support.commands import MODEL, USAGE, Desk, assert_refused, run
from tests.support.quantized_nets import PLAIN, net
from tests.support.small_models import cnn, layered, model, numbers, pictures, save

MIXED = """g (float[N, 1, 8, 8] x) => (float[N, 4] y, float[N, 1] z) {
    [conv] a = Conv <pads = [1, 1, 1, 1]> (x, w1)
    [relu] r = Relu (a)
    [mean] p = GlobalAveragePool (r)
    [flat] f = Flatten (p)
    [scores] y = MatMul (f, w2)
    [times] t = ReduceProd <axes = [-1]> (y)
    [half] z = Mul (t, k)
}"""
"""ReduceProd has no integer form."""

JOINED = """g (float[N, 4] x) => (float[N, 10] y) {
    [first] a = MatMul (x, w1)
    [second] b = MatMul (x, w2)
    [join] c = Concat <axis = 1> (a, b)
    [out] y = Reshape (c, rows)
}"""

FREE = "g (float[N, C, H, W] x) => (float[N, C, H, W] y) { [wave] y = Sigmoid (x) }"


def mixed():
    weights = {"w1": numbers(4, 1, 3, 3), "w2": numbers(4, 4)}
    return model(MIXED, **weights, k=np.float32(0.5))


def joined(scale=1.0):
    weights = {"w1": numbers(4, 5), "w2": numbers(4, 5) * np.float32(scale)}
    return model(JOINED, **weights, rows=np.int64([-1, 10]))


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path, mixed(), pictures())


def names(nodes):
    return [each["name"] for each in nodes]


# Before quantizing


def test_a_float_model_is_described(desk):
    found = json.loads(run("inspect", desk.model, "--json").out)
    assert found["size"] == desk.model.stat().st_size
    assert found["opsets"] == {"ai.onnx": 17} and not found["quantized_before"]
    assert found["inputs"] == [{"name": "x", "type": "float32", "shape": ["N", 1, 8, 8]}]
    assert [each["name"] for each in found["outputs"]] == ["y", "z"]
    assert found["parameters"] == 36 + 16 + 1
    assert found["ops"]["Conv"] == 1 and sum(found["ops"].values()) == 7
    foreseen = found["foreseen"]
    assert foreseen["sizes"] == {"x": [1, 1, 8, 8]}
    assert foreseen["macs"] == foreseen["integer_macs"] == 64 * 36 + 16


def test_what_would_become_integer_is_named_and_what_not_with_the_reason(desk):
    foreseen = qpasses.preview(desk.model).foreseen
    integer = {each["name"]: each for each in foreseen.integer_nodes}
    assert integer["conv"] == {
        "name": "conv",
        "op_type": "IntConv",
        "source": ["conv", "relu"],
    }
    assert names(foreseen.float_nodes) == ["times", "half"]
    assert "ReduceProd has no integer form" in foreseen.float_nodes[0]["reason"]


OTHERS = {
    "mixed": (mixed, pictures),
    "a network": (cnn, pictures),
    "layers": (layered, lambda: numbers(3, 8, 6, 6)[:, None]),
    "a join": (joined, lambda: numbers(8, 4)),
    "a join of unlike ranges": (lambda: joined(1e-3), lambda: numbers(8, 4)),
    "quantized": (lambda: net(PLAIN), lambda: numbers(3, 2, 6, 6)[:, None]),
}


@pytest.mark.thinned
@pytest.mark.parametrize("name", OTHERS)
def test_quantize_does_what_was_foreseen(name):
    given, data = (each() for each in OTHERS[name])
    foreseen = qpasses.preview(given).foreseen
    summary = qpasses.quantize(given, data).report["summary"]
    left = {each["name"]: each for each in summary["float_nodes"]}
    open_ = set(names(foreseen.by_ranges))
    assert [left[each] for each in left if each not in open_] == list(foreseen.float_nodes)
    assert foreseen.macs == summary["macs"]


def test_where_ranges_decide_is_said_and_true():
    assert set(names(qpasses.preview(joined()).foreseen.by_ranges)) == {"join", "out"}
    for scale, left in ((1.0, set()), (1e-3, {"join", "out"})):
        made = qpasses.quantize(joined(scale), numbers(8, 4))
        assert set(names(made.report["summary"]["float_nodes"])) == left


def test_scales_that_a_model_says_itself_leave_ranges_nothing_to_decide():
    stored = qpasses.quantize(joined(1.0), numbers(8, 4), emit="qdq").model
    found = qpasses.preview(stored)
    assert found.quantized_before and not found.unknown
    assert not found.foreseen.by_ranges and not found.foreseen.float_nodes
    assert {"join", "out"} <= {*names(found.foreseen.integer_nodes)}


def test_a_quantized_model_says_which_scales_samples_must_give():
    found = qpasses.preview(net("y = Sigmoid (x)", outputs="float[N, 2, 6, 6] y"))
    assert not found.quantized_before
    found = qpasses.preview(net(PLAIN.replace("y = Deq", "e = Deq") + " y = Sigmoid (e)"))
    assert found.quantized_before
    assert found.foreseen.scales_from_samples == ["y"]


def test_free_sizes_leave_it_unknown_until_they_are_given(tmp_path):
    path = save(tmp_path, "free.onnx", model(FREE))
    shown = run("inspect", path)
    assert shown.code == 0
    assert "not known" in shown.out and "--input-shape x:1,?,?,?" in shown.out
    found = json.loads(run("inspect", path, "--json", "--input-shape", "1,2,3,4").out)
    assert found["unknown"] == "" and found["inputs"][0]["shape"] == [1, 2, 3, 4]
    assert names(found["foreseen"]["integer_nodes"]) == ["wave"]


def test_a_model_that_cannot_be_quantized_is_described_with_the_reason(tmp_path):
    text = "g (string[4] x) => (string[4] y) { y = Identity (x) }"
    path = save(tmp_path, "texts.onnx", model(text))
    found = json.loads(run("inspect", path, "--json").out)
    assert found["foreseen"] is None and found["unknown"]
    assert found["ops"] == {"Identity": 1}


def test_the_terminal_folds_by_op_and_reason(desk):
    shown = run("inspect", desk.model)
    assert (shown.code, shown.err) == (0, "")
    lines = [" ".join(line.split()) for line in shown.out.splitlines()]
    assert "1 IntConv conv" in lines
    assert "1 ReduceProd ReduceProd has no integer form in this version times" in lines
    assert any(line.startswith("multiply-accumulates 2,320, 100.0%") for line in lines)


def test_of_many_nodes_the_first_are_named():
    chain = " ".join(f"[n{i}] t{i + 1} = ReduceProd <axes = [1]> (t{i})" for i in range(9))
    text = f"g (float[2, 1] t0) => (float[2, 1] t9) {{ {chain} }}"
    written = io.StringIO()
    found = qpasses.preview(model(text))
    print_preview(Console(file=written, width=80), found.as_json())
    assert "n0, n1, n2 and 6 more" in " ".join(written.getvalue().split())
    assert max(map(len, written.getvalue().splitlines())) <= 80


def test_the_text_of_a_float_model_is_shown_too(desk):
    assert onnx.parser.parse_model(run("inspect", desk.model, "--text").out).graph.node


def test_what_quantize_writes_as_qdq_is_a_quantized_model(desk):
    assert desk.quantize("--emit", "qdq", "--nodes-to-exclude", "times").code == 0
    assert json.loads(run("inspect", desk.output, "--json").out)["quantized_before"]


def test_an_integer_model_is_no_model_to_preview(desk):
    assert desk.quantize().code == 0
    with pytest.raises(qpasses.ModelError, match="already"):
        qpasses.preview(desk.output)


@pytest.mark.parametrize("content", [b"no model", b""])
def test_what_is_no_onnx_is_refused(tmp_path, content):
    path = save(tmp_path, "bad.onnx", content)
    assert_refused(run("inspect", path), MODEL, path)
    assert_refused(run("inspect", path, "--diff", path), MODEL, path)


# Two models


def test_the_exit_code_says_whether_two_models_differ(desk):
    assert desk.quantize().code == 0
    same = run("inspect", desk.output, "--diff", desk.output)
    assert same.code == 0 and "the same: no node differs" in same.out
    unlike = run("inspect", desk.model, "--diff", desk.output)
    assert unlike.code == 1 and unlike.err == ""
    assert "IntConv" in unlike.out and "in one alone" in unlike.out


def test_the_difference_is_json_too(desk):
    assert desk.quantize().code == 0
    ended = run("inspect", desk.model, "--diff", desk.output, "--json")
    found = json.loads(ended.out, parse_constant=pytest.fail)
    assert ended.code == 1 and found["same"] is False
    assert found["other"]["file"] == desk.output.stat().st_size


def test_unrelated_models_are_a_usage_error(desk):
    other = save(desk.folder, "other.onnx", model(FREE))
    assert_refused(run("inspect", desk.model, "--diff", other), USAGE, "no node in common")


# In a viewer


@pytest.fixture
def netron(monkeypatch):
    """A Netron that keeps what it is asked to show."""
    shown = SimpleNamespace(models=[], asked=[])

    def start(file, address, browse):
        if address[1] == 7:
            raise OSError(13, "Permission denied")
        shown.models.append(onnx.load(file))
        shown.asked.append((Path(file), address, browse))
        return address[0], address[1] or 8080

    monkeypatch.setitem(sys.modules, "netron", SimpleNamespace(start=start, wait=lambda: None))
    return shown


def entries(made, name):
    (node,) = [each for each in made.graph.node if each.name == name]
    return {each.key: each.value for each in node.metadata_props}


def test_netron_shows_a_copy_whose_nodes_say_what_is_known_of_them(desk, netron):
    assert desk.quantize().code == 0
    before = desk.output.read_bytes()
    ended = run("inspect", desk.output, "--serve", "8123")
    assert ended.code == 0 and "http://localhost:8123" in ended.out
    assert desk.output.read_bytes() == before
    ((file, address, browse),) = netron.asked
    assert (address, browse) == (("localhost", 8123), False)
    assert file != desk.output and not file.exists()
    shown = entries(netron.models[0], "conv")
    assert shown["evidence"].startswith("thresholds: ") and "0 mismatches" in shown["evidence"]
    assert shown["body"].startswith("onnxruntime")
    assert "real = (stored - " in shown["scale of y"]
    assert "ReduceProd has no integer form" in entries(netron.models[0], "times")["float"]


def test_netron_shows_of_a_float_model_what_would_become_integer(desk, netron):
    assert run("inspect", desk.model, "--serve", "8123").code == 0
    (shown,) = netron.models
    assert entries(shown, "relu") == {"becomes": "IntConv conv"}
    assert "ReduceProd" in entries(shown, "times")["stays in float"]


def test_a_browser_is_opened_where_there_is_one(desk, netron, monkeypatch):
    monkeypatch.setenv("BROWSER", "true")
    monkeypatch.setattr("webbrowser.get", lambda: object())
    assert run("inspect", desk.model, "--view").code == 0
    assert netron.asked[0][1:] == (("localhost", None), True)


def test_without_a_browser_the_way_out_is_said(desk, netron, monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert_refused(run("inspect", desk.model, "--view"), USAGE, "--serve 8080", "ssh -L")
    assert netron.models == []


def test_without_netron_the_extra_is_named(desk, monkeypatch):
    monkeypatch.setitem(sys.modules, "netron", None)
    ended = run("inspect", desk.model, "--view")
    assert_refused(ended, USAGE, "pip install 'qpasses[view]'")


def test_a_port_that_cannot_be_served_is_named(desk, netron):
    assert_refused(run("inspect", desk.model, "--serve", "7"), USAGE, "port 7", "Permission")


# Tables that fit


COLUMNS = (
    Column("node", folds=True),
    Column("op"),
    Column("far", rank=2),
    Column("near", rank=1),
)
ROWS = [["a/long/name/of/a/node/that/goes/on", "IntConv", "1" * 20, "2" * 20]]


@pytest.mark.parametrize(
    ("width", "shown"), [(200, 4), (90, 4), (73, 4), (72, 3), (51, 3), (50, 2), (10, 2)]
)
def test_columns_go_that_matter_least_and_names_shrink_before(width, shown):
    places, widths = fitting(width, COLUMNS, ROWS)
    assert places == {4: [0, 1, 2, 3], 3: [0, 1, 3], 2: [0, 1]}[shown]
    assert 20 <= widths[0] <= 34


def test_a_name_keeps_both_its_ends():
    assert folded("abcdefghij", 7) == "abc\N{HORIZONTAL ELLIPSIS}hij"
    assert folded("abcdefghij", 10) == "abcdefghij"


def test_what_is_left_out_is_said():
    written = io.StringIO()
    print_fitted(Console(file=written, width=60), COLUMNS, ROWS)
    assert "not shown at this width: far (--json has all)" in written.getvalue()
    assert "IntConv" in written.getvalue()
