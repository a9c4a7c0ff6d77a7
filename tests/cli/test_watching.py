"""Looking on: --print-after, --stop-after, --quiet, --verbose, and the callback of Python."""

import json
from functools import cache

import numpy as np
import onnx
import onnx.checker
import onnx.parser
import pytest
from onnx import numpy_helper

import qpasses
from qpasses.pipeline import pass_table
from tests.support.commands import (
    USAGE,
    Desk,
    assert_refused,
    read_json,
    run,
    run_in_a_process,
)
from tests.support.small_models import cnn, model, numbers, pictures, save, session

NAMED = """
named (float[N, 1, 8, 8] x) => (float[N, 3] "scores/y:0") {
    ["block/conv"] "block/conv:0" = Conv <pads = [1, 1, 1, 1]> (x, "block.w", "block.b")
    ["block/relu"] "block/relu:0" = Relu ("block/conv:0")
    ["head, mean"] "head [mean]" = GlobalAveragePool ("block/relu:0")
    ["head flat"] flat = Flatten ("head [mean]")
    ["head/gemm"] "scores/y:0" = MatMul (flat, "head.w")
}"""
"""Names as exporters give them: no identifiers."""


@cache
def named():
    made = model(NAMED)
    weights = {"block.w": numbers(4, 1, 3, 3), "block.b": numbers(4), "head.w": numbers(4, 3)}
    for name, values in weights.items():
        made.graph.initializer.append(numpy_helper.from_array(values, name))
    return made


def passes():
    """The names that ``qpasses passes`` lists, in order."""
    ended = run("passes")
    assert (ended.code, ended.err) == (0, "")
    return [line.split()[0] for line in ended.out.splitlines()[1:]]


ALL = [row[0] for row in pass_table()]
ORDINARY = [name for name in ALL if name != "integer-edges"]
"""The passes that run where integers at the edges are not wanted."""


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path, cnn(), pictures())


def printed(output):
    """Name and text of each graph in what a command prints."""
    found = []
    for part in ("\n" + output).split("\n# after ")[1:]:
        name, text = part.split("\n", 1)
        found.append((name, text[: text.index("\n}\n") + 3]))
    return found


# Listing and watching


def test_passes_lists_every_pass_with_stage_and_purpose():
    assert passes() == ALL
    lines = run("passes").out.splitlines()[1:]
    assert {line.split()[1] for line in lines} == {"prepare", "place", "integerize"}
    assert all(len(line.split()) > 4 for line in lines)


@pytest.mark.parametrize("integer_io", [False, True])
def test_the_callback_sees_every_pass_in_the_order_of_the_list(integer_io):
    seen = []

    def after(name, graph):
        seen.append(name)
        assert graph.nodes

    qpasses.quantize(cnn(), pictures(), integer_io=integer_io, after=after)
    assert seen == (passes() if integer_io else ORDINARY)


def test_the_callback_sees_the_graph_as_it_is_then():
    ops = {}

    def after(name, graph):
        ops[name] = {node.op for node in graph.nodes}

    qpasses.quantize(cnn(), pictures(), after=after)
    assert "QuantizeLinear" not in ops["fold-batch-normalization"]
    assert {"QuantizeLinear", "Conv", "Gemm"} <= ops["place"]
    assert {"IntConv", "Gemm"} <= ops["integerize-conv"]
    assert {"IntConv", "IntGemm"} <= ops["integerize-gemm"]


# --print-after


@pytest.mark.parametrize("made", [cnn, named])
def test_every_printed_graph_is_a_model_for_onnxs_parser(tmp_path, made):
    options = [part for name in ALL for part in ("--print-after", name)]
    ended = Desk(tmp_path, made(), pictures()).quantize("--integer-io", *options)
    assert ended.code == 0, ended.err
    graphs = printed(ended.out)
    assert [name for name, _ in graphs] == ALL
    for _, text in graphs:
        assert len(onnx.parser.parse_model(text).graph.node) > 3


def test_graphs_are_printed_in_the_order_of_the_passes_each_once(desk):
    wanted = "integerize-conv", "place", "sum-to-add", "place"
    options = [part for name in wanted for part in ("--print-after", name)]
    ended = desk.quantize(*options)
    names = [name for name, _ in printed(ended.out)]
    assert names == ["sum-to-add", "place", "integerize-conv"]
    assert desk.output.exists()


