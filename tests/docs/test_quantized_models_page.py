"""docs/quantized-models.md: every file is there; what is quick to make again is as it says."""

import pytest

from tests.bench.manifest import ROOT
from tests.bench.quantized_models import STATIC, integerized, published_case, rows
from tests.bench.quantized_zoo import FOLDER, PUBLISHED
from tests.bench.static_models import FORMS

needs_zoo = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"no quantized models at {FOLDER}: set QPASSES_ZOO"
)

QUICK = ("tinycnn_esp_qoperator", "motor_fault_1dcnn_qdq", "ort_qdq16_op21_block")

COUNTED = (
    *("verdict", "integer_only", "nodes", "left", "reasons", "scales_kept"),
    *("scales_from_samples", "weights_not_kept", "channels", "moved", "moved_exactly"),
)


def test_every_file_and_every_form_was_measured():
    found = [(row.name, row.form) for row in rows()]
    expected = [(each.name, each.form) for each in PUBLISHED]
    expected += [(name, form) for name in STATIC for form in FORMS]
    assert found == expected


def test_the_page_names_how_many():
    page = (ROOT / "docs" / "quantized-models.md").read_text("utf-8")
    assert f"{len(PUBLISHED)} files as people\npublish them" in page
    assert len(STATIC) == 6 and "six models of the zoo" in page


@pytest.mark.zoo
@needs_zoo
@pytest.mark.parametrize("name", QUICK)
def test_what_becomes_of_a_file_is_what_the_page_says(name):
    given = next(each for each in PUBLISHED if each.name == name)
    (kept,) = (row for row in rows() if row.name == name)
    made, _ = integerized(published_case(given))
    assert {each: getattr(made, each) for each in COUNTED} == {
        each: getattr(kept, each) for each in COUNTED
    }
