"""qpasses inspect: every node of an integer model with its numbers."""

import io
import json
import subprocess
import sys
from functools import cache
from types import SimpleNamespace

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper
from rich.console import Console

import qpasses
from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from qpasses.report.inspection_tables import print_inspection
from tests.support.commands import MODEL, USAGE, assert_refused, run
from tests.support.small_models import (
    cnn,
    every_tensor,
    model,
    nodes_as_onnx,
    numbers,
    pictures,
    save,
)

ALL_KINDS = """
all_kinds (float[N, 1, 8, 8] x) => (float[N, 3] scores, float[N, 1] shares) {
    [conv] a = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
    [relu] r = Relu (a)
    [other] b = Conv <kernel_shape = [1, 1]> (x, w2)
    [sum] s = Add (r, b)
    [pool] p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (s)
    [clip] c = Clip (p, low, high)
    [average] v = AveragePool <kernel_shape = [2, 2]> (c)
    [mean1] g = GlobalAveragePool (v)
    [mean2] h = GlobalAveragePool (p)
    [both] q = Add (g, h)
    [flat] f = Flatten (q)
    [product] scores = Gemm (f, w3, b3)
    [times] shares = ReduceProd <axes = [-1]> (scores)
}"""
"""A node of each kind; the Clip becomes a table."""

WIDE = "g (float[N, 4] x) => (float[N, 80] y) { [product] y = MatMul (x, w) }"


@pytest.fixture(scope="module")
def inspected(tmp_path_factory):
    """The integer form of ALL_KINDS: the file, the model, its report."""
    weights = {
        "w1": numbers(4, 1, 3, 3),
        "b1": numbers(4),
        "w2": numbers(4, 1, 1, 1),
        "low": np.float32(0),
        "high": np.float32(0.5),
        "w3": numbers(4, 3),
        "b3": numbers(3),
    }
    folder = tmp_path_factory.mktemp("inspected")
    result = qpasses.quantize(model(ALL_KINDS, **weights), pictures(), folder / "made.onnx")
    return SimpleNamespace(
        path=folder / "made.onnx",
        model=result.model,
        report=result.report,
        values={t.name: numpy_helper.to_array(t) for t in result.model.graph.initializer},
    )


def shown(*arguments):
    """What a command prints, which ends well and says nothing else."""
    ended = run("inspect", *arguments)
    assert (ended.code, ended.err) == (0, "")
    return ended.out


def as_json(*arguments):
    """Strict JSON: no NaN, no Infinity."""
    return json.loads(shown(*arguments, "--json"), parse_constant=pytest.fail)


def words(text):
    """Lines as lists of words."""
    return [line.split() for line in text.splitlines()]


def evidence(inspected):
    return {node["name"]: node for node in inspected.report["evidence"]["nodes"]}


def integer_nodes(inspected):
    return [node for node in inspected.model.graph.node if node.domain == DOMAIN]


def constants(node, inspected):
    """The constant inputs of a node by the names of its op's signature."""
    pairs = zip(OPS[node.op_type].inputs, node.input, strict=True)
    return {
        formal: inspected.values[name] for formal, name in pairs if name in inspected.values
    }


# The table


def test_the_table_has_every_node_with_its_op_in_graph_order(inspected):
    lines = words(shown(inspected.path))
    start = next(i for i, line in enumerate(lines) if line[:2] == ["node", "from"])
    rows = [line for line in lines[start + 1 :] if len(line) > 3]
    nodes = nodes_as_onnx(inspected.model)
    assert [row[0] for row in rows] == [node.name for node in nodes]
    for row, node in zip(rows, nodes, strict=True):
        assert node.op_type in row


def test_the_table_says_how_each_node_is_known(inspected):
    rows = {line[0]: line for line in words(shown(inspected.path)) if line}
    for name, node in evidence(inspected).items():
        assert rows[name][-2:] == [node["kind"], node["body"]]
    assert "float ReduceProd has no integer form" in " ".join(rows["times"])


