"""qpasses analyze: what it prints and writes, and what it refuses."""

import json
import sys

import numpy as np
import onnx
import pytest
from PIL import Image

import qpasses
from tests.support.commands import MODEL, USAGE, assert_refused, run
from tests.support.small_models import cnn, numbers, save
from tests.support.spoiled import straight, straight_feeds
from tests.support.thoroughness import only_thorough

VERIFICATION = 1


@pytest.fixture(scope="module")
def made():
    samples = np.concatenate([each["x"] for each in straight_feeds(12)])
    feeds = straight_feeds(12)
    ranges = ["d=-150,150"]
    integer = qpasses.quantize(
        straight(), feeds, accuracy="fast", calibration_overrides=ranges
    ).model
    return straight(), integer, samples


@pytest.fixture
def files(made, tmp_path):
    original, integer, samples = made
    names = ("float.onnx", original), ("int.onnx", integer), ("data.npy", samples)
    return [save(tmp_path, *each) for each in names]


def analyzed(files, *options):
    original, integer, data = files
    return run("analyze", integer, "--against", original, "--data", data, *options)


def rows_of(out):
    """The lines of the table of costs."""
    lines = [line.strip() for line in out.split("costs measured on")[0].splitlines()]
    (head,) = (place for place, line in enumerate(lines) if line.endswith("made by"))
    return list(filter(None, lines[head + 1 :]))


def test_it_prints_what_costs_most_and_what_to_try(files):
    ended = analyzed(files)
    assert ended.code == 0
    table, findings = ended.out.split("costs measured on 12 of 12 samples")
    assert rows_of(table)[0].split()[:2] == ["d", "IntConv"]
    assert findings.split("\n\n")[1].startswith("wide range: d: uses ")
    assert "  try: --calibration-overrides d=0," in findings
    assert "accuracy fair (1" in findings


def test_so_many_tensors_are_shown(files):
    assert len(rows_of(analyzed(files, "--tensors", 2).out)) == 2


def test_the_same_samples_give_the_same_bytes(files, tmp_path):
    places, written = (tmp_path / "r.json", tmp_path / "r.html"), []
    for _ in range(2):
        assert analyzed(files, "--json", places[0], "--html", places[1]).code == 0
        written.append([place.read_bytes() for place in places])
    assert written[0] == written[1]
    found = json.loads(written[0][0])
    assert found["command"] == "analyze"
    assert found["summary"]["accuracy"]["word"] == "fair"
    assert found["summary"]["macs"] > 0
    tensors = found["analysis"]["tensors"]
    assert sum(row["cost"]["share"] for row in tensors if row["cost"]) == pytest.approx(1)
    for row in tensors:
        assert row["split"] is None or sum(row["split"].values()) == pytest.approx(1)
    assert b"wide range" in written[0][1].lower()


def test_without_time_costs_are_listed_as_left_out(files, tmp_path):
    ended = analyzed(files, "--seconds", 0, "--json", tmp_path / "r.json")
    found = json.loads((tmp_path / "r.json").read_text())["analysis"]
    assert "costs measured on 0 of 12 samples, those of" in ended.out
    costly = [row["tensor"] for row in found["tensors"] if row["cost"]]
    assert [each["tensor"] for each in found["left_out"]] == costly
    assert all(row["sqnr_db"] for row in found["tensors"] if row["kind"] == "activation")


def test_quantize_looks_where_it_is_asked_to(files, tmp_path):
    original, _, data = files
    report = tmp_path / "r.json"
    output = "-o", tmp_path / "o.onnx", "--json", report
    spoiled = "--calibration-overrides", "d=-150,150", "--accuracy", "fast"
    for extent, samples in (("no", None), ("short", 4), ("full", 12)):
        ended = run(
            "quantize", original, "--data", data, *output, *spoiled, "--analyze", extent
        )
        assert ended.code == 0
        found = json.loads(report.read_text()).get("analysis")
        assert (found and found["samples"]["walked"]) == samples
        assert ("costs most: d (" in ended.out) == (samples is not None)


def test_a_page_has_an_analysis_if_nothing_else_is_said(files, tmp_path):
    output = "-o", tmp_path / "o.onnx", "--html", tmp_path / "r.html"
    assert run("quantize", files[0], "--data", files[2], *output).code == 0
    assert "f_quantized" in (tmp_path / "r.html").read_text()


# What is refused


def test_a_float_model_in_place_of_the_integer_one(files):
    original, _, data = files
    assert_refused(analyzed([original, original, data]), MODEL, "float.onnx")


def test_an_integer_model_without_its_record(files, made):
    stripped = onnx.ModelProto.FromString(made[1].SerializeToString())
    del stripped.metadata_props[:]
    place = save(files[0].parent, "stripped.onnx", stripped)
    assert_refused(analyzed([files[0], place, files[2]]), MODEL, "stripped.onnx", "metadata")


