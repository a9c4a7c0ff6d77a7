"""Extremes of channels as tensors are written, beside numpy on all their values."""

import sys

import numpy as np
import pytest
from onnx import helper

from calibration import Run, collect, input_specs, observed_model, open_samples
from calibration.channel_extremes import Extremes
from calibration.collect import Collected
from calibration.counting import NumpyCounter, Values, fastest_counter
from calibration.observed_model import ObservedModel
from calibration.tally import Tally
from tests.support.small_models import model, numbers
from tests.support.stage_checks import run as all_values

MODULE = sys.modules[collect.__module__]
COUNTERS = [NumpyCounter, fastest_counter]
every_counter = pytest.mark.parametrize("counter", COUNTERS, ids=["numpy", "fastest"])


def net(channels, size="6, 5", batch=2):
    """Convs, the last one depthwise, and what is between them."""
    random = np.random.default_rng(0)
    weights = {
        "v": random.standard_normal((channels, 3, 1, 1)).astype(np.float32),
        "w": random.standard_normal((channels, 1, 3, 3)).astype(np.float32),
    }
    return model(
        f"""g (float[{batch}, 3, {size}] x) => (float[{batch}, {channels}, {size}] y) {{
            a = Conv (x, v)
            b = HardSwish (a)
            y = Conv <group = {channels}, pads = [1, 1, 1, 1]> (b, w)
        }}""",
        **weights,
    )


def feeds(count=7, batch=2):
    return [{"x": each} for each in numbers(count, batch, 3, 6, 5)]


def expected(made, data, names):
    """By numpy, from all values at once: [C] each."""
    shown = onnx_outputs(made, names)
    runs = [all_values(shown, feed) for feed in data]
    stacks = [np.concatenate([run[k] for run in runs]) for k in range(len(names))]
    return [(s.min(axis=(0, 2, 3)), s.max(axis=(0, 2, 3))) for s in stacks]


def onnx_outputs(made, names):
    shown = type(made)()
    shown.CopyFrom(made)
    del shown.graph.output[:]
    shown.graph.output.extend(helper.make_tensor_value_info(n, 1, None) for n in names)
    return shown


