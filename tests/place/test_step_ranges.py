"""Functions that jump: their input is stored so that no step is missed."""

import numpy as np
import pytest

from qpasses import quantize, verify
from tests.support.small_models import model, session

ACROSS = np.linspace(-3.7, 5.2, 4001).astype(np.float32)
JUMPS = {
    "Round": ("Round (x)", np.arange(-3.5, 5.5)),
    "ThresholdedRelu": ("ThresholdedRelu <alpha = 2.0> (x)", [2.0]),
    "of another threshold": ("ThresholdedRelu <alpha = 0.3> (x)", [0.3]),
    "Shrink": ("Shrink <lambd = 1.5, bias = 0.0> (x)", [-1.5, 1.5]),
    "Floor": ("Floor (x)", np.arange(-3.0, 6.0)),
    "Ceil": ("Ceil (x)", np.arange(-3.0, 6.0)),
}
BETWEEN = ("Round", "ThresholdedRelu", "of another threshold", "Shrink")
"""Those whose steps lie between two codes: right for every input, not at the steps alone."""


def made(line, **options):
    function = model(f"net (float[N] x) => (float[N] y) {{ y = {line} }}", opset=18)
    return function, quantize(function, [{"x": ACROSS}], **options)


def results(function, result, x):
    return [session(each).run(None, {"x": x})[0] for each in (function, result.model)]


def _method(result):
    """Of the range of x."""
    found = {each["name"]: each["method"] for each in result.report["calibration"]["tensors"]}
    return found["x"]


@pytest.mark.thinned
@pytest.mark.parametrize("options", [{}, {"activation_type": "int8"}], ids=["uint8", "int8"])
@pytest.mark.parametrize("name", JUMPS)
def test_a_value_on_a_step_stands_on_its_own_side(name, options):
    line, points = JUMPS[name]
    function, result = made(line, **options)
    x = np.array(points, np.float32)
    expected, found = results(function, result, x)
    assert np.abs(found - expected).max() < 0.05
    assert verify(result.model, function, [{"x": ACROSS}]).verdict == result.verdict == "ok"


@pytest.mark.parametrize("name", BETWEEN)
def test_a_step_between_two_codes_is_met_by_every_value(name):
    function, result = made(JUMPS[name][0])
    expected, found = results(function, result, ACROSS)
    assert np.abs(found - expected).max() < 0.05


def test_symmetric_codes_meet_the_steps_too():
    function, result = made("Round (x)", target="bm1684x")
    expected, found = results(function, result, ACROSS)
    assert np.abs(found - expected).max() < 0.05


def test_a_range_of_more_numbers_than_codes_stays_as_it_is():
    function = model("net (float[N] x) => (float[N] y) { y = Round (x) }", opset=18)
    result = quantize(function, [{"x": 1000 * ACROSS}])
    assert _method(result) != "steps"


@pytest.mark.parametrize("line", ["Round (x)", "Floor (x)", "Ceil (x)"])
def test_steps_without_number_take_no_memory(line):
    function = model(f"net (float[N] x) => (float[N] y) {{ y = {line} }}", opset=18)
    found = quantize(function, [{"x": ACROSS * np.float32(-1e12)}])
    assert (found.verdict, _method(found)) == ("ok", "minmax")


def test_an_override_keeps_what_it_says():
    function = model("net (float[N] x) => (float[N] y) { y = Round (x) }", opset=18)
    result = quantize(function, [{"x": ACROSS}], calibration_overrides=["x=-4,6"])
    assert _method(result) == "given"
