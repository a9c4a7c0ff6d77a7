"""Reductions, norms and moves of 16 bits: integer, proved, verified, as precise as that."""

from functools import cache

import numpy as np
import pytest

from calibration import Session
from tests.support.fault_finding import one_off
from tests.support.small_models import model, numbers
from tests.support.thoroughness import together
from tests.support.word_models import of_words

CHANNELS = {"g": numbers(4), "b": numbers(4, seed=1)}
ROWS = {"g": numbers(6), "b": numbers(6, seed=1)}
NODES = {
    "layer norm": ("IntLayerNorm", "LayerNormalization (x, g, b)", ROWS),
    "root mean square": ("IntLayerNorm", "RMSNormalization (x, g)", {"g": numbers(6)}),
    "instance norm": ("IntLayerNorm", "InstanceNormalization (x, g, b)", CHANNELS),
    "group norm": ("IntLayerNorm", "GroupNormalization <num_groups = 2> (x, g, b)", CHANNELS),
    "mean": ("IntReduce", "ReduceMean <keepdims = 0> (x, a)", {"a": np.array([-1, 1])}),
    "global pool": ("IntReduce", "GlobalAveragePool (x)", {}),
    "pool": ("IntCountedAveragePool", "AveragePool <kernel_shape = [2, 3]> (x)", {}),
    "padded pool": (
        "IntCountedAveragePool",
        "AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]> (x)",
        {},
    ),
    "resize": (
        "IntResize",
        'Resize <mode = "linear"> (x, , s)',
        {"s": np.array([1, 1, 2, 1.5], np.float32)},
    ),
    "sum": ("IntReduce", "ReduceSum (x, a)", {"a": np.array([-1])}),
    "softmax": ("TableSoftmax16", "Softmax (x)", {}),
    "softmax of columns": ("TableSoftmax16", "Softmax <axis = 1> (x)", {}),
}
"""By name: the op, a node that reads x, float[2, 4, 5, 6], and the weights of it."""

LEAST_SQNR = 70
"""In dB, of random normal numbers stored in 16 bits, before and behind; 8 bits have 40."""

ENDS = {"words to words": (), "words to bytes": ("y",), "bytes to words": ("x",)}
FEED = {"x": numbers(2, 4, 5, 6)}

every_node = pytest.mark.parametrize("name", NODES)
every_end = pytest.mark.parametrize(("name", "ends"), together(NODES, ENDS))


def float_model(name):
    _op, node, weights = NODES[name]
    text = f"g (float[2, 4, 5, 6] x) => (float[] y) {{ [it] y = {node} }}"
    opset = 23 if "RMS" in node else 21
    return model(text, opset=opset, ir_version=10, **weights)


@cache
def made(name, in_bytes=(), **options):
    return of_words(float_model(name), FEED, in_bytes, **options)


def outputs(of):
    return Session(of, optimize=False).run(None, FEED)


@pytest.mark.thinned
@every_end
@pytest.mark.parametrize("bodies", ["portable", "onnxruntime"])
def test_a_node_is_integer_proved_and_verified(name, ends, bodies):
    found = made(name, ENDS[ends], bodies=bodies)
    assert found.declined == {}
    op = NODES[name][0]
    expected = "TableSoftmax" if "x" in ENDS[ends] and op == "TableSoftmax16" else op
    assert expected in [node.op_type for node in found.integer.graph.node]
    assert {each.problem for each in found.evidence.values()} == {""}
    assert all(each.proved and each.mismatches == 0 for each in found.evidence.values())
    assert found.floats.differences(found.integer) == []
    scale = max(each.reference_max_lsb for each in found.evidence.values())
    for ours, theirs in zip(outputs(found.integer), outputs(found.placed), strict=True):
        step = np.min(np.diff(np.unique(theirs)))
        assert np.abs(ours - theirs).max() <= scale * step * 1.001


@cache
def long_rows(in_bytes=(), **options):
    """Pictures of more words than double has squares of sums of."""
    feed = {"x": numbers(1, 4, 52, 52) * np.float32([[[1]], [[0.1]], [[0]], [[5]]])}
    text = "g (float[1, 4, 52, 52] x) => (float[] y) { y = InstanceNormalization (x, g, b) }"
    made = model(text, opset=21, ir_version=10, **CHANNELS)
    return of_words(made, feed, in_bytes, **options), made, feed


@pytest.mark.parametrize(("in_bytes", "bodies"), [((), "portable"), (("y",), "onnxruntime")])
def test_rows_of_thousands_of_words_are_integer_proved_and_as_precise(in_bytes, bodies):
    found, made, feed = long_rows(in_bytes, bodies=bodies)
    (proof,) = [each for each in found.evidence.values() if each.op == "IntLayerNorm"]
    assert proof.proved and proof.mismatches == 0 and proof.bound < 0.3
    assert proof.body.endswith("in_halves") and found.floats.differences(found.integer) == []
    ours, real = (Session(each).run(None, feed)[0] for each in (found.integer, made))
    noise = np.square(real.astype(np.float64) - ours).mean()
    assert 10 * np.log10(np.square(real.astype(np.float64)).mean() / noise) > 30


@pytest.mark.parametrize("in_bytes", [(), ("y",)], ids=["words", "bytes"])
def test_a_number_of_long_rows_that_is_one_off_is_found(in_bytes):
    found, _made, _feed = long_rows(in_bytes)
    for constant in found.integer.graph.initializer:
        assert found.floats.differences(one_off(found.integer, constant.name)), constant.name


@pytest.mark.thinned
@every_node
def test_words_are_as_precise_as_16_bits(name):
    (real,) = Session(float_model(name), optimize=False).run(None, FEED)
    (ours,) = outputs(made(name).integer)
    noise = np.square(real.astype(np.float64) - ours).mean()
    assert 10 * np.log10(np.square(real.astype(np.float64)).mean() / noise) > LEAST_SQNR


@pytest.mark.thinned
@every_end
def test_a_number_that_is_one_off_is_found(name, ends):
    found = made(name, ENDS[ends])
    for constant in found.integer.graph.initializer:
        assert found.floats.differences(one_off(found.integer, constant.name)), constant.name
