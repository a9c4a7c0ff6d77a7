"""States fed back for 1,000 steps: stored or in float the same integers, and no drift."""

import numpy as np
import pytest

import qpasses
from calibration import Session
from qpasses.ir.edges import Edges
from qpasses.ir.metadata import read_record
from tests.support.small_models import model, numbers

STEPS = 1000

NETS = {
    "LSTM": (
        """g (float[1, 1, 4] x, float[1, 1, 6] h0, float[1, 1, 6] c0)
            => (float[1, 1, 1, 6] y, float[1, 1, 6] h, float[1, 1, 6] c) {
            y, h, c = LSTM <hidden_size = 6> (x, w, r, b, , h0, c0) }""",
        4,
        ("h0", "c0"),
    ),
    "GRU": (
        """g (float[1, 1, 4] x, float[1, 1, 6] h0)
            => (float[1, 1, 1, 6] y, float[1, 1, 6] h) {
            y, h = GRU <hidden_size = 6, linear_before_reset = 1> (x, w, r, b, , h0) }""",
        3,
        ("h0",),
    ),
    "RNN": (
        """g (float[1, 1, 4] x, float[1, 1, 6] h0)
            => (float[1, 1, 1, 6] y, float[1, 1, 6] h) {
            y, h = RNN <hidden_size = 6> (x, w, r, b, , h0) }""",
        1,
        ("h0",),
    ),
}
"""A net of one step, how many gates it has, and its states by input."""


def net(op):
    text, gates, states = NETS[op]
    rows = 6 * gates
    weights = {"w": numbers(1, rows, 4) / 2, "r": numbers(1, rows, 6, seed=1) / 4}
    return model(text, opset=21, **weights, b=numbers(1, 2 * rows, seed=2) / 8), states


def run(made, first, inputs):
    """The outputs of each step, y first; states are fed back as they come."""
    found, (x_name, *states) = [], [value.name for value in made.graph.input]
    session = Session(made)
    given = dict(zip(states, first, strict=True))
    for x in inputs:
        outputs = session.run(None, {x_name: x, **given})
        found.append(outputs)
        given = dict(zip(states, outputs[1:], strict=True))
    return found


@pytest.fixture(scope="module")
def inputs():
    rng = np.random.default_rng(5)
    return rng.normal(0, 1, (STEPS, 1, 1, 4)).astype(np.float32)


@pytest.mark.thinned
@pytest.mark.parametrize("options", [{}, {"tensor_types": [".*=int16"]}], ids=["8", "16"])
@pytest.mark.parametrize("op", NETS)
def test_states_fed_back_stored_or_in_float_are_the_same_and_do_not_drift(op, options, inputs):
    original, states = net(op)
    zeros = [np.zeros((1, 1, 6), np.float32) for _ in states]
    real = run(original, zeros, inputs)
    samples = [
        {"x": inputs[k], **dict(zip(states, real[k - 1][1:], strict=True))}
        for k in range(1, 200)
    ]
    floats = qpasses.quantize(original, samples, **options)
    stored = qpasses.quantize(original, samples, integer_io=True, **options)
    assert floats.report["summary"]["integer_only"] and stored.verdict == "ok"
    edges = Edges.between(original, stored.model, read_record(stored.model)[0])
    feeds = [{"x": x, **dict(zip(states, zeros, strict=True))} for x in inputs]
    codes, *first = zip(*(edges.feed(each).values() for each in feeds), strict=True)
    one = run(floats.model, zeros, inputs)
    other = run(stored.model, [each[0] for each in first], codes)
    for mine, theirs in zip(one, other, strict=True):
        for found, expected in zip(mine, edges.real(theirs), strict=True):
            np.testing.assert_array_equal(found, expected)
    noise = [np.abs(a[0] - b[0]).mean() for a, b in zip(one, real, strict=True)]
    assert np.mean(noise[-50:]) <= 1.5 * np.mean(noise[:50])
