"""models/zoo.toml: the shipped models reach its figures, and the docs show what was found."""

import json
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from qpasses.load.foreign import is_quantized
from tests.bench.manifest import MODELS, entries
from tests.bench.zoo import Row, markdown, missed, run

ROOT = Path(__file__).parents[2]
SHIPPED = {entry.name: entry for entry in entries() if not entry.zoo}


def rows():
    return [Row(**row) for row in json.loads((ROOT / "docs" / "zoo.json").read_text("utf-8"))]


@pytest.fixture(scope="module", params=SHIPPED)
def measured(request, tmp_path_factory):
    entry = SHIPPED[request.param]
    return entry, run(entry, tmp_path_factory.mktemp("zoo"))


def test_a_shipped_model_reaches_the_expected_figures(measured):
    entry, row = measured
    assert row.missed == []
    assert row.verdict == row.verified == "ok"
    assert {"verdict", "integer_mac_share", "float_score", "score", "sqnr_db"} <= set(
        entry.expected
    )


@pytest.mark.parametrize(
    ("figure", "value"),
    [
        ("verdict", "incomplete"),
        ("verified", "failed"),
        ("integer_mac_share", 0.99),
        ("float_score", 0.5),
        ("score", 0.5),
        ("sqnr_db", 10.0),
    ],
)
def test_a_figure_that_is_missed_is_named(measured, figure, value):
    entry, row = measured
    problems = missed(replace(row, **{figure: value}), entry)
    assert any(str(value) in problem for problem in problems)


def test_every_float_model_in_the_models_folder_is_in_the_manifest():
    paths = [path for path in MODELS.glob("*/*.onnx") if not is_quantized(onnx.load(path))]
    shipped = {path.relative_to(MODELS).as_posix() for path in paths}
    assert shipped == {entry.file for entry in SHIPPED.values()}


def test_the_docs_hold_every_model_of_the_manifest_as_expected():
    assert [row.model for row in rows()] == [entry.name for entry in entries()]
    for row, entry in zip(rows(), entries(), strict=True):
        assert missed(row, entry) == row.missed == []


def test_the_table_in_docs_is_that_of_the_json():
    table = markdown(rows())
    assert table in (ROOT / "docs" / "figures.md").read_text("utf-8")
