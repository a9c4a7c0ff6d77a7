"""The forms of the operators of a transformer, on the one that ships with the project."""

from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from qpasses.api import quantize
from qpasses.ir.choices import GeluForm, LayerNormForm, ResidualType, SoftmaxForm
from tests.bench.ablation import FORMS, HEAD, Row, document, is_transformer
from tests.bench.manifest import entries
from tests.support.thoroughness import slow

DOCUMENT = Path(__file__).parents[2] / "docs" / "ablation.md"
VIT = next(entry for entry in entries() if entry.name == "digits_vit")


def test_every_form_is_measured():
    forms = {"softmax": SoftmaxForm, "gelu": GeluForm, "layernorm": LayerNormForm}
    forms["residual_type"] = ResidualType
    for name, kind in forms.items():
        usual, *others = get_args(kind)
        asked = {options.get(name, usual) for options in FORMS.values()}
        assert asked == {usual, *others}


def test_the_document_has_every_row_of_the_shipped_transformer():
    _, _, section = DOCUMENT.read_text("utf-8").partition("## digits_vit\n")
    lines = section.partition("\n## ")[0].strip().splitlines()
    assert lines[0] == f"| {' | '.join(HEAD)} |"
    named = [line.split(" | ")[0].removeprefix("| ") for line in lines[2:]]
    assert named == ["float", "quantize_static", *FORMS]


def test_a_row_has_a_cell_for_every_heading():
    assert len(Row("float").cells()) == len(HEAD)
    made = document({"model": [Row("float", score=0.5, sqnr_db=30.0)]}, 3)
    assert "## model" in made and "| float | - | - | - | - | - | 0.5 | 30.00 |" in made


def test_what_is_a_transformer():
    found = {
        entry.name for entry in entries() if entry.present and is_transformer(entry.model)
    }
    assert "digits_vit" in found and not {"digits_cnn", "textures_cnn"} & found


@cache
def sqnr(name):
    """Of the transformer in one of the FORMS."""
    result = quantize(VIT.model, VIT.calibration, samples=20, **FORMS[name])
    assert result.verdict == "ok"
    return VIT.score(result.model)[1]


@pytest.mark.parametrize("name", [slow("I-ViT's three"), "I-BERT's two", slow("target ivit")])
def test_the_defaults_lose_less_than_the_published_forms(name):
    assert sqnr("qpasses") > sqnr(name) + 3
