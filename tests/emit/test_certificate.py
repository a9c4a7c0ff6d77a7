"""The evidence file: what it says, that it is written with its model, that verify asks."""

import json
import os
from pathlib import Path
from unittest.mock import patch

import numpy as np
import onnx
import pytest

import qpasses
from opsets.qpasses_v1 import OPS
from opsets.target import Target
from qpasses.checking.compare_certificates import MOST_DIFFERENCES, compare_certificate
from qpasses.emit.evidence_file import evidence_path
from tests.support.commands import USAGE, Desk, assert_refused, read_json, run
from tests.support.small_models import cnn, model, numbers, pictures, save

DOCS = Path(__file__).parents[2] / "docs"

EVERY_KIND = """
kinds (float[N, 4, 8, 8] x) => (float[N, 4, 8, 8] y) {
    [conv] a = Conv (x, w1)
    [sigmoid] s = Sigmoid (a)
    [other] b = Conv (x, w2)
    [sum] c = Add (s, b)
    [pool] p = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (c)
    [inner] i = Softmax <axis = 1> (p)
    [last] d = Conv (i, w3)
    [norm] y = LRN <size = 3> (d)
}"""
"""Thresholds, tables and pairs, a bound, a node that moves integers, and one left in float."""


def every_kind(seed=0):
    weights = {f"w{i}": numbers(4, 4, 1, 1, seed=seed + i) for i in (1, 2, 3)}
    return model(EVERY_KIND, **weights)


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A desk with a written integer model and its evidence; tests change neither."""
    desk = Desk(tmp_path_factory.mktemp("kinds"), every_kind(), numbers(6, 4, 8, 8))
    assert desk.quantize().code == 0
    desk.evidence = evidence_path(desk.output)
    return desk


@pytest.fixture(scope="module")
def content(desk):
    return read_json(desk.evidence)


@pytest.fixture(scope="module")
def report(desk):
    desk.quantize()
    return read_json(desk.report)


def entry(content, name, part="nodes"):
    (found,) = [each for each in content[part] if each["name"] == name]
    return found


# What it says


def test_it_says_what_the_report_says_and_names_both_models(desk, content, report):
    assert content["schema"] == "qpasses.evidence/1"
    assert content["tool"] == report["tool"]
    assert content["float_model"]["sha256"] == report["model"]["sha256"]
    assert content["target"] == report["configuration"]["target"]
    assert content["verdict"] == report["summary"]["verdict"] == "ok"
    assert content["because"] == report["summary"]["because"] == []
    assert content["float_nodes"] == report["summary"]["float_nodes"]
    verified = qpasses.verify(desk.output, desk.model, desk.data).report
    assert content["integer_model"]["sha256"] == verified["integer_model"]["sha256"]
    told = {each["name"]: each for each in report["evidence"]["nodes"]}
    for each in [*content["nodes"], *content["moved"]]:
        shared = each.keys() & told[each["name"]].keys()
        assert {key: each[key] for key in shared} == {
            key: told[each["name"]][key] for key in shared
        }
    assert len(told) == len(content["nodes"]) + len(content["moved"])


def test_every_kind_of_evidence_has_its_figures(content):
    kinds = {each["name"]: (each["op"], each["kind"]) for each in content["nodes"]}
    assert kinds == {
        "conv": ("IntConv", "thresholds"),
        "sigmoid": ("Lut", "exhaustive"),
        "other": ("IntConv", "thresholds"),
        "sum": ("IntAdd", "exhaustive"),
        "inner": ("TableSoftmax", "bounded"),
        "last": ("IntConv", "thresholds"),
    }
    for each in content["nodes"]:
        assert each["meaning"] == OPS[each["op"]].doc
        assert each["target"] == "onnx"
        assert each["mismatches"] == 0
        assert each["domain"] > 0
        assert each["flavour"] == "onnxruntime"
        assert (each["bound"] is not None) == (each["kind"] == "bounded")
        summed = each["kind"] in ("thresholds", "bounded")
        assert (each["accumulator"] is not None) == summed
        assert (each["headroom_bits"] is not None) == summed
    softmax = entry(content, "inner")
    assert 0 <= softmax["bound"] < softmax["reference_max_lsb"] + 1
    assert [(each["name"], each["kind"]) for each in content["moved"]] == [
        ("pool", "structural")
    ]
    assert [each["name"] for each in content["float_nodes"]] == ["norm"]
    assert content["totals"]["nodes"] == 6
    assert content["totals"]["proved"] == 7
    assert content["totals"]["domain"] == sum(each["domain"] for each in content["nodes"])


def test_headroom_is_what_the_sums_leave_of_32_bits(content):
    for each in content["nodes"]:
        if each["accumulator"] is not None:
            low, high = each["accumulator"]
            end = 1 << (31 - each["headroom_bits"])
            assert -end <= low
            assert high < end
            assert low < -end // 2 or high >= end // 2


def test_a_mean_of_any_size_has_its_headroom():
    text = "g (float[N, 2, 4, 4] x) => (float[N, 2] y) { c = Conv (x, w) [mean] y = OP (c) }"
    reduced = text.replace("OP", "ReduceMean <axes = [2, 3], keepdims = 0>")
    made = model(reduced.replace("4, 4", "H, W"), w=numbers(2, 2, 1, 1))
    feeds = [{"x": numbers(1, 2, 4, 4, seed=seed)} for seed in range(3)]
    (mean,) = [n for n in qpasses.quantize(made, feeds).evidence if n.name == "mean"]
    assert mean.op == "IntReduce"
    low, high = mean.accumulator
    assert mean.headroom_bits == 31 - max(high, -low).bit_length()


def test_why_a_body_was_chosen(content, tmp_path):
    assert entry(content, "conv")["why"] == (
        "the first onnxruntime body of IntConv that computes such a node"
    )
    assert "the cheapest by estimate" in entry(content, "sigmoid")["why"]
    for options, reason in {
        ("--bodies", "portable"): "portable, as was asked for",
        ("--exact", "--bodies", "portable"): "portable, as was asked for",
        ("--emit", "standard"): "portable, as everything is written out in standard ops",
    }.items():
        other = Desk(tmp_path, every_kind(), numbers(6, 4, 8, 8))
        assert other.quantize(*options).code == 0
        found = read_json(evidence_path(other.output))["nodes"]
        assert {each["why"] for each in found} == {reason}
        assert {each["flavour"] for each in found} == {"portable"}


def test_a_body_that_is_not_the_first_says_why():
    text = """g (float[N, 2, H, W] x) => (float[N, H, W] y) {
        c = Conv (x, w)
        y = ReduceMean <axes = [1], keepdims = 0> (c)
    }"""
    made = model(text, w=numbers(2, 2, 1, 1))
    feeds = [{"x": numbers(1, 2, 4, 4, seed=seed)} for seed in range(3)]
    rules = Target("ties", "ties that no kernel rounds so", 4, "half_up")
    conv, mean = qpasses.quantize(made, feeds, target=rules).certificate["nodes"]
    assert (conv["body"], mean["body"]) == ("onnxruntime_double_half_up", "portable_half_up")
    assert conv["why"] == "the first that gives the meaning, as body 'onnxruntime' would not"
    assert mean["why"] == "portable, as no onnxruntime body of IntReduce computes such a node"


def pictures_of(count):
    return [{"x": pictures(1, seed=seed)} for seed in range(count)]


def test_every_key_is_described_in_the_docs(content):
    described = (DOCS / "evidence.md").read_text("utf-8")

    def keys(value):
        if isinstance(value, dict):
            for key, inner in value.items():
                yield key
                yield from keys(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from keys(inner)

    plain = [each | {"costs_ns": {}} for each in content["nodes"]]
    found = dict.fromkeys(keys(content | {"nodes": plain}))
    assert [key for key in found if f"`{key}`" not in described] == []


def test_the_same_input_gives_the_same_bytes_without_paths(desk, content, tmp_path):
    elsewhere = Desk(tmp_path, every_kind(), numbers(6, 4, 8, 8))
    assert elsewhere.quantize().code == 0
    again = evidence_path(elsewhere.output).read_bytes()
    assert again == desk.evidence.read_bytes()
    assert str(desk.folder) not in json.dumps(content)
    result = qpasses.verify(desk.output, desk.model, desk.data)
    assert result.certificate == content


def test_the_digest_of_a_node_is_of_its_numbers_not_of_their_names(desk, content):
    made = onnx.load(desk.output)
    rename_constants(made)
    renamed = qpasses.verify(made, desk.model, desk.data).certificate
    assert [each["sha256"] for each in renamed["nodes"]] == [
        each["sha256"] for each in content["nodes"]
    ]
    assert renamed["integer_model"] != content["integer_model"]
    assert len({each["sha256"] for each in content["nodes"]}) == len(content["nodes"])


def rename_constants(made):
    names = {tensor.name: f"{tensor.name}_renamed" for tensor in made.graph.initializer}
    for tensor in made.graph.initializer:
        tensor.name = names[tensor.name]
    for node in made.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]


# How it is written


@pytest.mark.parametrize(
    ("output", "evidence"),
    {
        "model.int8.onnx": "model.int8.evidence.json",
        "model.ONNX": "model.evidence.json",
        "model": "model.evidence.json",
        "model.pb": "model.pb.evidence.json",
    }.items(),
)
def test_it_lies_beside_the_model(output, evidence):
    assert evidence_path(Path("a.b") / output) == Path("a.b") / evidence


@pytest.mark.parametrize("output", ["", ".", "/", "x" * 300, "x" * 250])
def test_a_path_beside_which_no_evidence_can_lie_ends_in_one_line(tmp_path, output):
    desk = fresh(tmp_path)
    given = "--data", desk.data
    assert_refused(run("quantize", desk.model, *given, "-o", output), USAGE)
    assert_refused(run("verify", output, *given, "--against", desk.model), USAGE)


def fresh(folder):
    return Desk(folder, cnn(), pictures())


def test_another_place_is_taken_and_shown(tmp_path):
    desk, place = fresh(tmp_path), tmp_path / "kept.txt"
    ended = desk.quantize("--evidence", place)
    assert ended.code == 0
    assert not evidence_path(desk.output).exists()
    assert read_json(place)["schema"] == "qpasses.evidence/1"
    assert "kept.txt" in ended.out
    assert evidence_path(desk.output).name in desk.quantize().out


def test_an_older_file_is_replaced_as_other_outputs_are(tmp_path):
    desk = fresh(tmp_path)
    evidence_path(desk.output).write_text("older")
    assert desk.quantize().code == 0
    assert read_json(evidence_path(desk.output))["verdict"] == "ok"


def test_a_place_that_cannot_be_is_refused_and_nothing_written(tmp_path):
    desk = fresh(tmp_path)
    assert "is an input" in desk.refused("--evidence", desk.model)
    assert "is written already" in desk.refused("--evidence", desk.output)
    assert "is written already" in desk.refused("--evidence", desk.report)
    assert "does not exist" in desk.refused("--evidence", tmp_path / "no" / "e.json")
    evidence_path(desk.output).mkdir()
    assert "is a folder" in desk.refused()


@pytest.mark.parametrize("options", [("--emit", "qdq"), ("--stop-after", "integerize-conv")])
def test_there_is_none_of_what_is_no_integer_model(tmp_path, options):
    desk, place = fresh(tmp_path), tmp_path / "e.json"
    message = desk.refused(*options, "--evidence", place)
    assert "--evidence" in message
    assert options[1] in message
    assert not place.exists()
    assert desk.quantize(*options).code == 0
    assert not evidence_path(desk.output).exists()
    keywords = {options[0].lstrip("-").replace("-", "_"): options[1]}
    assert qpasses.quantize(desk.model, desk.data, **keywords).certificate is None


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("which", ["model", "evidence"])
def test_model_and_evidence_appear_together_or_not_at_all(tmp_path, which, older):
    desk = fresh(tmp_path)
    evidence = evidence_path(desk.output)
    if older:
        desk.output.write_text("older model")
        evidence.write_text("older evidence")
        evidence.chmod(0o640)
    before = contents(tmp_path)
    fails = {"model": desk.output, "evidence": evidence}[which]
    replace = Path.replace

    def refusing(self, target):
        if Path(target) == fails and not refused:
            refused.append(target)
            raise OSError(28, "No space left on device")
        return replace(self, target)

    refused = []
    with (
        patch.object(Path, "replace", refusing),
        pytest.raises(qpasses.UsageError, match="No space left"),
    ):
        qpasses.quantize(desk.model, desk.data, desk.output)
    assert refused == [fails]
    assert contents(tmp_path) == before
    if older:
        assert evidence.stat().st_mode & 0o777 == 0o640


def test_a_disk_that_is_full_leaves_nothing_behind(tmp_path):
    desk = fresh(tmp_path)
    before = contents(tmp_path)
    with (
        patch.object(os, "fdopen", side_effect=OSError(28, "No space left on device")),
        pytest.raises(qpasses.UsageError, match="No space left"),
    ):
        qpasses.quantize(desk.model, desk.data, desk.output)
    assert contents(tmp_path) == before


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_from_python_it_is_there_and_saved_alike(tmp_path):
    desk = fresh(tmp_path)
    assert desk.quantize().code == 0
    result = qpasses.quantize(desk.model, desk.data)
    assert result.certificate == read_json(evidence_path(desk.output))
    saved = tmp_path / "saved.onnx"
    result.save(saved)
    assert saved.read_bytes() == desk.output.read_bytes()
    written = evidence_path(desk.output).read_bytes()
    assert evidence_path(saved).read_bytes() == written
    result.save(saved, tmp_path / "e.json")
    assert (tmp_path / "e.json").read_bytes() == written
    qpasses.quantize(desk.model, desk.data, evidence_file=tmp_path / "alone.json")
    assert (tmp_path / "alone.json").read_bytes() == written
    with pytest.raises(qpasses.UsageError, match="is written already"):
        result.save(saved, saved)
    with pytest.raises(qpasses.UsageError, match="holds no model"):
        qpasses.verify(saved, desk.model, desk.data).save(tmp_path / "v.onnx")


def test_what_is_no_integer_model_is_saved_alone(tmp_path):
    desk = fresh(tmp_path)
    result = qpasses.quantize(desk.model, desk.data, emit="qdq")
    result.save(desk.output)
    assert desk.output.exists()
    assert not evidence_path(desk.output).exists()
    with pytest.raises(qpasses.UsageError, match="no integer model"):
        result.save(desk.output, tmp_path / "e.json")


# What verify makes of it


class Kept:
    """An integer model in a folder of its own, beside which evidence can be put."""

    def __init__(self, desk, folder):
        self.desk, self.folder = desk, folder
        self.integer = folder / "out.onnx"
        self.integer.write_bytes(desk.output.read_bytes())
        self.evidence = evidence_path(self.integer)

    def verify(self, content=None, **options):
        """The verification with ``content`` as evidence, or with none."""
        if content is not None:
            self.evidence.write_text(json.dumps(content), "utf-8")
        return qpasses.verify(self.integer, self.desk.model, self.desk.data, **options)

    def problems(self, content):
        """What is wrong with ``content``."""
        report = self.verify(content).report
        assert (report["summary"]["verdict"] == "failed") == bool(problems_of(report))
        return problems_of(report)


def problems_of(report):
    return report["summary"]["problems"]


@pytest.fixture
def kept(desk, tmp_path):
    return Kept(desk, tmp_path)


def test_true_evidence_is_found_and_counted(kept, content):
    report = kept.verify(content).report
    assert report["checks"]["evidence_file"] == {
        "path": str(kept.evidence),
        "nodes": 7,
        "differences": 0,
    }
    assert problems_of(report) == report["warnings"] == []


def test_without_evidence_nothing_happens(kept):
    report = kept.verify().report
    assert report["checks"]["evidence_file"] is None
    assert problems_of(report) == []


def leaves(value, path=()):
    """The way to every value in ``value`` that holds no others, and to lists of them."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for place, inner in enumerate(value):
            yield from leaves(inner, (*path, place))
    else:
        yield path


