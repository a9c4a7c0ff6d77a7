"""The published LSTM kernels in plain loops against the interpreters of TFLite."""

import json
from pathlib import Path

import numpy as np
import pytest

from opsets.lstm_forms import LSTM_FORMS
from opsets.qpasses_v1 import OPS
from opsets.recurrence import WHOLE
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


@pytest.mark.thinned
@pytest.mark.parametrize("loud", LOUD)
@pytest.mark.parametrize(("kernel", "resolver", "wide"), KERNELS)
def test_plain_loops_give_what_interpreters_give(kernel, resolver, wide, loud):
    rng, files, expected = np.random.default_rng(int(10 * loud)), [], []
    for _ in range(COUNT):
        powers = LSTM_FORMS[kernel].powers
        lstm = any_lstm(rng, wide=wide, loud=loud, powers=powers)
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


# CMSIS-NN's own vectors: tests/opsets/write_cmsis_nn_lstm.py


VECTORS = json.loads(Path(__file__).with_name("cmsis_nn_lstm.json").read_text("utf-8"))

ORDER = "input", "output", "forget", "cell"
"""Gates as columns of the op are."""


def node_of(case, is_wide):
    """Inputs and attributes of an IntLstm with the multipliers and tables of a case."""
    hidden, steps = case["hidden_size"], case["time_steps"]
    dtype = np.dtype(np.int16 if is_wide else np.int8)
    limits, form = np.iinfo(dtype), LSTM_FORMS["cmsis"]

    def columns(part):
        gates = [np.reshape(case[f"{gate}_gate_{part}"], (hidden, -1)) for gate in ORDER]
        return np.concatenate(gates).T.astype(np.int8)

    def pairs(names):
        found = [
            pair_of(case[f"{each}_multiplier"], case[f"{each}_shift"], is_wide)
            for each in names
        ]
        return [np.array(each, np.int32) for each in zip(*found, strict=True)]

    def rows(part):
        return [np.repeat(n, hidden) for n in pairs([f"{g}_gate_{part}" for g in ORDER])]

    # the cell and the output are requantized with all bits of their multipliers
    cells = [(case[f"{n}_to_cell_multiplier"], 31 - case[f"{n}_to_cell_shift"]) for n in FI]
    c_pairs = [np.array(each, np.int32) for each in zip(*cells, strict=True)]
    zero = np.array(case["output_zero_point"], dtype)
    inputs = [
        np.reshape(case["input_tensor"], (steps, 1, -1)).astype(dtype),
        *(zero.reshape(1, 1, 1), np.zeros((1, 1, 1), np.int16), np.array([WHOLE], np.int32)),
        np.array(-case["input_zero_point"], dtype),
        *(columns("input_weights"), columns("hidden_weights")),
        np.concatenate([case[f"{gate}_gate_bias"] for gate in ORDER]).astype(np.int32),
        *(*rows("input"), *rows("hidden")),
        *(np.zeros(3 * hidden, np.int32), np.ones(3 * hidden, np.int32)),
        *(form.sigmoid(), form.tanh(-12), form.tanh(case["cell_scale_power"])),
        *(*c_pairs, np.array(-case["cell_clip"], np.int16)),
        np.array(case["cell_clip"], np.int16),
        np.array(case["output_multiplier"], np.int32),
        np.array(31 - case["output_shift"], np.int32),
        *(zero, np.array(limits.min, dtype), np.array(limits.max, dtype)),
    ]
    attributes = {"rounding": "half_up" if is_wide else "tflite_double"}
    return inputs, attributes | ({"product_rounding": "tflite_double"} if is_wide else {})


FI = "forget", "input"


def pair_of(multiplier, left, is_wide):
    """On a node; sums of words have 15 bits of a multiplier."""
    if not is_wide:
        return multiplier, 31 - left
    return (multiplier + (1 << 15)) >> 16, 15 - left


@pytest.mark.parametrize("name", VECTORS)
def test_vectors_of_cmsis_nn_are_reproduced_by_the_op(name):
    case = VECTORS[name]
    inputs, attributes = node_of(case, name.endswith("s16"))
    y, _, _ = OPS["IntLstm"].reference(*inputs, **attributes)
    np.testing.assert_array_equal(y.reshape(-1), case["output"])
