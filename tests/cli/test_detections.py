"""--detections: what a user's function finds is drawn beside what float finds."""

import json

import numpy as np
import pytest

import qpasses
from opsets.errors import UsageError
from tests.support.commands import USAGE, assert_refused, run
from tests.support.small_models import cnn, model, numbers, pictures, save

FUNCTIONS = """
import numpy as np


def found(outputs):
    score = float(outputs["y"].max())
    return [[1, 2, 3, 4, score - 1, 0], [0, 0, 8, 8, score, outputs["y"].argmax()]]


def nothing(outputs):
    return []


def shapeless(outputs):
    return np.zeros((2, 5))


def endless(outputs):
    return np.full((1, 6), np.nan)


def broken(outputs):
    return outputs["boxes"]


number = 3
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    (tmp_path / "own_boxes.py").write_text(FUNCTIONS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "own_boxes", raising=False)
    original, data = cnn(), pictures(8)
    integer = qpasses.quantize(original, [{"x": each[None]} for each in data]).model
    names = ("float.onnx", original), ("int.onnx", integer), ("data.npy", data)
    return [save(tmp_path, *each) for each in names]


def analyzed(files, function, *options):
    original, integer, data = files
    given = ("--against", original, "--data", data, "--seconds", 0, "--html", "page.html")
    return run("analyze", integer, *given, "--detections", function, *options)


def drawn(path):
    """By sample the first output: what is found."""
    examples = json.loads(path.read_text())["analysis"]["examples"]
    return [example["outputs"][0] for example in examples]


def test_boxes_of_both_graphs_are_in_the_report_and_on_the_page(files, tmp_path):
    pytest.importorskip("vl_convert")
    assert analyzed(files, "own_boxes:found", "--json", "r.json").code == 0
    outputs = drawn(tmp_path / "r.json")
    assert len(outputs) == 3
    for output in outputs:
        assert output["kind"] == "detections"
        for rows in (output["float"], output["integer"]):
            assert [row[:4] for row in rows] == [[0, 0, 8, 8], [1, 2, 3, 4]]
            assert rows[0][4] == pytest.approx(rows[1][4] + 1)
    assert outputs[0]["float"][0][4] != outputs[0]["integer"][0][4]
    assert "What integer finds: 2 boxes" in (tmp_path / "page.html").read_text()


def test_no_boxes_are_no_boxes(files, tmp_path):
    pytest.importorskip("vl_convert")
    assert analyzed(files, "own_boxes:nothing", "--json", "r.json").code == 0
    assert drawn(tmp_path / "r.json")[0]["integer"] == []


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("own_boxes", "MODULE:FUNCTION is needed, got 'own_boxes'"),
        ("no_boxes:found", "No module named 'no_boxes'"),
        ("own_boxes:lost", "no attribute 'lost'"),
        ("own_boxes:number", "3 cannot be called"),
        (
            "own_boxes:shapeless",
            "score, class are needed, got an array of shape",
        ),
        ("own_boxes:endless", "boxes are not finite"),
        ("own_boxes:broken", "on sample data.npy[0]: KeyError: 'boxes'"),
    ],
)
def test_what_is_no_function_or_gives_no_boxes_is_refused(files, function, words, tmp_path):
    pytest.importorskip("vl_convert")
    assert_refused(analyzed(files, function), USAGE, words)
    assert not (tmp_path / "page.html").exists()


def test_quantize_refuses_what_is_no_function_and_warns_of_one_that_fails(files, tmp_path):
    pytest.importorskip("vl_convert")
    given = ("quantize", files[0], "--data", files[2], "-o", "o.onnx", "--html", "page.html")
    ended = run(*given, "--detections", "no_boxes:found")
    assert_refused(ended, USAGE, "No module named 'no_boxes'")
    assert not (tmp_path / "o.onnx").exists()
    ended = run(*given, "--detections", "own_boxes:broken")
    assert ended.code == 0 and (tmp_path / "o.onnx").exists()
    assert "KeyError: 'boxes'" in " ".join(ended.out.split())


def test_without_a_page_nothing_is_drawn(files):
    with pytest.raises(UsageError, match="--html"):
        qpasses.quantize(files[0], np.load(files[2]), detections=len)


def test_a_model_without_pictures_is_refused_and_without_pillow_any(
    files, tmp_path, monkeypatch
):
    pytest.importorskip("vl_convert")
    vectors = model("g (float[2, 4] x) => (float[2, 4] y) { y = Relu (x) }")
    data = [{"x": numbers(2, 4, seed=seed)} for seed in range(3)]
    made = qpasses.quantize(vectors, data).model
    with pytest.raises(UsageError, match="takes none"):
        qpasses.analyze(made, vectors, data, html_file=tmp_path / "p.html", detections=len)
    monkeypatch.setattr("qpasses.jobs.detecting.find_spec", lambda _: None)
    assert_refused(analyzed(files, "own_boxes:found"), USAGE, "pip install 'qpasses[images]'")