def test_the_printed_graph_is_the_one_of_that_pass(desk):
    ended = desk.quantize("--print-after", "place", "--print-after", "integerize-conv")
    (_, place), (_, conv) = printed(ended.out)
    ops = [
        [node.op_type for node in onnx.parser.parse_model(t).graph.node] for t in (place, conv)
    ]
    assert (ops[0].count("Conv"), ops[1].count("Conv")) == (1, 0)
    assert (ops[0].count("IntConv"), ops[1].count("IntConv")) == (0, 1)


def test_printing_changes_nothing_in_the_model(desk):
    desk.quantize()
    plain = desk.output.read_bytes()
    desk.quantize("--print-after", "place", "--print-after", "sum-to-add")
    assert desk.output.read_bytes() == plain


# --stop-after


@pytest.mark.thinned
@pytest.mark.parametrize("name", ALL)
def test_one_can_stop_after_every_pass_with_a_model_that_runs(desk, name):
    extra = ["--integer-io"] if name == "integer-edges" else []
    ended = desk.quantize("--stop-after", name, *extra)
    assert ended.code == 0, ended.err
    report = read_json(desk.report)
    assert report["summary"]["verdict"] == "incomplete"
    assert report["evidence"]["nodes"] == []
    assert report["accuracy"]["outputs"][0]["sqnr_db"] > 30
    made = onnx.load(desk.output)
    onnx.checker.check_model(made)
    session(made)


def test_a_stopped_graph_holds_what_the_passes_up_to_there_made(desk):
    types = {}
    for name in (
        "fold-batch-normalization",
        "place",
        "integerize-conv",
        "read-stored",
    ):
        desk.quantize("--stop-after", name)
        types[name] = [node.op_type for node in onnx.load(desk.output).graph.node]
    assert "QuantizeLinear" not in types["fold-batch-normalization"]
    assert {"Conv", "DequantizeLinear"} <= set(types["place"])
    assert {"IntConv", "Gemm"} <= set(types["integerize-conv"])
    assert {"IntConv", "IntGemm"} <= set(types["read-stored"])


def test_the_callback_ends_with_the_pass_stopped_after():
    for name in ("canonicalize-gemm", "place", "integerize-add"):
        seen = []
        qpasses.quantize(
            cnn(),
            pictures(),
            stop_after=name,
            after=lambda each, _, seen=seen: seen.append(each),
        )
        assert seen == ORDINARY[: ORDINARY.index(name) + 1]


def test_nodes_that_would_have_become_integer_are_listed_as_stopped(desk):
    desk.quantize("--stop-after", "integerize-conv")
    floats = read_json(desk.report)["summary"]["float_nodes"]
    reasons = {node["op_type"]: node["reason"] for node in floats}
    assert reasons["Gemm"] == "stopped after integerize-conv"


@pytest.mark.parametrize("emit", ["qdq", "standard"])
def test_a_stopped_graph_is_emitted_as_it_is(desk, emit):
    message = desk.refused("--stop-after", "fold-batch-normalization", "--emit", emit)
    assert "fold-batch-normalization" in message and emit in message


def test_the_edges_become_integer_only_where_that_is_wanted(desk):
    assert "integer-edges" in desk.refused("--stop-after", "integer-edges")
    assert desk.quantize("--stop-after", "integer-edges", "--integer-io").code == 0


def test_a_stopped_model_is_not_verified(desk):
    desk.quantize("--stop-after", "integerize-conv")
    ended = desk.verify()
    assert ended.code == 3 and "--stop-after integerize-conv" in ended.err


@pytest.mark.parametrize("option", ["--print-after", "--stop-after"])
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("integerise-conv", "'integerize-conv'"),
        ("IntegerizeConv", "integerize-conv"),
        ("placed", "'place'"),
        ("xyzzy", "read-stored"),
        ("", "read-stored"),
    ],
)
def test_a_mistyped_pass_is_named_with_a_hint(desk, option, name, hint):
    message = desk.refused(option, name)
    assert repr(name) in message
    assert hint in message


def test_a_mistyped_pass_is_refused_from_python_before_any_work():
    with pytest.raises(qpasses.UsageError, match=r"'plaice'.*'place'"):
        qpasses.quantize("absent.onnx", "absent.npy", stop_after="plaice")


# --quiet and --verbose


def test_quiet_commands_say_nothing_when_all_is_well(desk):
    for ended in (desk.quantize("--quiet", runner=run_in_a_process), desk.verify("--quiet")):
        assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert read_json(desk.report)["summary"]["verdict"] == "ok"


