"""Zoo models by way of quantize_static: integers, and no code differs without a reason."""

import numpy as np
import pytest

import qpasses
from tests.bench.static_models import FORMS, feeds_of, quantized_static
from tests.support import zoo_models
from tests.support.thoroughness import only_thorough
from tests.support.tracing import COUNTED, Tracer

pytestmark = zoo_models.NEEDS_ZOO

CHANNELS, TENSORS = "u8s8 per channel", "s8s8"
EVERY = tuple(FORMS)

SHORT = {
    "mlperf_tiny_dscnn_kws": (f"QOperator {CHANNELS}", f"QDQ {TENSORS}"),
    "mtcnn_rnet": EVERY,
}
"""Forms that do not take long."""

LONG = {
    "mlperf_tiny_dscnn_kws": EVERY,
    "squeezenet1.1_fp32_from_fp16": EVERY,
    "pfld": EVERY,
    "cifar10_resnet20": EVERY,
    "nanodet_m": (f"QDQ {TENSORS}",),
}
"""More of them. In its other forms nanodet_m is not integer only: a channel without weights,
whose bias fills int32, and a linear Resize that QOperators compute on integers."""

NEEDS_A_SAMPLE = {("cifar10_resnet20", "QOperator")}
"""Between two scales stands what has none: a Slice, whose scale then follows a sample."""

NOISE = 0.05
"""So far from a tie, in steps, float32 tells nothing in any of these layers."""


def cases():
    for name in SHORT | LONG:
        for form in EVERY:
            if form in SHORT.get(name, ()):
                yield pytest.param(name, form, id=f"{name}-{form}")
            elif form in LONG.get(name, ()):
                yield pytest.param(name, form, id=f"{name}-{form}", marks=only_thorough)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("static")


def traced(name, form, folder):
    """The path, the result of ``integerize``, the tracer of it and two feeds."""
    entry = zoo_models.ENTRIES[name]
    path = quantized_static(entry, FORMS[form], folder)
    feeds = feeds_of(entry, 2, first=4)
    data = feeds[:1] if (name, FORMS[form].format) in NEEDS_A_SAMPLE else None
    result = qpasses.integerize(path, data)
    return path, result, Tracer(path, result, feeds), feeds


@pytest.mark.parametrize(("name", "form"), list(cases()))
def test_it_is_integer_only_and_every_code_that_differs_is_explained(name, form, folder):
    _, result, tracer, feeds = traced(name, form, folder)
    summary, kept = result.report["summary"], result.report["kept"]
    assert (result.verdict, summary["because"]) == ("ok", [])
    assert summary["integer_only"] and summary["integer_mac_share"] == 1.0
    assert {node["op_type"] for node in summary["float_nodes"]} <= {"Transpose"}
    assert kept["weights"] and kept["weights_not_kept"] == {}
    assert tracer.verification.unchecked == []
    for feed in feeds:
        found = tracer.trace(feed)
        assert found.codes > 20_000
        assert found.unexplained == []
        assert len(found.differences) < found.codes / 1_000
        for each in found.differences:
            assert abs(each.ours - each.theirs) == 1
            assert each.to_tie <= each.noise < NOISE or each.why == COUNTED


def test_the_command_verifies_against_the_file(folder):
    path, result, _, feeds = traced("mlperf_tiny_dscnn_kws", f"QDQ {TENSORS}", folder)
    result.save(folder / "integer.onnx")
    verified = qpasses.verify(folder / "integer.onnx", path, feeds)
    assert (verified.verdict, verified.report["summary"]["problems"]) == ("ok", [])


def test_with_the_exact_target_no_channel_differs_from_real_arithmetic(folder):
    entry = zoo_models.ENTRIES["mtcnn_rnet"]
    path = quantized_static(entry, FORMS[f"QDQ {CHANNELS}"], folder)
    plain, exact = (qpasses.integerize(path, exact=each) for each in (False, True))
    assert plain.report["summary"]["channels_moved"] > 100
    assert exact.report["summary"]["channels_moved"] <= 0.01 * 542


def test_codes_that_a_fault_moves_are_not_explained(folder):
    _, _, tracer, feeds = traced("mlperf_tiny_dscnn_kws", f"QDQ {CHANNELS}", folder)
    assert tracer.trace(feeds[0]).unexplained == []
    node = next(n for n in tracer.model.graph.node if n.op_type == "IntConv")
    bias = next(t for t in tracer.model.graph.initializer if t.name in node.input[5:6])
    values = np.frombuffer(bias.raw_data, np.int32).copy()
    bias.raw_data = (values + np.abs(values) // 50 + 100).astype(np.int32).tobytes()
    found = tracer.trace(feeds[0])
    assert len(found.unexplained) > 100
    assert {each.tensor for each in found.unexplained} == {node.output[0]}