def test_another_float_model(files):
    other = save(files[0].parent, "other.onnx", cnn())
    ended = run("analyze", files[1], "--against", other, "--data", files[2])
    assert ended.code != 0
    assert "Traceback" not in ended.err
    changed = save(files[0].parent, "changed.onnx", straight(b1=np.ones(8, np.float32)))
    ended = analyzed([changed, *files[1:]])
    assert_refused(ended, VERIFICATION, "int.onnx is not what", "qpasses verify")


def test_a_model_that_was_quantized_before(files, made, tmp_path):
    qdq = qpasses.quantize(straight(), straight_feeds(4), emit="qdq").model
    integer = save(tmp_path, "again.onnx", qpasses.integerize(qdq).model)
    ended = analyzed([save(tmp_path, "qdq.onnx", qdq), integer, files[2]])
    assert_refused(ended, MODEL, "qdq.onnx", "quantized already")
    output = "-o", tmp_path / "o.onnx", "--json", tmp_path / "r.json"
    assert run("integerize", files[0].parent / "qdq.onnx", *output).code == 0
    assert "analysis" not in json.loads((tmp_path / "r.json").read_text())


@pytest.mark.parametrize("option", ["--json", "--html"])
def test_a_report_that_cannot_be_written(files, option, tmp_path):
    place = tmp_path / "nowhere" / "report"
    assert_refused(analyzed(files, option, place), USAGE, place, "does not exist")


def test_samples_with_nan_are_named(files, made, tmp_path):
    samples = made[2].copy()
    samples[4, 0, 0, 0] = np.nan
    data = save(tmp_path, "bad.npy", samples)
    assert_refused(analyzed([*files[:2], data]), USAGE, "bad.npy[4]", "NaN")


def test_the_packages_of_the_page_may_be_missing(files, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "igraph", None)
    ended = analyzed(files, "--html", tmp_path / "r.html")
    assert_refused(ended, USAGE, "igraph", "pip install 'qpasses[report]'")


def test_few_samples_are_too_few_to_try(files):
    ended = analyzed(files, "--try", "--samples", 7)
    assert_refused(ended, USAGE, "--try needs 8 samples")


def test_a_place_for_options_needs_that_they_are_tried(files, tmp_path):
    ended = analyzed(files, "--config-output", tmp_path / "c.toml")
    assert_refused(ended, USAGE, "--try")


@only_thorough
def test_the_options_that_are_left_are_a_configuration_file(files, tmp_path):
    config, output = tmp_path / "tried.toml", tmp_path / "o.onnx"
    ended = analyzed(files, "--try", "--seconds", 5, "--config-output", config)
    assert ended.code == 0
    assert "kept" in ended.out
    again = run("quantize", files[0], "--data", files[2], "--config", config, "-o", output)
    assert again.code == 0
    assert "accuracy good" in again.out


def test_samples_are_left_out_by_name(files, tmp_path):
    report = tmp_path / "r.json"
    pattern = r"data\.npy\[[0-8]\]"
    assert analyzed(files, "--samples-to-exclude", pattern, "--json", report).code == 0
    found = json.loads(report.read_text())["analysis"]["by_sample"]
    assert [each["name"] for each in found] == [f"data.npy[{k}]" for k in (9, 10, 11)]
    ended = analyzed(files, "--samples-to-exclude", "data")
    assert_refused(ended, USAGE, "no sample is called 'data'")
    assert_refused(analyzed(files, "--samples-to-exclude", ".*"), USAGE, "leave some")


@only_thorough
def test_pictures_are_tried_as_they_were_seen_and_the_file_says_how(tmp_path):
    folder, config = tmp_path / "pictures", tmp_path / "tried.toml"
    folder.mkdir()
    for number, picture in enumerate(128 + 60 * numbers(12, 9, 7)):
        Image.fromarray(picture.astype(np.uint8)).save(folder / f"{number}.png")
    original, integer = save(tmp_path, "float.onnx", cnn()), tmp_path / "int.onnx"
    pictures = ("--data", folder, "--preprocess", "mnist", "--mean", 0.2, "--resize", "pad")
    assert run("quantize", original, *pictures, "--accuracy", "fast", "-o", integer).code == 0
    some = ("--data", folder, "--seconds", 1, "--config-output", config)
    assert run("analyze", integer, "--against", original, *some, "--try").code == 0
    text = config.read_text()
    assert 'preprocess = "mnist"' in text and "mean = [0.2]" in text and "resize" in text
    own = ("--data", folder, "--config", config, "-o", tmp_path / "again.onnx")
    assert run("quantize", original, *own).code == 0


def test_a_page_has_the_command_that_makes_it_again(files, tmp_path):
    pytest.importorskip("vl_convert")
    page = tmp_path / "it is.html"
    assert analyzed(files, "--seconds", 0, "--html", page).code == 0
    assert f"qpasses analyze {files[1]} --against" in page.read_text()
    assert "it is.html&#39;</code>" in page.read_text()
