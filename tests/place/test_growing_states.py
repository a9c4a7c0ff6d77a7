"""A state that grows has little of its 8 bits at first: that is said, with what helps."""

import numpy as np
import pytest

import qpasses
from tests.support.bodies_nets import LOOP, feeds_of, of_text
from tests.support.small_models import model, numbers

GROWING = """g (float[2, 4] x) => (float[2, 4] y) {{
    h = MatMul (x, w)
    [loop] y = Loop (three, "", {begin}) <body = turn
        (int64 i, bool on, float[2, 4] s) => (bool off, float[2, 4] t)
        {{ off = Identity (on) q = MatMul (s, v) t = Relu (q) }}
    >
}}"""


def growing(begin="h", **constants):
    weights = {"w": numbers(4, 4) / 2, "v": numbers(4, 4, seed=4) * 5, "three": np.int64(3)}
    return model(GROWING.format(begin=begin), opset=17, **weights, **constants)


def said(made):
    return [each for each in made.report["warnings"] if each.startswith("state ")]


def decibels(made):
    return made.report["summary"]["accuracy"]["sqnr_db"]


def test_a_state_that_grows_is_named_with_what_holds_it():
    original, feeds = growing(), feeds_of("float[2, 4] x")
    made = qpasses.quantize(original, feeds, analyze="no")
    (warning,) = said(made)
    assert warning.startswith("state 's' has ") and "--tensor-types s=int16" in warning
    wide = qpasses.quantize(original, feeds, analyze="no", tensor_types=["s=int16"])
    assert [each for each in wide.report["warnings"] if "codes" in each] == []
    assert decibels(wide) > decibels(made) + 20
    assert qpasses.verify(wide.model, original, feeds).verdict == "ok"


@pytest.mark.parametrize(("factor", "count"), [(1, 1), (0, 0)])
def test_a_constant_is_looked_at_too_but_zero_loses_nothing(factor, count):
    first = np.full((2, 4), factor, np.float32)
    made = qpasses.quantize(growing("first", first=first), feeds_of("float[2, 4] x"))
    assert len(said(made)) == count


def test_a_state_that_stays_as_it_is_is_not_named():
    original = of_text("float[2, 4] x", "float[2, 4] y, float[k, 2, 4] z", LOOP)
    assert said(qpasses.quantize(original, feeds_of("float[2, 4] x"))) == []
