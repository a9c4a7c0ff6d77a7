"""Models in float64 whose numbers need more digits than float32 has: where they are read."""

import numpy as np
import onnx
import pytest

import qpasses
from qpasses.load.arguments import given_source
from qpasses.load.digits import large_and_rounded
from tests.support.double_rows import feeds, rows

HALVES = """
        s = SplitToSequence <axis = 1> (x, sizes)
        [first] h = SequenceAt (s, zero)
        t = Concat <axis = 1> (h, h)"""

PRESENT = """
        o = Optional (x)
        [first] t = OptionalGetElement (o)"""


@pytest.mark.parametrize("before", [HALVES, PRESENT])
def test_what_is_read_from_sequences_and_optionals_in_float64_is_kept(before):
    constants = {"sizes": np.array([4, 4]), "zero": np.array(0)} if before == HALVES else {}
    source = given_source(rows(before, "t", **constants))
    onnx.checker.check_model(source.model, full_check=True)
    (kept,) = [each for each in source.remarks if "as before" in each]
    assert "node 'first': the type of what it reads is not known" in kept
    source.session()


def test_a_remainder_is_kept_whatever_it_is_divided_by():
    made = rows("[day] t = Mod <fmod = 1> (x, day)", "t", day=np.array(86400.0))
    (kept,) = [each for each in given_source(made).remarks if "as before" in each]
    assert "node 'day': what is left of a large number" in kept


def test_integers_that_are_cast_like_a_float64_are_kept():
    before = """
        [cast] c = CastLike (x, one)
        [since] t = Sub (c, one)"""
    made = rows(before, "t", inputs="int64[N, 8] x", one=np.array(1.0))
    (kept,) = [each for each in given_source(made).remarks if "as before" in each]
    assert "node 'since': the integers in 'c'" in kept


def lost(result):
    return [each for each in result.report["warnings"] if each.startswith("input")]


def test_samples_with_numbers_that_float32_has_not_are_warned_of():
    made = rows("d = Div (x, day)  f = Floor (d)  t = Sub (d, f)", "t", day=np.array(86400.0))
    (found,) = lost(qpasses.quantize(made, feeds(1.7e9)))
    assert found.startswith("input 'x' holds 1")
    assert "in data[0]: float32" in found
    assert lost(qpasses.quantize(made, feeds(0.0))) == []


def test_samples_that_are_read_in_float64_are_not_warned_of():
    made = rows("[since] t = Sub (x, start)", "t", start=np.array(1.7e9))
    result = qpasses.quantize(made, feeds(1.7e9))
    assert lost(result) == []
    kept = "node 'since': 'start' holds 1700000000.0: float32 has not each number around it"
    assert any(each.endswith(kept) for each in result.report["warnings"])


@pytest.mark.parametrize(
    ("values", "found"),
    [([0.1, 16777216.0], None), ([0.1, 2.0**25 + 1], 2.0**25 + 1), ([1e39], 1e39), ([], None)],
)
def test_what_is_large_and_rounded(values, found):
    assert large_and_rounded(np.array(values, np.float64)) == found