def edited(value):
    """Another value, of the same type where it has one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return f"{value}x"
    return [1] if value is None else [*value, 1] if isinstance(value, list) else {"x": 1}


def changed(content, path, change):
    """A copy of ``content`` with what lies at ``path`` changed, or gone for no ``change``."""
    copy = json.loads(json.dumps(content))
    *above, last = path
    holder = copy
    for key in above:
        holder = holder[key]
    if change is None:
        del holder[last]
    else:
        holder[last] = change(holder[last])
    return copy


@pytest.fixture(scope="module")
def compare(desk, content):
    """What ``verify`` makes of evidence, by the same comparison, without running again."""
    recomputed = qpasses.verify(desk.output, desk.model, desk.data).certificate
    assert recomputed == content
    return lambda given: compare_certificate(given, recomputed, "e.json")


@pytest.mark.thinned
@pytest.mark.parametrize("change", [edited, None, str, lambda value: [value]])
def test_every_key_that_was_changed_or_taken_away_is_a_problem(compare, content, change):
    tried = 0
    for path in leaves(content):
        spoiled = changed(content, path, change)
        if spoiled == content:
            continue  # it was a text already
        if path == ("integer_model", "sha256") and change is edited:
            continue  # a note, see below
        tried += 1
        found = compare(spoiled)
        assert found.problems, path
        assert found.differences >= 1
        named = [key for key in path if isinstance(key, str)]
        wanted = path[0] if named[-1] == "name" and change is not edited else named[-1]
        assert any(wanted in problem for problem in found.problems), path
        if path[0] in ("nodes", "moved", "float_nodes") and path[-1] != "name":
            name = content[path[0]][path[1]]["name"]
            assert any(repr(name) in problem for problem in found.problems), path
    assert tried > 30


@pytest.mark.parametrize("part", ["nodes", "moved", "float_nodes"])
def test_nodes_that_are_missing_unknown_or_twice_there_are_problems(compare, content, part):
    first = content[part][0]
    cases = {
        "missing": content[part][1:],
        "unknown": [*content[part], first | {"name": "unknown"}],
        "twice": [*content[part], first],
        "no list": {"first": first},
        "no object": [*content[part], 3],
        "no name": [*content[part], {}],
    }
    for name, entries in cases.items():
        assert compare(content | {part: entries}).problems, name


def test_unknown_keys_are_problems_and_order_is_none(compare, content):
    assert compare(content | {"more": 1}).problems
    node = content["nodes"][0] | {"more": 1}
    assert compare(content | {"nodes": [node, *content["nodes"][1:]]}).problems
    turned = {key: content[key] for key in reversed(content)}
    assert compare(turned | {"nodes": content["nodes"][::-1]}).problems == []


def test_names_of_portable_nodes_are_compared_in_any_order(content):
    def named(*names):
        return content | {"totals": content["totals"] | {"portable_nodes": [*names]}}

    recomputed = named("one", "two")
    assert not compare_certificate(named("two", "one"), recomputed, "e.json").problems
    for names in [("one",), ("one", "two", "two"), ("one", "other"), ("one", 2)]:
        (problem,) = compare_certificate(named(*names), recomputed, "e.json").problems
        assert "totals.portable_nodes" in problem


def test_many_differences_are_counted_and_the_first_listed(compare, content):
    nodes = [each | {"domain": 1, "channels": -1, "flavour": "?"} for each in content["nodes"]]
    found = compare(content | {"nodes": nodes})
    assert found.differences == 3 * len(nodes)
    assert len(found.problems) == MOST_DIFFERENCES + 1
    assert "and 8 more fields" in found.problems[-1]


def test_verify_fails_and_names_node_field_found_and_expected(kept, content):
    (place,) = [i for i, each in enumerate(content["nodes"]) if each["name"] == "sum"]
    spoiled = changed(content, ("nodes", place, "reference_moved"), lambda value: value + 5)
    found = content["nodes"][place]["reference_moved"]
    report = kept.verify(spoiled).report
    assert problems_of(report) == [
        f"{kept.evidence}: node 'sum': reference_moved is {found + 5}, recomputed {found}"
    ]
    assert report["summary"]["verdict"] == "failed"
    assert report["checks"]["evidence_file"]["differences"] == 1


def test_the_command_takes_a_file_from_elsewhere(kept, content, tmp_path):
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text(json.dumps(changed(content, ("verdict",), edited)), "utf-8")
    given = "--against", kept.desk.model, "--data", kept.desk.data
    report = tmp_path / "report.json"
    ended = run("verify", kept.integer, *given, "--evidence", elsewhere, "--json", report)
    assert ended.code == 1
    assert 'verdict is "okx", recomputed "ok"' in ended.out
    assert f"{elsewhere}: 7 nodes, 1 difference" in ended.out
    assert read_json(report)["checks"]["evidence_file"]["path"] == str(elsewhere)
    assert run("verify", kept.integer, *given, "--json", report).code == 0
    refused = run("verify", kept.integer, *given, "--json", elsewhere, "--evidence", elsewhere)
    assert_refused(refused, USAGE, elsewhere, "is an input")


def test_evidence_of_another_float_model_is_one_problem(kept, tmp_path):
    other = Desk(tmp_path, every_kind(seed=9), numbers(6, 4, 8, 8))
    foreign = qpasses.quantize(other.model, other.data).certificate
    (problem,) = kept.problems(foreign)
    assert "evidence of another model: float_model.sha256" in problem


def test_evidence_of_another_integer_model_is_a_problem(kept):
    made = qpasses.quantize(kept.desk.model, kept.desk.data, activation_bits=6)
    found = kept.problems(made.certificate)
    assert "evidence of another model: integer_model.sha256" in found[0]
    assert len(found) > 1


@pytest.mark.parametrize("how", ["saved again", "external data"])
def test_a_model_that_was_saved_again_has_the_same_evidence(kept, content, how):
    made = onnx.load(kept.integer)
    onnx.save(made, kept.integer, save_as_external_data=how == "external data")
    report = kept.verify(content).report
    assert report["checks"]["evidence_file"]["differences"] == 0
    assert report["warnings"] == []


def test_another_digest_of_the_same_nodes_is_a_note(compare, content):
    found = compare(changed(content, ("integer_model", "sha256"), edited))
    assert found.problems == []
    assert found.differences == 0
    (note,) = found.notes
    assert "another digest" in note


def test_renamed_constants_are_a_note_and_no_difference(kept, content):
    made = onnx.load(kept.integer)
    rename_constants(made)
    onnx.save(made, kept.integer)
    report = kept.verify(content).report
    assert report["checks"]["evidence_file"]["differences"] == 0
    assert any("another digest" in warning for warning in report["warnings"])
    assert not any(str(kept.evidence) in problem for problem in problems_of(report))


def test_one_changed_constant_makes_evidence_that_of_another_model(kept, content):
    made = onnx.load(kept.integer)
    (node,) = [each for each in made.graph.node if each.name == "last"]
    (tensor,) = [each for each in made.graph.initializer if each.name == node.input[2]]
    values = onnx.numpy_helper.to_array(tensor).copy()
    values.flat[0] ^= 1
    tensor.raw_data = values.tobytes()
    onnx.save(made, kept.integer)
    found = kept.problems(content)
    assert any("evidence of another model" in problem for problem in found)
    assert any("node 'last': sha256" in problem for problem in found)


DAMAGED = {
    "empty": b"",
    "not JSON": b"evidence",
    "cut off": b'{"schema": "qpasses.evidence/1", ',
    "not UTF-8": b'{"schema": "\xff"}',
    "no object": b"[1]",
    "no schema": b"{}",
    "another schema": b'{"schema": "qpasses.evidence/2"}',
    "a schema that is no text": b'{"schema": {}}',
    "a report": b'{"schema": "qpasses.report/1"}',
    "a key twice": b'{"schema": "qpasses.evidence/1", "schema": "qpasses.evidence/1"}',
    "far too deep": b"[" * 100_000,
    "far too long a number": b'{"schema": ' + b"1" * 10_000 + b"}",
}


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_file_ends_in_one_line(kept, what):
    kept.evidence.write_bytes(DAMAGED[what])
    given = "--against", kept.desk.model, "--data", kept.desk.data
    assert_refused(run("verify", kept.integer, *given), USAGE, kept.evidence)


def test_a_file_that_is_not_there_or_a_folder_ends_in_one_line(kept, tmp_path):
    given = "--against", kept.desk.model, "--data", kept.desk.data
    missing = tmp_path / "missing.json"
    ended = run("verify", kept.integer, *given, "--evidence", missing)
    assert_refused(ended, USAGE, missing, "No such file")
    kept.evidence.mkdir()
    assert_refused(run("verify", kept.integer, *given), USAGE, kept.evidence)


def test_an_empty_certificate_of_the_right_schema_lacks_everything(kept):
    found = kept.problems({"schema": "qpasses.evidence/1"})
    assert any("missing" in problem for problem in found)


def test_a_model_with_nothing_integer_has_evidence_of_nothing():
    text = "g (float[N, 4] x) => (float[N, 1] y) { y = ReduceProd <axes = [1]> (x) }"
    made = qpasses.quantize(model(text), [{"x": numbers(1, 4)}]).certificate
    assert made["nodes"] == made["moved"] == []
    assert made["verdict"] == "incomplete"
    assert np.isclose(made["totals"]["integer_node_share"], 0)
    assert [each["op_type"] for each in made["float_nodes"]] == ["ReduceProd"]


def test_stored_inputs_and_narrow_codes_are_evidence_too(tmp_path):
    made = save(tmp_path, "m.onnx", cnn())
    for options in (
        {"integer_io": True, "activation_bits": 5},
        {"activation_type": "int8", "symmetric": True, "narrow_range": True},
        {"target": "exact"},
    ):
        output = tmp_path / "o.onnx"
        qpasses.quantize(made, pictures_of(3), output, **options)
        report = qpasses.verify(output, made, pictures_of(3)).report
        assert report["checks"]["evidence_file"]["differences"] == 0
        assert problems_of(report) == []