def test_the_table_has_the_span_of_multipliers_and_shifts(inspected):
    rows = {line[0]: line for line in words(shown(inspected.path)) if line}
    for node in integer_nodes(inspected):
        for name in ("multiplier", "shift"):
            if name in (given := constants(node, inspected)) and node.op_type != "IntAdd":
                low, high = given[name].min(), given[name].max()
                assert (f"{low}" if low == high else f"{low}..{high}") in rows[node.name]


def test_the_table_begins_with_where_the_model_comes_from(inspected):
    lines = words(shown(inspected.path))[:5]
    assert ["target", "onnx"] in lines
    assert ["bodies", "onnxruntime"] in lines
    assert ["calibrated", "on", "8", "samples"] in lines
    assert ["float", "model", "sha256", inspected.report["model"]["sha256"]] in lines


def test_the_table_shows_every_name_of_a_real_model_in_one_piece(tmp_path):
    name = "features/0/block/2/depthwise/convolution/quantizable"
    made = model(WIDE, w=numbers(4, 80))
    made.graph.node[0].name = name
    qpasses.quantize(made, numbers(8, 4), tmp_path / "made.onnx")
    assert name in shown(tmp_path / "made.onnx")


def test_the_api_gives_the_same_rows(inspected):
    found = qpasses.inspect(inspected.model)
    assert [row.name for row in found.rows] == [n.name for n in nodes_as_onnx(inspected.model)]
    assert json.loads(json.dumps(found.as_json())) == as_json(inspected.path)
    assert qpasses.inspect(inspected.path).node("conv").source == ["conv", "relu"]


# One node


def test_a_node_is_shown_with_its_formula_and_where_it_comes_from(inspected):
    for node in integer_nodes(inspected):
        text = " ".join(shown(inspected.path, "--node", node.name).split())
        assert text.startswith(f"{node.name} qpasses.{node.op_type} from ")
        assert " ".join(OPS[node.op_type].doc.split()) in text
    assert "from conv, relu" in shown(inspected.path, "--node", "conv")


def test_a_node_is_found_by_the_tensor_it_writes(inspected):
    for node in integer_nodes(inspected):
        by_tensor = shown(inspected.path, "--node", node.output[0])
        assert by_tensor == shown(inspected.path, "--node", node.name)


@pytest.mark.parametrize("name", ["conv", "product"])
def test_multipliers_shifts_and_biases_are_listed_by_channel(inspected, name):
    (node,) = [node for node in integer_nodes(inspected) if node.name == name]
    given = constants(node, inspected)
    lines = words(shown(inspected.path, "--node", name))
    start = next(i for i, line in enumerate(lines) if line[:1] == ["channel"])
    for channel, cells in enumerate(lines[start + 1 :][: given["bias"].size]):
        multiplier, shift = (int(given[key][channel]) for key in ("multiplier", "shift"))
        assert cells[:3] == [str(channel), str(multiplier), str(shift)]
        assert float(cells[3]) == pytest.approx(multiplier / 2**shift, rel=1e-8)
        assert float(cells[4]) == pytest.approx(multiplier / 2**shift, rel=2**-14)
        assert cells[-1] == str(given["bias"][channel])


def test_the_stored_tensors_around_a_node_are_shown_with_their_meaning(inspected):
    row = qpasses.inspect(inspected.model).node("product")
    text = shown(inspected.path, "--node", "product")
    assert len(row.inputs) == len(row.outputs) == 1
    for each in (*row.inputs, *row.outputs):
        assert f"{each.tensor} uint8[N, " in text
        assert f"(stored - {each.zero_point}) * {each.scale:.9g}" in text
    lines = words(text)
    given = constants(
        next(n for n in integer_nodes(inspected) if n.name == "product"), inspected
    )
    for name in ("x_zero", "y_zero", "y_min", "y_max"):
        assert [name, str(given[name])] in lines


