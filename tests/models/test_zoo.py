"""Real networks: proved, integer only, the same in both bodies, as accurate as int8 can be."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnx.inliner
import pytest
from onnx import TensorProto

import qpasses
from calibration import Session, input_specs, open_samples
from qpasses.emit.overloads import with_bodies
from tests.support import zoo_models
from tests.support.small_models import nodes_as_onnx

pytestmark = zoo_models.NEEDS_ZOO

FLOATS = {TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16}


@dataclass(frozen=True)
class Expected:
    """What onnxruntime's quantize_static reaches on the same calibration samples.

    It crashes on mnist-8: there the float score stands instead, and no SQNR. ``samples`` run
    through both bodies, ``batch`` at a time.
    """

    score: float
    sqnr_db: float | None
    batch: int
    samples: int = 50


NETWORKS = {
    "squeezenet1.1_fp32_from_fp16": Expected(0.575, 21.1, 1, 12),
    "cifar10_resnet20": Expected(0.817, 27.9, 50),
    "cifar10_resnet44": Expected(0.823, 26.3, 50),
    "mnist-8": Expected(0.9891, None, 1),
    "mlperf_tiny_dscnn_kws": Expected(0.913, 27.4, 50),
}


@dataclass(frozen=True)
class Network:
    """A float model of the zoo and what the toolkit made of it."""

    name: str
    result: qpasses.Result

    @property
    def model(self):
        return self.result.model

    @property
    def summary(self):
        return self.result.report["summary"]


@pytest.fixture(scope="module", params=zoo_models.networks(NETWORKS))
def network(request):
    return Network(request.param, zoo_models.quantized(request.param))


def test_every_node_is_proved_without_mismatch(network):
    evidence = network.result.evidence
    assert network.result.verdict == "ok"
    assert all(each.proved and each.mismatches == 0 for each in evidence)
    kinds = {each.kind for each in evidence}
    assert kinds <= {"thresholds", "exhaustive", "bounded", "structural"}
    assert max(each.reference_max_lsb for each in evidence) <= 1
    nodes = {node.name: node for node in network.model.graph.node}
    assert {n for n in nodes if nodes[n].domain == "qpasses"} <= {e.name for e in evidence}
    assert all(nodes[each.name].op_type == each.op for each in evidence)


def test_every_multiply_accumulate_runs_on_integers_in_a_fast_body(network):
    summary = network.summary
    assert summary["integer_only"] and summary["macs"] > 100_000
    assert summary["integer_mac_share"] == summary["fast_mac_share"] == 1.0
    assert summary["float_nodes"] == []


def test_with_portable_bodies_inlined_no_float_is_between_the_edges(network):
    inlined = onnx.inliner.inline_local_functions(with_bodies(network.model, "portable"))
    typed = onnx.shape_inference.infer_shapes(inlined, strict_mode=True, data_prop=True)
    assert not typed.functions
    types = {t.name: t.data_type for t in typed.graph.initializer}
    for value in (*typed.graph.input, *typed.graph.value_info, *typed.graph.output):
        types[value.name] = value.type.tensor_type.elem_type
    edges = []
    for node in typed.graph.node:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear", "Softmax"):
            edges.append(node.op_type)
            continue
        if edges[-1] == "Softmax":
            continue  # behind it
        assert node.domain == ""
        for name in filter(None, (*node.input, *node.output)):
            assert types[name] and types[name] not in FLOATS, (node.name, name)
    assert edges in (
        ["QuantizeLinear", "DequantizeLinear"],
        ["QuantizeLinear", "DequantizeLinear", "Softmax"],
    )


def test_both_bodies_are_bit_identical_on_real_samples_at_every_optimization(network):
    samples, expected = zoo_models.feeds(network.name, "test"), NETWORKS[network.name]
    count, batch = expected.samples, expected.batch
    spread = samples[:: len(samples) // count][:count]
    assert len(spread) == count
    (name,) = spread[0]
    stacked = np.concatenate([feed[name] for feed in spread])
    runs = []
    for flavour in ("onnxruntime", "portable"):
        for optimize in (False, True):
            runner = Session(with_bodies(network.model, flavour), optimize=optimize)
            outputs = [
                runner.run(None, {name: stacked[i : i + batch]})[0]
                for i in range(0, count, batch)
            ]
            runs.append(np.concatenate(outputs))
    assert len(np.unique(runs[0], axis=0)) > 10
    for other in runs[1:]:
        np.testing.assert_array_equal(runs[0], other)


def test_verify_finds_nothing_on_the_written_file(network, tmp_path):
    data = zoo_models.write_feeds(tmp_path / "t", zoo_models.feeds(network.name, "test")[:2])
    written = tmp_path / "integer.onnx"
    onnx.save(network.model, written)
    verified = qpasses.verify(written, zoo_models.path(network.name), data)
    assert verified.verdict == "ok" and verified.report["summary"]["problems"] == []
    assert verified.evidence == network.result.evidence
    assert verified.report["checks"]["kernel_probe"]["accumulators"] > 10_000


def test_score_and_sqnr_are_those_of_onnxruntimes_own_quantizer(network):
    expected = NETWORKS[network.name]
    found = zoo_models.score(network.model, network.name)
    assert found["score"] >= expected.score - 0.003
    assert expected.sqnr_db is None or found["sqnr_db"] >= expected.sqnr_db - 0.5


def test_a_folder_of_jpegs_gives_the_feeds_that_the_zoo_calibrates_with():
    entry = zoo_models.ENTRIES["squeezenet1.1_fp32_from_fp16"]
    specs = input_specs(onnx.load(entry.model))
    found = open_samples(entry.calibration, specs, entry.samples, entry.preprocessing)
    expected = zoo_models.feeds(entry.name, "calib")
    assert len(found) == len(expected) == 100
    for (name, feed), wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(
            feed["data_0"], wanted["data_0"], strict=True, err_msg=name
        )


def test_the_docs_show_what_the_model_became(network):
    rows = json.loads((Path(__file__).parents[2] / "docs" / "zoo.json").read_text("utf-8"))
    (row,) = [row for row in rows if row["model"] == network.name]
    floats = Counter(node["op_type"] for node in network.summary["float_nodes"])
    assert row["nodes"] == len(nodes_as_onnx(network.model))
    assert row["float_nodes"] == floats
