"""Detectors, face networks and super-resolution: integer from input to output."""

import numpy as np
import onnx
import pytest

import qpasses
from calibration import Session, input_specs, open_samples
from opsets.target import load_target
from qpasses.emit.overloads import with_bodies
from tests.support import zoo_models
from tests.support.thoroughness import THOROUGH, slow

pytestmark = zoo_models.NEEDS_ZOO

STATIC = {
    "mtcnn_onet": None,
    "pfld": None,
    "ultraface-RFB-320": None,
    "super_resolution_x3": 25.1,
    "nanodet_m": 17.2,
    "yolox_nano": 7.6,
}
"""The SQNR of onnxruntime's quantize_static where the zoo has test data of its own."""


FEW = 8
"""Samples enough to calibrate what is integer, proved and verified, but not scored."""

every_network = pytest.mark.parametrize("name", zoo_models.networks(STATIC))


def quantized(name):
    return zoo_models.quantized(name, None if STATIC[name] or THOROUGH else FEW)


def samples(name, count):
    entry = zoo_models.ENTRIES[name]
    specs = input_specs(onnx.load(entry.model))
    found = open_samples(entry.calibration, specs, count, entry.preprocessing)
    return [dict(feed) for _, feed in found]


@every_network
def test_all_but_a_final_softmax_is_integer_and_proved(name):
    result = quantized(name)
    summary = result.report["summary"]
    assert (result.verdict, summary["because"]) == ("ok", [])
    assert summary["integer_only"] and summary["integer_mac_share"] == 1.0
    assert {node["op_type"] for node in summary["float_nodes"]} <= {"Softmax"}
    assert all(each.proved and each.mismatches == 0 for each in result.evidence)


@every_network
def test_both_bodies_give_the_same_on_real_samples(name):
    model, feeds = quantized(name).model, samples(name, 2)
    fast, slow = (
        Session(with_bodies(model, flavour)) for flavour in ("onnxruntime", "portable")
    )
    for feed in feeds:
        for one, other in zip(fast.run(None, feed), slow.run(None, feed), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", zoo_models.networks(STATIC))
def test_verify_agrees(name):
    result, feeds = quantized(name), samples(name, 1)
    assert qpasses.verify(result.model, zoo_models.path(name), feeds).verdict == "ok"


@pytest.mark.parametrize(
    "name", zoo_models.networks(name for name, peer in STATIC.items() if peer)
)
def test_sqnr_is_that_of_onnxruntimes_own_quantizer(name):
    found = zoo_models.score(quantized(name).model, name)
    assert found["sqnr_db"] >= STATIC[name] - 0.5


@pytest.mark.parametrize(
    ("name", "target"),
    [("cifar10_resnet20", "tflite"), ("mtcnn_rnet", "tosa"), slow("pfld", "tosa")],
)
def test_networks_are_integer_and_proved_under_the_roundings_of_a_device(name, target):
    entry = zoo_models.ENTRIES[name]
    count = entry.samples if THOROUGH else FEW
    how = {"samples": count, "preprocessing": entry.preprocessing, "target": target}
    result = qpasses.quantize(entry.model, entry.calibration, **how)
    summary = result.report["summary"]
    assert (result.verdict, summary["integer_mac_share"]) == ("ok", 1.0)
    assert {node["op_type"] for node in summary["float_nodes"]} <= {"Softmax"}
    assert all(each.proved and each.mismatches == 0 for each in result.evidence)
    roundings = {
        attribute.s.decode()
        for node in result.model.graph.node
        for attribute in node.attribute
        if attribute.name == "rounding" and node.op_type in ("IntConv", "IntGemm")
    }
    assert roundings == {load_target(target).rounding}
    feeds = samples(name, 1)
    assert qpasses.verify(result.model, entry.model, feeds).verdict == "ok"
