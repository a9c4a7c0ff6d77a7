"""docs/ops is what tests/bench/op_pages.py writes of the declarations."""

import pytest

from opsets.qpasses_v1 import OPS
from tests.bench.op_pages import FOLDER, pages

COMMAND = "written by other declarations: make docs"


@pytest.mark.parametrize("name", pages())
def test_a_page_is_what_the_op_declares(name):
    assert (FOLDER / name).read_text("utf-8") == pages()[name], COMMAND


def test_every_page_is_of_an_op():
    assert {path.name for path in FOLDER.glob("*")} == pages().keys(), COMMAND
    assert len(pages()) == len(OPS) + 1


@pytest.mark.parametrize("name", OPS)
def test_a_page_names_every_input_attribute_body_and_law(name):
    op = OPS[name]
    (page,) = (content for content in pages().values() if content.startswith(f"# {name}\n"))
    for part in (*op.inputs, *op.attributes, *(body.overload for body in op.bodies)):
        assert f"| `{part}` |" in page
    for said in (*op.laws, *(each.says for each in op.constraints)):
        assert f"- {said}\n" in page
    assert " ".join(op.formula.split()) in " ".join(page.split())
