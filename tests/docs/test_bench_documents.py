"""docs/calibration.md is what tests/bench/methods.py writes, of every method and model."""

import json
from dataclasses import replace
from inspect import signature
from pathlib import Path

import pytest

from calibration.methods import METHODS
from qpasses.api import quantize
from tests.bench.manifest import classifiers, entries
from tests.bench.methods import FIGURES, FLOAT, SYMMETRIC, Row, document, summary, write

DOCS = Path(__file__).parents[2] / "docs"
MODELS = [entry.name for entry in classifiers()]


def rows():
    return [Row(**row) for row in json.loads((DOCS / "calibration.json").read_text("utf-8"))]


def test_the_document_is_what_the_script_writes_from_the_json(tmp_path):
    write(rows(), tmp_path)
    for name in ("calibration.md", "calibration.json"):
        assert (tmp_path / name).read_bytes() == (DOCS / name).read_bytes()


def test_every_method_was_tried_on_every_integer_model():
    found = [(row.model, row.method, row.symmetric) for row in rows()]
    variants = [(FLOAT, False), *((name, False) for name in METHODS)]
    variants += [(name, True) for name in SYMMETRIC]
    assert found == [(model, *variant) for model in MODELS for variant in variants]


@pytest.mark.parametrize("figure", FIGURES)
def test_each_table_names_every_method_and_model(figure):
    head, lines = summary(rows(), figure)
    assert head == ["method", *MODELS, "mean", "mean loss", "worst loss"]
    names = [line[0] for line in lines]
    assert [name for name in names if name != FLOAT and "," not in name] == list(METHODS)
    assert all(len(line) == len(head) for line in lines)


def test_the_default_method_has_the_figures_of_accuracy_fast():
    default = signature(quantize).parameters["calibration_method"].default
    tolerance = {entry.name: entry.tolerance for entry in entries()}
    lines = (DOCS / "gains.md").read_text("utf-8").splitlines()
    found = [[cell.strip() for cell in line.split("|")] for line in lines if "|" in line]
    gains = {cells[1]: dict(zip(found[0], cells, strict=False)) for cells in found}
    for row in rows():
        if (row.method, row.symmetric) == (default, False):
            cells, allowed = gains[row.model], tolerance[row.model]
            score = float(cells["score, fast"].removesuffix("%")) / 100
            assert row.sqnr_db == pytest.approx(float(cells["fast"]), abs=allowed["sqnr_db"])
            assert row.score == pytest.approx(score, abs=allowed["score"])


def test_losses_are_counted_from_the_best_method_of_each_model():
    tried = [Row("a", name, False, 0.5, 20.0) for name in [FLOAT, *METHODS]]
    tried += [Row("a", name, True, 0.5, 20.0) for name in SYMMETRIC]
    better = [replace(r, score=0.75) if r.method == "mse" else r for r in tried]
    lines = {line[0]: line[1:] for line in summary(better, "score")[1]}
    assert lines["mse"] == ["**75.00%**", "75.00%", "0.00", "0.00"]
    assert lines["minmax"] == ["50.00%", "50.00%", "25.00", "25.00"]
    assert lines["mse, symmetric"] == ["75.00%", "75.00%", "0.00", "0.00"]
    assert lines[FLOAT] == ["50.00%", "50.00%", "", ""]


def test_the_document_has_no_figures_of_time():
    assert "second" not in document(rows())
