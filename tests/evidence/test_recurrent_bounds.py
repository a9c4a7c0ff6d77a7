"""Bounds of one step of a recurrent node, beside real arithmetic that saturates as it does."""

import numpy as np
import pytest

import qpasses
from opsets.qpasses_v1 import OPS
from qpasses.evidence.bodies import constants_of
from qpasses.ir.interchange import import_graph
from qpasses.ir.metadata import read_record
from tests.support.small_models import model, numbers

ROWS = 5000
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
NET = "n (float[6, 1, 4] x) => (float[6, 1, 1, 2] y) {{ y = {} (x, w, r, b) }}"
NODES = {
    "LSTM": "LSTM <hidden_size = 2>",
    "GRU": "GRU <hidden_size = 2>",
    "GRU that resets sums": "GRU <hidden_size = 2, linear_before_reset = 1>",
    "RNN": "RNN <hidden_size = 2>",
}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def one_step(name, factors, row_bias=0.0):
    """The integer node, what it is given, and its record, of weights times ``factors``."""
    rows = 2 * GATES[name.split()[0]]
    bias = numbers(1, 2 * rows, seed=3) / 4
    bias[0, -2:] += np.float32(row_bias)
    weights = {
        "w": numbers(1, rows, 4, seed=1) * np.float32(factors[0]),
        "r": numbers(1, rows, 2, seed=2) * np.float32(factors[1]),
    }
    feeds = [{"x": numbers(6, 1, 4, seed=seed)} for seed in range(6)]
    result = qpasses.quantize(model(NET.format(NODES[name]), **weights, b=bias), feeds)
    graph, record = import_graph(result.model), read_record(result.model)[0]
    (node,) = [each for each in graph.nodes if each.op in ("IntLstm", "IntGru", "IntRnn")]
    (evidence,) = [each for each in result.evidence if each.name == node.name]
    return node, constants_of(node), record, evidence.bound


def codes(zero, shape, rng):
    limits = np.iinfo(zero.dtype)
    anywhere = rng.integers(limits.min, limits.max, shape, zero.dtype, endpoint=True)
    ends = rng.choice(np.array([limits.min, limits.max], zero.dtype), shape)
    return np.where(rng.random(shape) < 0.5, anywhere, ends)


def differences(node, given, record):
    """By how many steps of y one step differs from real arithmetic, for random codes."""
    op, rng, entry = OPS[node.op], np.random.default_rng(0), record.nodes[node.name]
    word = np.array(0, np.int16)
    of_cell = {"initial_c": word} | ({"initial_h": word} if node.op == "IntGru" else {})
    hidden = len(given["r"])
    fed = {"x": codes(given["x_zero"], (1, ROWS, len(given["w"])), rng)}
    for each in {"initial_h", "initial_c"} & {*op.inputs}:
        fed[each] = codes(of_cell.get(each, given["y_zero"]), (1, ROWS, hidden), rng)
    fed["sequence_lens"] = np.array([1], np.int32)
    found = op.reference(*(fed.get(k, given.get(k)) for k in op.inputs), **node.attrs)
    x_scale, y_scale, step = (entry.scales[each][0] for each in ("x", "y", "gates"))
    cell = record.tensors[node.outputs[-1].name].scale
    zero = float(given["y_zero"])

    def limited(values, unit):
        return np.clip(values, -32768 * unit, 32767 * unit)

    steps_of_x = x_scale * np.array(entry.scales["w"])
    steps_of_h = y_scale * np.array(entry.scales["r"])
    x = fed["x"][0].astype(float) - float(given["x_zero"])
    of_x = limited((x @ given["w"] + given["bias"]) * steps_of_x, step)
    if node.op == "IntGru":
        h = fed["initial_h"][0] * cell
        limits = np.iinfo(given["y_zero"].dtype)
        low, high = ((end - zero) * y_scale for end in (limits.min, limits.max))
        seen = np.clip(h, low, high)
        bias = given["r_bias"] * steps_of_h
        real_r = given["r"] * steps_of_h / y_scale
        z, r = (
            sigmoid(limited(each, step))
            for each in np.split((of_x + seen @ real_r + bias)[:, : 2 * hidden], 2, axis=1)
        )
        rows = real_r[:, 2 * hidden :]
        if node.attrs["linear_before_reset"]:
            sums = limited(seen @ rows + bias[2 * hidden :], entry.scales["gates"][1])
            n = of_x[:, 2 * hidden :] + r * sums
        else:
            n = of_x[:, 2 * hidden :] + np.clip(r * h, low, high) @ rows + bias[2 * hidden :]
        expected = limited((1 - z) * np.tanh(limited(n, step)) + z * h, cell)
        return (found[1][0] * cell - expected) / y_scale
    h = (fed["initial_h"][0].astype(float) - zero) * y_scale
    sums = limited(of_x + h @ (given["r"] * steps_of_h / y_scale), step)
    if node.op == "IntRnn":
        expected = np.tanh(sums)
    else:
        i, o, f, g = np.split(sums, 4, axis=1)
        c = sigmoid(f) * fed["initial_c"][0] * cell + sigmoid(i) * np.tanh(g)
        expected = sigmoid(o) * np.tanh(limited(c, cell))
    limits = np.iinfo(given["y_zero"].dtype)
    ends = ((end - zero) * y_scale for end in (limits.min, limits.max))
    return (found[0][0, 0] - zero) - np.clip(expected, *ends) / y_scale


@pytest.mark.thinned
@pytest.mark.parametrize("factors", [(0.5, 0.5), (0.05, 0.5), (5, 20)], ids=str)
@pytest.mark.parametrize("name", NODES)
def test_no_step_is_further_from_real_arithmetic_than_its_bound_says(name, factors):
    node, given, record, bound = one_step(name, factors)
    off = np.abs(differences(node, given, record)).max()
    assert 0 < off <= bound + 0.5


def test_sums_that_are_reset_do_not_saturate():
    node, given, record, bound = one_step("GRU that resets sums", (0.5, 0.5), row_bias=30)
    assert record.nodes[node.name].scales["gates"][1] > 2.0**-11
    assert np.abs(differences(node, given, record)).max() <= bound + 0.5
