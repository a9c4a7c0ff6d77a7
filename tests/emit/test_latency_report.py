"""What quantize says of latency: nodes with kernels, nodes that run, what measures it."""

import onnx
import onnxruntime as ort
import pytest

import qpasses
from opsets import native
from opsets.native import KERNELS
from opsets.op import DOMAIN
from tests.bench.manifest import ROOT
from tests.support.commands import Desk, run
from tests.support.small_models import cnn, pictures

MODELS = ["digits_cnn", "digits_vit", "textures_cnn"]


@pytest.fixture(scope="module", params=MODELS)
def quantized(request, tmp_path_factory):
    """An integer model that ships, as a file, and what its report says of latency."""
    place = tmp_path_factory.mktemp("latency") / "int.onnx"
    model = ROOT / "models" / request.param / f"{request.param}.onnx"
    found = qpasses.quantize(model, "random:2", place, accuracy="fast")
    return place, found.report["latency"]


def integer_nodes(path):
    return [node for node in onnx.load(path).graph.node if node.domain == DOMAIN]


def test_each_integer_node_has_a_kernel_or_a_body_alone(quantized):
    place, latency = quantized
    names = [node.op_type for node in integer_nodes(place)]
    assert latency["kernels"] == {n: names.count(n) for n in sorted({*names} & {*KERNELS})}
    assert latency["bodies"] == {n: names.count(n) for n in sorted({*names} - {*KERNELS})}
    assert latency["built"] == (native.library() is not None)


@pytest.mark.parametrize("with_kernels", [False, True])
def test_onnxruntime_runs_no_more_nodes_than_that(quantized, with_kernels, tmp_path):
    place, latency = quantized
    options = ort.SessionOptions()
    if with_kernels and not qpasses.register(options):
        pytest.skip("there was no compiler for kernels")
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(tmp_path / "folded.onnx")
    ort.InferenceSession(str(place), options, providers=["CPUExecutionProvider"])
    runs = len(onnx.load(tmp_path / "folded.onnx").graph.node)
    others = len(onnx.load(place).graph.node) - len(integer_nodes(place))
    said = latency["nodes_run"]["kernels" if with_kernels else "bodies"]
    assert said <= runs <= others + said


def test_the_report_names_what_measures_it(tmp_path):
    desk = Desk(tmp_path, cnn(), pictures())
    ended = run("quantize", desk.model, "--data", desk.data, "-o", desk.output)
    *_, last = ended.out.splitlines()
    assert last == f"for latency: qpasses bench {desk.output} --against {desk.model}"


@pytest.mark.parametrize("options", [{"emit": "qdq"}, {"emit": "standard"}])
def test_of_a_file_without_bodies_it_says_nothing(options):
    latency = qpasses.quantize(cnn(), pictures(), accuracy="fast", **options).report["latency"]
    assert latency | {"built": True} == {
        "kernels": {},
        "bodies": {},
        "nodes_run": {"bodies": 0, "kernels": 0},
        "built": True,
    }
