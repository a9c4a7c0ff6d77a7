"""State ranges: a first state has the scale of all steps, whatever is read of them."""

import json

import numpy as np
import pytest

import qpasses
from tests.support.small_models import model, numbers, session

GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}
TEXT = {
    "GRU": "y = GRU <hidden_size = 4> (x, w, r, b, , s)",
    "LSTM": "y = LSTM <hidden_size = 4> (x, w, r, b, , none, s)",
    "RNN": "y = RNN <hidden_size = 4> (x, w, r, b, , s)",
    "of an LSTM's hidden state": "y, , c = LSTM <hidden_size = 4> (x, w, r, b, , s, none)",
}


def weights(op, forget=0.0):
    rows = 4 * GATES[op]
    bias = numbers(1, 2 * rows, seed=3) / 5
    bias[:, 8:12] += np.float32(forget)  # the third gate
    return {
        "w": numbers(1, rows, 4, seed=1) / 2,
        "r": numbers(1, rows, 4, seed=2) / 2,
        "b": bias,
    }


def net(name, first="float[1, 2, 4] s", steps=8, **constants):
    op = next(each for each in GATES if each in TEXT[name])
    made, end = weights(op, constants.pop("forget", 0.0)), "float[8, 1, 2, 4] y"
    if "none" in TEXT[name]:
        made["none"] = np.zeros((1, 2, 4), np.float32)
    if ", c =" in TEXT[name]:
        end = "float[1, 2, 4] c"
    ends = f"float[{steps}, 2, 4] x" + f", {first}" * bool(first)
    text = f"g ({ends}) => ({end.replace('8', str(steps))}) {{ {TEXT[name]} }}"
    return model(text, **made, **constants)


def decibels(original, feeds, **options):
    """How near the integers are on the samples that they were made with."""
    made = qpasses.quantize(original, feeds, **options)
    assert made.verdict == "ok"
    one, other = session(original), session(made.model)
    expected, found = (
        np.concatenate([each.run(None, feed)[0].ravel() for feed in feeds])
        for each in (one, other)
    )
    return 10 * np.log10(np.square(expected).sum() / np.square(expected - found).sum())


@pytest.mark.thinned
@pytest.mark.parametrize("options", [{}, {"tensor_types": [".*=int16"]}])
@pytest.mark.parametrize("factor", [0.0, 0.01, 1.0])
@pytest.mark.parametrize("name", TEXT)
def test_small_first_states_do_not_bound_those_that_follow(name, factor, options):
    feeds = [
        {
            "x": numbers(8, 2, 4, seed=seed),
            "s": numbers(1, 2, 4, seed=seed) * np.float32(factor),
        }
        for seed in range(6)
    ]
    assert decibels(net(name), feeds, **options) > 30


@pytest.mark.thinned
@pytest.mark.parametrize("options", [{}, {"tensor_types": [".*=int16"]}])
@pytest.mark.parametrize("name", TEXT)
def test_large_constant_first_states_are_within_the_range(name, options):
    first = np.full((1, 2, 4), 12, np.float32)
    original = net(name, "", steps=3, s=first, forget=-3.0)
    feeds = [{"x": numbers(3, 2, 4, seed=seed)} for seed in range(6)]
    assert decibels(original, feeds, **options) > 20


def test_an_override_says_what_the_range_is():
    first = np.full((1, 2, 4), 12, np.float32)
    feeds = [{"x": numbers(8, 2, 4, seed=seed)} for seed in range(6)]
    made = qpasses.quantize(
        net("RNN", "", s=first), feeds, calibration_overrides=["y=-2,2"], integer_io=True
    )
    known = {
        each.key: json.loads(each.value)
        for each in made.model.metadata_props
        if each.key == "qpasses.outputs"
    }
    assert next(iter(known["qpasses.outputs"].values()))["scale"] == pytest.approx(4 / 255)