def test_quiet_keeps_quiet_about_warnings_and_float_nodes(tmp_path):
    made = model(
        "g (float[N, 4] x) => (float[N, 4] y) { s = Softmax (x) y = MatMul (s, w) }", w=EYE
    )
    desk = Desk(tmp_path, made, numbers(8, 4))
    ended = desk.quantize("--quiet")
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert read_json(desk.report)["summary"]["verdict"] == "incomplete"


EYE = np.eye(4, dtype=np.float32)


def with_other_weights():
    """CNN with other weights: verify finds that much is unlike, in long lines."""
    made = cnn()
    (weights,) = [each for each in made.graph.initializer if each.name == "w1"]
    weights.CopyFrom(numpy_helper.from_array(numbers(4, 1, 3, 3, seed=9), "w1"))
    return made


def test_quiet_still_says_what_is_wrong_one_problem_a_line(desk):
    assert desk.quantize().code == 0
    desk.model = save(desk.folder, "other.onnx", with_other_weights())
    ended = desk.verify("--quiet")
    assert (ended.code, ended.out) == (1, "")
    problems = read_json(desk.report)["summary"]["problems"]
    assert len(problems) > 2
    assert ended.err.splitlines() == [f"problem: {problem}" for problem in problems]


def test_quiet_prints_errors(desk):
    ended = desk.quantize("--quiet", "--samples", "0")
    assert_refused(ended, USAGE, "--samples")
    assert ended.out == ""


def test_quiet_prints_the_graphs_that_are_asked_for_and_nothing_else(desk):
    ended = desk.quantize("--quiet", "--print-after", "place")
    assert ended.out.startswith("# after place\n")
    assert "verdict" not in ended.out
    onnx.parser.parse_model(ended.out)


def test_verbose_prints_every_stage_and_pass_with_its_time_apart_from_the_report(desk):
    ended, plain = desk.quantize("--verbose"), desk.quantize()
    for name in [*ORDINARY, "prepare", "calibrate", "prove", "in all"]:
        assert any(name in line and " s " in line for line in ended.err.splitlines()), name
    shown = {" ".join(line.split()) for line in ended.out.splitlines()}
    said = [" ".join(line.split()) for line in plain.out.splitlines()[2:]]
    why = "fewer than 8 samples are left for it: give more"
    assert {*said} - shown == {f"not tried correction of biases: {why}"}
    assert f"biases corrected none, of 0 nodes: {why}" in shown
    assert "Evidence" in ended.out and "Evidence" not in plain.out


def test_verify_is_verbose_too(desk):
    desk.quantize()
    ended = desk.verify("--verbose")
    assert ended.code == 0
    for stage in ("compare with the float graph", "probe kernels", "run samples"):
        assert stage in ended.err


@pytest.mark.parametrize("command", ["quantize", "verify"])
def test_quiet_and_verbose_exclude_each_other(desk, command):
    desk.quantize()
    ended = getattr(desk, command)("--quiet", "--verbose")
    assert_refused(ended, USAGE, "--quiet", "--verbose")
    assert ended.out == ""


# A model in memory


def test_a_model_in_memory_is_quantized_and_verified_as_its_file(desk):
    desk.quantize()
    made = cnn()
    before = made.SerializeToString(deterministic=True)
    result = qpasses.quantize(made, pictures())
    assert result.model.SerializeToString(deterministic=True) == desk.output.read_bytes()
    assert qpasses.verify(result.model, made, pictures()).verdict == "ok"
    assert made.SerializeToString(deterministic=True) == before
    assert desk.model.read_bytes() == onnx.load(desk.model).SerializeToString()


def test_a_model_in_memory_can_be_written(tmp_path):
    output = tmp_path / "out.onnx"
    result = qpasses.quantize(cnn(), pictures(), output, json_file=tmp_path / "out.json")
    assert output.read_bytes() == result.model.SerializeToString(deterministic=True)
    assert read_json(tmp_path / "out.json") == json.loads(json.dumps(result.report))


@pytest.mark.parametrize("version", [3, 8])
def test_a_bad_model_in_memory_is_named_as_such_and_left_as_it_was(version):
    made = cnn(ir_version=version)
    made.graph.node[2].input[0] = "nowhere"
    before = made.SerializeToString(deterministic=True)
    with pytest.raises(qpasses.ModelError, match=r"ModelProto.*nowhere"):
        qpasses.quantize(made, pictures())
    assert made.SerializeToString(deterministic=True) == before
