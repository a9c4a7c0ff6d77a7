"""Real networks with activation functions: tables, on every code what these were."""

import numpy as np
import pytest

from calibration import Session
from qpasses.emit.overloads import with_bodies
from qpasses.ir.elementwise import UNARY
from tests.support import zoo_models

pytestmark = zoo_models.NEEDS_ZOO

NETWORKS = {"ppocr_v2_cls": 36, "yolox_nano": 110, "fsanet_1x1": 61, "mtcnn_rnet": 4}
"""So many lookups and products."""

LOOKUPS = ("Lut", "LutPerChannel", "LutPair", "IntMul")

every_network = pytest.mark.parametrize("name", zoo_models.networks(NETWORKS))


@every_network
def test_no_activation_function_next_to_integers_is_left_in_float(name):
    left = zoo_models.quantized(name).report["summary"]["float_nodes"]
    reason = "with no integer node next to it"
    floats = {node["op_type"] for node in left if reason not in node["reason"]}
    assert floats & (UNARY | {"PRelu"}) == set()


@every_network
def test_every_code_of_every_table_is_looked_up_right(name):
    nodes = zoo_models.quantized(name).report["evidence"]["nodes"]
    found = [node for node in nodes if node["op"].startswith(LOOKUPS)]
    assert len(found) == NETWORKS[name]
    for node in found:
        assert node["kind"] == "exhaustive"
        assert node["domain"] in (256 * max(node["channels"], 1), 1 << 16)
        assert (node["mismatches"], node["problem"]) == (0, "")
        assert node["reference_max_lsb"] <= 1
    chains = [node for node in found if node["op"] == "Lut"]
    moved = sum(node["reference_moved"] for node in chains)
    assert moved <= len(chains) / 10  # float32 against float64: ties are rare


@every_network
def test_both_bodies_are_the_same_on_real_samples(name):
    model, samples = zoo_models.quantized(name).model, zoo_models.feeds(name, "calib")
    runs = []
    for flavour in ("onnxruntime", "portable"):
        for optimize in (False, True):
            if name == "yolox_nano" and (flavour, optimize) == ("portable", True):
                continue  # a quarter of a minute
            runner = Session(with_bodies(model, flavour), optimize=optimize)
            runs.append([runner.run(None, feed) for feed in samples[:2]])
    for other in runs[1:]:
        for expected, found in zip(runs[0], other, strict=True):
            for one, two in zip(expected, found, strict=True):
                np.testing.assert_array_equal(one, two)
