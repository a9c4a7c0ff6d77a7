"""Tables that are asked for together: each gets the answer that it gets alone."""

import numpy as np
import pytest

from calibration.session import Session
from qpasses import quantize
from qpasses.evidence import prove_tables as tables
from qpasses.evidence import tables_together
from qpasses.evidence.bodies import made_bodies
from qpasses.evidence.table_places import asked_of
from qpasses.evidence.tables_together import Answers
from qpasses.ir.interchange import import_graph
from qpasses.ir.metadata import read_record
from tests.support.small_models import model, numbers

NET = """
g (float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y) {
    a = Sigmoid (x) b = Conv (a, w) c = Exp (b) d = Conv (c, w) e = Tanh (d) f = Conv (e, w)
    y = HardSigmoid (f)
}"""


@pytest.fixture(scope="module")
def questions():
    """Of each made body: of its table, and of one that is wrong in a place."""
    made = quantize(model(NET, opset=21, w=numbers(2, 2, 1, 1)), [{"x": numbers(1, 2, 4, 4)}])
    (record, _), found = read_record(made.model), []
    for node in import_graph(made.model).nodes:
        for body in made_bodies(node, record) if node.op == "Lut" else ():
            table = node.inputs[1].values
            broken = table.copy()
            broken[77] ^= 3
            found += [asked_of("Lut", body, each, ["uint8"], {}) for each in (table, broken)]
    return found


def test_tables_asked_together_differ_where_they_differ_alone(questions):
    answers = Answers()
    answers.ask(questions)
    assert len(questions) >= 10
    for each in questions:
        np.testing.assert_array_equal(answers.get(each), tables._differences(each))
    assert any(answers.get(each).any() for each in questions)
    assert not all(answers.get(each).any() for each in questions)


def test_many_tables_take_the_sessions_of_few(questions, monkeypatch):
    made = []

    class Counted(Session):
        def __init__(self, *given, **options):
            made.append(self)
            super().__init__(*given, **options)

    monkeypatch.setattr(tables_together, "Session", Counted)
    Answers().ask(questions)
    assert len(made) == 2  # optimized and not


def test_old_answers_are_forgotten(questions, monkeypatch):
    monkeypatch.setattr(tables_together, "_KEPT", 3)
    answers = Answers()
    answers.ask(questions[:5])
    assert [answers.get(each) is not None for each in questions[:5]] == [False] * 2 + [
        True
    ] * 3
