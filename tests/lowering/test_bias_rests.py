"""Biases between two steps of an accumulator, with ``--exact``: node, evidence, checking."""

import numpy as np
import onnx
import pytest

import qpasses
from opsets.bias_rests import RESTS_FIT
from opsets.qpasses_v1 import OPS
from tests.support.quantized_nets import BACK, SCALES, STORED, codes, feeds, integerized, net

FLOAT = np.float32([0.01234, -0.3, 0.0777])
WEIGHTS = "dw = DequantizeLinear <axis = 0> (w, sw, zw)"
CONV = f"{STORED} {WEIGHTS} [sum] c = Conv <pads = [1, 1, 1, 1]> (d, dw, bias) {BACK}"
GEMM = (
    f"""{STORED} dw = DequantizeLinear (matrix, sz, zw) [sum] c = Gemm (d, dw, bias) {BACK}"""
)
ROWS = {"inputs": "float[N, 4] x", "outputs": "float[N, 3] y"}
NETS = {
    "a scale for each channel": (CONV, {}, (1, 2, 6, 6)),
    "one scale for all": (GEMM, {"matrix": codes(4, 3), "zw": np.int8(0), **ROWS}, (5, 4)),
}


def made_of(name, **options):
    body, constants, shape = NETS[name]
    original = net(body, bias=FLOAT, **constants)
    return original, integerized(original, feeds(shape=shape), **options), feeds(shape=shape)


def node_of(model):
    return next(node for node in model.graph.node if node.name == "sum")


def rests_of(model):
    found = [each for each in node_of(model).attribute if each.name == "bias_rests"]
    return list(found[0].ints) if found else None


@pytest.mark.thinned
@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("bodies", ["onnxruntime", "portable"])
def test_sums_are_those_of_real_arithmetic(name, bodies):
    _, made, _ = made_of(name, exact=True, bodies=bodies)
    (found,) = (each for each in made.evidence if each.name == "sum")
    assert (found.mismatches, found.reference_moved, list(found.moved_channels)) == (0, 0, [])
    assert len(rests_of(made.model)) == 3 and any(rests_of(made.model))
    flavour = "portable" if bodies == "portable" else "onnxruntime_double"
    assert found.body == f"{flavour}_rested"
    assert made.verdict == "ok"


@pytest.mark.parametrize("name", NETS)
def test_without_exact_there_are_none(name):
    _, made, _ = made_of(name)
    assert rests_of(made.model) is None
    (found,) = (each for each in made.evidence if each.name == "sum")
    assert found.reference_moved > 0


def test_a_bias_of_whole_steps_has_none():
    steps = SCALES["sx"].astype(np.float64) * SCALES["sw"].astype(np.float64)
    body = CONV.replace("bias)", "db)").replace(
        "[sum]", "db = DequantizeLinear <axis = 0> (b, sb, zb) [sum]"
    )
    made = integerized(net(body, sb=steps.astype(np.float32)), exact=True)
    assert rests_of(made.model) is None or max(map(abs, rests_of(made.model))) < 1 << 12


@pytest.mark.thinned
@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("change", [1, -(1 << 20)])
def test_another_rest_is_found(name, change):
    original, made, samples = made_of(name, exact=True)
    changed = onnx.ModelProto.FromString(made.model.SerializeToString())
    (rests,) = (each for each in node_of(changed).attribute if each.name == "bias_rests")
    rests.ints[1] += change
    found = qpasses.verify(changed, original, samples)
    assert found.verdict == "failed"
    problems = found.report["summary"]["problems"]
    assert any("sum" in each and "rests of biases" in each for each in problems), problems


def test_rests_that_are_left_away_are_found():
    original, made, samples = made_of("a scale for each channel", exact=True)
    changed = onnx.ModelProto.FromString(made.model.SerializeToString())
    node = node_of(changed)
    kept = [each for each in node.attribute if each.name != "bias_rests"]
    del node.attribute[:]
    node.attribute.extend(kept)
    assert qpasses.verify(changed, original, samples).verdict == "failed"


@pytest.mark.parametrize("rests", [[1, 2], [1 << 30, 0, (1 << 30) + 1]])
def test_rests_that_no_node_has_are_refused(rests):
    original, made, samples = made_of("a scale for each channel", exact=True)
    changed = onnx.ModelProto.FromString(made.model.SerializeToString())
    (given,) = (each for each in node_of(changed).attribute if each.name == "bias_rests")
    given.ints[:] = rests
    with pytest.raises(
        qpasses.ModelError, match=r"node .sum. has not the inputs and attributes"
    ):
        qpasses.verify(changed, original, samples)


def test_only_half_to_even_goes_with_rests():
    constraint = RESTS_FIT
    assert constraint in OPS["IntConv"].constraints
    given = {"bias": np.zeros(2, np.int32)}
    for rounding, is_right in (("half_to_even", True), ("half_up", False)):
        values = {"bias_rests": [1, 2], "rounding": rounding}
        assert constraint.holds(given, values, None) == is_right
    assert constraint.holds(given, {"rounding": "half_up"}, None)
