"""The published LSTM kernels in plain loops against the interpreters of TFLite."""

import numpy as np
import pytest

from tests.support.litert import WholeFile, float32, interpreted, needs_litert, needs_tflm
from tests.support.lstm_files import any_codes, any_lstm, written
from tests.support.lstm_kernels import Gate, Lstm, run
from tests.support.thoroughness import THOROUGH

COUNT = 400 if THOROUGH else 60

LOUD = (0.2, 1.0, 4.0)
"""How far sums of gates reach, about; with 4 many saturate, some of the state's alone."""

KERNELS = [
    pytest.param("tflm", "TFLM", False, marks=needs_tflm, id="tflm"),
    pytest.param("tflm", "TFLM", True, marks=needs_tflm, id="tflm-16x8"),
    pytest.param("litert", "BUILTIN_REF", False, marks=needs_litert, id="litert"),
]


@pytest.mark.parametrize("loud", LOUD)
@pytest.mark.parametrize(("kernel", "resolver", "wide"), KERNELS)
def test_plain_loops_give_what_interpreters_give(kernel, resolver, wide, loud):
    rng, files, expected = np.random.default_rng(int(10 * loud)), [], []
    for _ in range(COUNT):
        lstm = any_lstm(rng, wide=wide, loud=loud)
        steps, batch = int(rng.integers(1, 7)), int(rng.integers(1, 3))
        x, time_major = any_codes(rng, lstm, steps, batch), bool(rng.random() < 0.7)
        expected.append(run(lstm, x.tolist(), kernel))
        fed = x if time_major else np.ascontiguousarray(x.swapaxes(0, 1))
        files.append(WholeFile(written(lstm, steps, batch, time_major=time_major), [fed]))
    for (found,), wanted, file in zip(
        interpreted(files, resolver), expected, files, strict=True
    ):
        is_major = found.shape[:2] == np.shape(wanted)[:2] and file.feeds[0].ndim == 3
        same = np.array_equal(found, wanted)
        assert (is_major and same) or np.array_equal(found.swapaxes(0, 1), wanted)


def of_one_unit(x_scale, h_scale, bias, weight, w_scale):
    """One unit that shows the sum of its cell gate: the others are open."""
    open_gate = Gate([[0]], [[0]], [int(10 / (x_scale * w_scale))], w_scale, float32(0.01))
    cell = Gate([[weight]], [[0]], [bias], w_scale, float32(0.01))
    gates = {"i": open_gate, "f": open_gate, "g": cell, "o": open_gate}
    return Lstm(gates, x_scale, 0, h_scale, 0, -15, 32767)


def beside_ties(rng):
    """A unit and its input: the sum is half a step of the first of two roundings off a tie."""
    x_scale, weight, x = float32(rng.uniform(0.003, 0.1)), *map(int, rng.integers(50, 128, 2))
    wanted = int(rng.integers(20, 110)) + 0.5
    wanted -= 2.0 ** (np.frexp(wanted / (weight * x))[1] - 1)
    w_scale = float32(wanted / 4096 / x_scale / (weight * x))
    return of_one_unit(x_scale, float32(0.9 / 4096), 0, weight, w_scale), [[[x]]]


@pytest.mark.parametrize(("kernel", "resolver", "wide"), [KERNELS[0], KERNELS[2]])
def test_scales_are_multiplied_in_double_by_one_and_in_float32_by_the_other(
    kernel, resolver, wide
):
    rng, files, expected = np.random.default_rng(7), [], []
    other = {"tflm": "cmsis in float32", "litert": "litert in double"}[kernel]
    while len(files) < 20:
        lstm, x = beside_ties(rng)
        ours = run(lstm, x, kernel)
        if ours != run(lstm, x, other):
            files.append(WholeFile(written(lstm, 1, 1), [np.array(x, np.int8)]))
            expected.append(ours)
    found = [each.tolist() for (each,) in interpreted(files, resolver)]
    assert found == expected