def check(found, data, made, names, held_back):
    """``held_back``: positions of those samples."""
    chosen = [feed for at, feed in enumerate(data) if at not in held_back]
    apart = [feed for at, feed in enumerate(data) if at in held_back]
    for group, of_group in ("choosing", chosen), ("held_back", apart):
        for name, ends in zip(names, expected(made, of_group, names), strict=True):
            seen = getattr(found[name].channels, group)
            assert seen.known
            np.testing.assert_allclose(seen.low, ends[0], rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(seen.high, ends[1], rtol=1e-5, atol=1e-6)


@every_counter
@pytest.mark.parametrize("channels", [2, 16, 24, 48])
def test_those_of_channels_are_those_of_all_values(channels, counter, monkeypatch):
    """Some numbers of channels stay in onnxruntime's blocks."""
    monkeypatch.setattr(MODULE, "fastest_counter", counter)
    made, data, names = net(channels), feeds(), ["a", "b"]
    samples = open_samples(data, input_specs(made))
    apart = frozenset(samples.name(at) for at in (1, 4))
    wanted = Run(channels=dict.fromkeys(names, channels), held_back=apart)
    found = collect(made, [*names, "y"], samples, wanted).tensors
    assert found["y"].channels is None
    check(found, data, made, names, {1, 4})
    for name in names:
        whole = found[name].channels.all
        assert (whole.low.min(), whole.high.max()) == (found[name].low, found[name].high)


def test_they_were_in_blocks(monkeypatch):
    """Else the test before this one says nothing of them."""
    seen = []
    load = ObservedModel._load

    def noted(self, *args):
        session = load(self, *args)
        seen.append(self._blocks)
        return session

    monkeypatch.setattr(ObservedModel, "_load", noted)
    for channels in (16, 24):
        made = net(channels)
        collect(made, ["a", "b"], open_samples(feeds(), input_specs(made)))
    in_blocks = {*seen[0].values()}
    assert in_blocks == {observed_model._block()}
    assert {*seen[1].values()} == {1}


@every_counter
def test_batches_of_samples_keep_those_apart_that_are_held_back(counter, monkeypatch):
    monkeypatch.setattr(MODULE, "fastest_counter", counter)
    made, data = net(16, batch="N"), feeds(200, 1)
    samples = open_samples(data, input_specs(made))
    held_back = {*range(0, 200, 13)}
    apart = frozenset(samples.name(at) for at in held_back)
    wanted = Run(channels={"a": 16, "b": 16}, held_back=apart)
    found = collect(made, ["a", "b"], samples, wanted).tensors
    check(found, data, made, ["a", "b"], held_back)


def test_what_is_collected_in_parts_is_the_same():
    made, data = net(16), feeds(9)
    samples = open_samples(data, input_specs(made))
    wanted = Run(channels={"a": 16, "b": 16}, held_back=frozenset([samples.name(5)]))
    whole = collect(made, ["a", "b"], samples, wanted)
    first = collect(made, ["a", "b"], samples.between(0, 6), wanted)
    goes_on = collect(made, ["a", "b"], samples, wanted, Collected(first.tensors, [(0, 6)]))
    for one, other in zip(whole.tensors.values(), goes_on.tensors.values(), strict=True):
        for group in ("choosing", "held_back", "all"):
            ours, theirs = getattr(one.channels, group), getattr(other.channels, group)
            np.testing.assert_array_equal(ours.low, theirs.low)
            np.testing.assert_array_equal(ours.high, theirs.high)


def test_a_bad_sample_that_is_skipped_leaves_no_trace():
    made, data = net(16), feeds(6)
    data[2] = {"x": data[2]["x"] * np.float32(np.nan)}
    samples = open_samples(data, input_specs(made))
    wanted = Run(skip_bad=True, channels={"a": 16}, held_back=frozenset([samples.name(1)]))
    found = collect(made, ["a"], samples, wanted)
    assert len(found.skipped) == 1
    good = [data[at] for at in (0, 1, 3, 4, 5)]
    check(found.tensors, good, made, ["a"], {1})


@every_counter
def test_another_number_of_channels_makes_nothing_known(counter):
    tally = Tally(1, (), {0: 3})
    array = np.ones((2, 4, 5), np.float32)
    counter().observe(tally, 0, Values.of(array))
    counter().observe(tally, 0, Values.of(np.ones((2, 3, 5), np.float32)))
    lows, highs = tally.channels_of(0)
    assert not Extremes(lows[0], highs[0]).known


@every_counter
@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 3, 0)])
def test_nothing_is_known_of_no_values(counter, shape):
    tally = Tally(1, (), {0: 3})
    counter().observe(tally, 0, Values.of(np.empty(shape, np.float32)))
    low, high = tally.channels_of(0)
    assert (low == np.inf).all()
    assert (high == -np.inf).all()


@every_counter
@pytest.mark.parametrize("block", [1, 4, 8, 16])
@pytest.mark.parametrize("inner", [1, 3, 7, 40])
def test_blocks_of_channels_are_told_apart(counter, block, inner):
    values = np.random.default_rng(inner).standard_normal((3, 32, inner)).astype(np.float32)
    blocked = values.reshape(3, 32 // block, block, inner).swapaxes(2, 3)
    flat = np.ascontiguousarray(blocked)
    tally = Tally(2, (), {1: 32})
    tally.groups[:3] = 0, 1, 0
    tally.place(3, 0)
    seen = Values(flat.ctypes.data, flat.size, flat, values.shape, block)
    counter().observe(tally, 1, seen)
    for group, rows in enumerate(([0, 2], [1])):
        low, high = (ends[group] for ends in tally.channels_of(1))
        np.testing.assert_array_equal(low, values[rows].min(axis=(0, 2)))
        np.testing.assert_array_equal(high, values[rows].max(axis=(0, 2)))