def test_the_evidence_of_a_node_is_that_of_the_report(inspected):
    for name, node in evidence(inspected).items():
        text = " ".join(shown(inspected.path, "--node", name).split())
        covered = f"{node['domain']:,} inputs" if node["domain"] else "every input"
        assert f"evidence {node['kind']}: {covered}" in text
        assert f"body {node['body']}" in text
        if node["accumulator"]:
            low, high = node["accumulator"]
            assert f"{low:,} .. {high:,}, {node['headroom_bits']} bits" in text


def test_a_table_is_shown_with_all_of_its_entries_by_the_byte_of_x(inspected):
    (node,) = [node for node in integer_nodes(inspected) if node.op_type == "Lut"]
    text = shown(inspected.path, "--node", node.name)
    rows = [line.split(":") for line in text.splitlines() if line.strip()[:1].isdigit()]
    assert [int(start) for start, _ in rows] == list(range(0, 256, 16))
    entries = [int(value) for _, values in rows for value in values.split()]
    assert entries == inspected.values[node.input[1]].tolist()


def test_more_channels_than_fit_are_left_to_the_json(tmp_path):
    path = tmp_path / "wide.onnx"
    qpasses.quantize(model(WIDE, w=numbers(4, 80)), numbers(8, 4), path)
    assert "16 more" in shown(path, "--node", "product")
    assert len(as_json(path, "--node", "product")["multiplier"]) == 80


def test_float_nodes_and_edges_can_be_asked_for_too(inspected):
    assert shown(inspected.path, "--node", "times").startswith("times  ReduceProd")
    assert shown(inspected.path, "--node", "x_quantize").startswith("x_quantize  Quantize")


@pytest.mark.parametrize(("name", "hint"), [("conw", "'conv'"), ("prodct", "'product'")])
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_name_that_no_node_has_is_named_with_a_hint(inspected, name, hint, form):
    ended = run("inspect", inspected.path, "--node", name, *form)
    assert_refused(ended, USAGE, repr(name), hint)
    assert ended.out == ""


# JSON


def test_the_json_has_a_row_per_node_and_the_models_record(inspected):
    found = as_json(inspected.path)
    assert [row["name"] for row in found["nodes"]] == [
        node.name for node in nodes_as_onnx(inspected.model)
    ]
    assert found["record"]["float_sha256"] == inspected.report["model"]["sha256"]
    configuration = json.loads(json.dumps(inspected.report["configuration"]))
    assert found["record"]["configuration"] == configuration


def test_the_json_of_a_node_is_its_row(inspected):
    for row in as_json(inspected.path)["nodes"]:
        assert as_json(inspected.path, "--node", row["name"]) == row


def test_the_proofs_in_the_json_are_those_of_the_report(inspected):
    proofs = [row["proof"] for row in as_json(inspected.path)["nodes"] if row["proof"]]
    assert proofs == json.loads(json.dumps(inspected.report["evidence"]["nodes"]))


def test_the_json_describes_every_stored_tensor(inspected):
    stored = every_tensor(inspected.model, {"x": pictures()})
    for row in as_json(inspected.path)["nodes"]:
        for each in (*row["inputs"], *row["outputs"]):
            codes = stored[each["tensor"]]
            assert each["type"] == codes.dtype.name
            assert each["shape"][1:] == list(codes.shape[1:])
            assert each["scale"] > 0


