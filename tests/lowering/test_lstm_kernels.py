"""LSTM by a kernel of the target: the integers of plain loops, from codes and scales alone."""

import re
from dataclasses import replace

import numpy as np
import pytest

from opsets.qpasses_v1 import OPS
from opsets.target import load_target
from qpasses import quantize, verify
from qpasses.evidence.bodies import constants_of
from qpasses.load.integer_model import read_integer_model
from tests.support.lstm_kernels import run
from tests.support.lstm_nets import kernel_of
from tests.support.recurrent_nets import Net

FORMS = [("tflm", False), ("litert", False), ("tflm", True)]
"""Targets whose LSTM is that of a kernel, and whether with 16 bits."""


def integer(net, target, wide=False):
    """The result of quantizing it, and the samples."""
    made, feed = net.made()
    rng = np.random.default_rng(net.seed)
    feeds = [
        {
            name: (each * rng.uniform(0.3, 1.5)).astype(each.dtype)
            for name, each in feed.items()
        }
        for _ in range(4)
    ]
    types = [".*=int16"] if wide else []
    return quantize(made, feeds, target=target, tensor_types=types), made, feeds


def nodes_of(result):
    read = read_integer_model(result.model, "net")
    return [each for each in read.graph.nodes if each.op == "IntLstm"], read.record


def codes(rng, node, given):
    """Sequences of any codes, and of extreme ones."""
    limits = np.iinfo(given["x_zero"].dtype)
    shape = 6, 2, len(given["w"])
    found = rng.integers(limits.min, limits.max + 1, shape)
    ends = np.where(rng.random(shape) < 0.5, limits.min, limits.max)
    return [each.astype(limits.dtype) for each in (found, ends)]


def check(node, record, kernel):
    given, op, rng = constants_of(node), OPS["IntLstm"], np.random.default_rng(1)
    for x in codes(rng, node, given):
        arrays = [x if name == "x" else given[name] for name in op.inputs]
        found = op.reference(*arrays, **node.attrs)[0][:, 0]
        np.testing.assert_array_equal(found, run(kernel_of(node, record), x.tolist(), kernel))


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("seed", "way"), [(0, "forward"), (1, "bidirectional"), (2, "forward"), (3, "reverse")]
)
@pytest.mark.parametrize(("target", "wide"), FORMS)
def test_nodes_have_the_integers_of_the_kernel(target, wide, seed, way):
    net = Net("LSTM", way, hidden=4 + 5 * seed, size=1 + 3 * seed, seed=seed)
    result, made, feeds = integer(net, target, wide)
    nodes, record = nodes_of(result)
    assert len(nodes) == 1 + (way == "bidirectional")
    for node in nodes:
        assert node.attrs["rounding"] == ("half_up" if wide else "tflite_double")
        check(node, record, target)
    assert verify(result.model, made, feeds).verdict == "ok"


def test_a_state_that_saturates_is_said_and_told_apart_from_cmsis_nn():
    result, *_ = integer(Net("LSTM", hidden=90, seed=3), "tflm")
    (node,), record = nodes_of(result)
    assert node.attrs["saturates_state"] == 1
    given = constants_of(node)
    (_, x), kernel = codes(np.random.default_rng(1), node, given), kernel_of(node, record)
    assert run(kernel, x.tolist(), "tflm") != run(kernel, x.tolist(), "cmsis")


DECLINED = {
    "GRU": (Net("GRU"), "has a kernel of LSTM, of no other recurrent net"),
    "RNN": (Net("RNN"), "has a kernel of LSTM, of no other recurrent net"),
    "functions": (
        Net("LSTM", said={"activations": ["HardSigmoid", "Tanh", "Tanh"]}),
        "has no kernel with HardSigmoid, Tanh, Tanh",
    ),
    "clip": (Net("LSTM", said={"clip": 2.0}), "has no kernel that clips sums of gates"),
    "lengths": (Net("LSTM", lengths="constant"), "has no kernel with lengths of sequences"),
    "peepholes": (Net("LSTM", peepholes="constant"), "has no kernel with peepholes"),
}


@pytest.mark.parametrize("wide", [False, True])
def test_a_target_of_ones_own_may_have_the_kernel_of_cmsis_nn(wide):
    target = replace(load_target("tflm"), name="cmsis", lstm="cmsis")
    result, made, feeds = integer(Net("LSTM", hidden=90, seed=3), target, wide)
    (node,), record = nodes_of(result)
    assert "saturates_state" not in node.attrs
    check(node, record, "cmsis")
    assert verify(result.model, made, feeds).verdict == "ok"


def test_a_kernel_is_not_there_for_another_rounding():
    target = replace(load_target("tflm"), rounding="ruy")
    result, *_ = integer(Net("LSTM"), target)
    (reason,) = {*nodes_of(result)[1].declined.values()}
    assert reason.endswith("rounds ruy, its kernel of LSTM tflite_double")


@pytest.mark.parametrize(("target", "wide"), FORMS)
def test_cells_that_come_in_and_go_out_have_powers_of_two(target, wide):
    net = Net("LSTM", first_h="input", first_c="input", outputs=frozenset("yhc"), seed=5)
    result, made, feeds = integer(net, target, wide)
    (node,), record = nodes_of(result)
    assert record.tensors[node.outputs[2].name].scale in [2.0**-n for n in range(16)]
    assert kernel_of(node, record).cell_power in range(-15, 0)
    assert verify(result.model, made, feeds).verdict == "ok"


def test_a_cell_whose_range_is_said_may_have_no_power_of_two():
    made, feed = Net("LSTM", outputs=frozenset("yc")).made()
    result = quantize(made, [feed], target="tflm", calibration_overrides=["c=-1.1,1.1"])
    (reason,) = {*nodes_of(result)[1].declined.values()}
    assert re.search("its cell is stored at .* the kernel takes powers of two", reason)


@pytest.mark.parametrize("target", ["tflm", "litert"])
@pytest.mark.parametrize("name", DECLINED)
def test_what_no_kernel_has_stays_in_float_by_name(name, target):
    net, reason = DECLINED[name]
    result, *_ = integer(net, target)
    record = nodes_of(result)[1]
    (found,) = {*record.declined.values()}
    assert found.startswith(f"{net.op}: ")
    assert re.search(reason, found)


def test_litert_has_no_kernel_of_16_bits():
    result, *_ = integer(Net("LSTM", hidden=4), "litert", wide=True)
    (node,), record = nodes_of(result)
    assert constants_of(node)["x_zero"].dtype.itemsize == 1
    check(node, record, "litert")