KINDS = [
    "IntConv",
    "IntGemm",
    "IntAdd",
    "IntAveragePool",
    "IntGlobalAveragePool",
    "Lut",
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_rebuilt_from_the_json_computes_what_onnxruntime_does(inspected, kind):
    stored = every_tensor(inspected.model, {"x": pictures()})
    rows = [row for row in as_json(inspected.path)["nodes"] if row["op"] == kind]
    assert rows
    for row in rows:
        op, given = OPS[kind], {each["input"]: each for each in row["inputs"]}
        arguments = [
            stored[given[name]["tensor"]] if name in given else _constant(row, name, kind)
            for name in op.inputs
        ]
        found = op.reference(*arguments, **row["attributes"])
        (y,) = row["outputs"]
        np.testing.assert_array_equal(found, stored[y["tensor"]], strict=True)


def _constant(row, name, kind):
    """A constant of a row of the JSON in the type that the op's signature gives it.

    A zero point, or an end, has that of the tensor that it is named after.
    """
    ends = {each["input"]: each["type"] for each in row["inputs"]}
    result = row["outputs"][0]["type"]
    of_tensor = ends.get(name.partition("_")[0], result)
    types = {"T": result, "Y": result, "S": of_tensor, "X": of_tensor, "W": "int8"}
    declared = OPS[kind].inputs[name].type
    return np.array(row["constants"][name], types.get(declared, declared))


def test_the_multipliers_of_the_json_are_what_the_real_scales_became(inspected):
    for row in as_json(inspected.path)["nodes"]:
        if row["multiplier"]:
            found = np.array(row["multiplier"]) / 2.0 ** np.array(row["shift"])
            np.testing.assert_allclose(found, row["real_scale"], rtol=2**-14)


# Text


@cache
def text_of(path):
    return shown(path, "--text")


def test_the_text_is_a_model_for_onnxs_parser_with_the_same_nodes(inspected):
    parsed = onnx.parser.parse_model(text_of(inspected.path))
    for ours, theirs in zip(parsed.graph.node, inspected.model.graph.node, strict=True):
        assert (ours.name, ours.op_type, ours.domain) == (
            theirs.name,
            theirs.op_type,
            theirs.domain,
        )
        assert list(ours.input) == list(theirs.input)
        assert list(ours.output) == list(theirs.output)


def test_the_text_has_small_constants_with_values_and_large_ones_as_types(inspected):
    parsed = onnx.parser.parse_model(text_of(inspected.path))
    found = {each.name: numpy_helper.to_array(each) for each in parsed.graph.initializer}
    types = {each.name: each.type.tensor_type for each in parsed.graph.value_info}
    for name, value in inspected.values.items():
        if value.size <= 16:
            np.testing.assert_allclose(found[name], value, rtol=1e-6, strict=True)
        else:
            assert name not in found
            dims = [each.dim_value for each in types[name].shape.dim]
            assert dims == list(value.shape)
    assert {value.size for value in inspected.values.values()} > {1, 36, 256}


def test_the_text_is_short_whatever_the_weights(tmp_path):
    path = tmp_path / "large.onnx"
    made = model("g (float[N, 500] x) => (float[N, 300] y) { y = MatMul (x, w) }", w=LARGE)
    qpasses.quantize(made, numbers(2, 500), path)
    assert path.stat().st_size > 150_000
    assert len(text_of(path)) < 10_000


LARGE = numbers(500, 300)


# What cannot be inspected


@cache
def emitted(emit):
    return qpasses.quantize(cnn(), pictures(), emit=emit).model


def stripped(made):
    copy = onnx.ModelProto()
    copy.CopyFrom(made)
    for node in copy.graph.node:
        del node.metadata_props[:]
    return copy


FOREIGN = {
    "a standard model": lambda: emitted("standard"),
    "a stripped model": lambda: stripped(emitted("integer")),
}


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("form", [[], ["--json"], ["--text"], ["--node", "Conv"]])
def test_what_is_no_integer_model_of_this_tool_is_refused(tmp_path, name, form):
    path = save(tmp_path, "foreign.onnx", FOREIGN[name]())
    ended = run("inspect", path, *form)
    assert_refused(ended, MODEL, path)
    assert ended.out == ""


DAMAGED = {
    "no settings": ("model", "configuration", "{}"),
    "settings that are a list": ("model", "configuration", "[]"),
    "a target by name": ("model", "configuration", '{"target": "onnx"}'),
    "no scales": ("node", "scales", "{}"),
    "scales that are none": ("node", "scales", "null"),
    "cells that are a text": ("node", "cells", '"x"'),
    "no source": ("node", "source", "null"),
    "a scale that is a text": ("tensor", "scale", '"x"'),
    "a scale of zero": ("tensor", "scale", "0"),
    "a scale that is no number": ("tensor", "scale", "NaN"),
    "a zero point out of range": ("tensor", "zero_point", "-1"),
    "an unknown type": ("tensor", "dtype", '"float8"'),
}


def damaged(folder, name):
    """The path of an integer model with one entry of its record changed."""
    where, key, value = DAMAGED[name]
    made = onnx.ModelProto()
    made.CopyFrom(emitted("integer"))
    holders = {"model": [made], "node": made.graph.node, "tensor": made.graph.value_info}
    for entry in [entry for each in holders[where] for entry in each.metadata_props]:
        if entry.key == f"qpasses.{key}":
            entry.value = value
    return save(folder, "damaged.onnx", made)


@pytest.mark.parametrize("name", DAMAGED)
def test_inspect_refuses_a_damaged_record(tmp_path, name):
    path = damaged(tmp_path, name)
    assert_refused(run("inspect", path), MODEL, "damaged")


@pytest.mark.parametrize("name", DAMAGED)
def test_verify_refuses_a_damaged_record_or_finds_that_it_is_unlike(tmp_path, name):
    path = damaged(tmp_path, name)
    original, data = save(tmp_path, "float.onnx", cnn()), save(tmp_path, "x.npy", pictures())
    ended = run("verify", path, "--against", original, "--data", data)
    if ended.code == 1:
        assert "problem: " in ended.out
    else:
        assert_refused(ended, MODEL, "damaged")


def test_a_file_that_is_no_model_is_refused(tmp_path):
    path = save(tmp_path, "model.onnx", b"no model")
    assert_refused(run("inspect", path), MODEL, path)


def test_what_excludes_each_other_is_a_usage_error(inspected):
    for forms in (["--node", "conv", "--text"], ["--json", "--text"]):
        ended = run("inspect", inspected.path, *forms)
        assert_refused(ended, USAGE, *[each for each in forms if each.startswith("--")])


def test_a_reader_that_stops_reading_is_no_error(inspected):
    program = "from qpasses.cli import main; main()"
    command = [sys.executable, "-c", program, "inspect", inspected.path, "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == b""
    process.wait()


def printed(found, width, **console):
    written = io.StringIO()
    print_inspection(Console(file=written, width=width, **console), found)
    return written.getvalue()


def table_in(text):
    """The lines from the head of the table on."""
    lines = text.splitlines()
    return lines[next(i for i, line in enumerate(lines) if line.startswith("node ")) :]


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_a_narrow_terminal_gets_a_line_for_each_input_and_no_broken_cell(inspected, width):
    found = qpasses.inspect(inspected.path)
    text = printed(found, width)
    assert max(map(len, text.splitlines())) <= width
    head, *lines = table_in(text)
    starts = [line for line in lines if line.split(" ")[0] in {row.name for row in found.rows}]
    assert [line.split()[0] for line in starts] == [row.name for row in found.rows]
    for row, line in zip(found.rows, starts, strict=True):
        assert row.op in line
        assert row.proof is None or row.proof.kind in line
    left = {name for name in ("multiplier", "shift", "clamp", "body") if name not in head}
    assert all(name in " ".join(lines[-2:]) for name in left)


def test_a_wide_terminal_shows_every_column(inspected):
    head, *lines = table_in(printed(qpasses.inspect(inspected.path), 200))
    for name in ("from", "in: scale", "out: scale", "multiplier", "shift", "clamp", "body"):
        assert name in head
    assert "not shown" not in "".join(lines)


def test_a_terminal_without_colour_gets_none(inspected):
    found = qpasses.inspect(inspected.path)
    found.about["configuration"]["random_data"] = True
    colour = "\x1b[33m"
    assert colour in printed(found, 80, force_terminal=True, _environ={"TERM": "xterm"})
    plain = {"TERM": "xterm", "NO_COLOR": "1"}
    assert colour not in printed(found, 80, force_terminal=True, _environ=plain)
