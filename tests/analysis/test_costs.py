"""What tensors cost: beside a float model that rounds one tensor, written by hand."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import qpasses
from tests.support.spoiled import straight, straight_feeds, with_rounding
from tests.support.thoroughness import slow
from tests.support.zoo_models import ENTRIES, networks, quantized


def outputs_db(made, other, samples):
    """Signal over noise of the outputs of another model, the mean over outputs."""
    plain, rounded = (_session(each) for each in (made, other))
    signal, noise = 0.0, 0.0
    for feed in samples:
        real, found = (
            [np.float64(each) for each in one.run(None, feed)] for one in (plain, rounded)
        )
        signal = signal + np.array([np.square(each).sum() for each in real])
        apart = zip(real, found, strict=True)
        noise = noise + np.array([np.square(a - b).sum() for a, b in apart])
    return -10 * np.log10(max(np.mean(noise / signal), 1e-20))


def giving(made, names):
    """A model with these outputs."""
    copy = onnx.ModelProto.FromString(made.SerializeToString())
    del copy.graph.output[:]
    copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return copy


def _session(made):
    options = ort.SessionOptions()
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    return ort.InferenceSession(made.SerializeToString(), options)


def activations(report):
    """Rows of tensors with one scale whose costs were measured."""
    return [
        row
        for row in report["analysis"]["tensors"]
        if row["kind"] == "activation"
        and row["cost"]
        and row["cost"]["samples"]
        and not isinstance(row["scale"], list)
    ]


def test_alone_in_integers_is_what_one_rounded_tensor_does():
    made, samples = straight(), straight_feeds()
    integer = qpasses.quantize(made, samples, accuracy="fast").model
    rows = activations(qpasses.analyze(integer, made, samples[:4]).report)
    assert len(rows) > 5
    for row in rows:
        other = with_rounding(made, row["real"], row["scale"], row["zero_point"])
        expected = outputs_db(made, other, samples[:4])
        assert row["cost"]["alone_db"] == pytest.approx(expected, abs=0.05), row["real"]


@pytest.mark.parametrize(
    "name", [*networks(["mtcnn_rnet", "cifar10_resnet20", "nanodet_m"]), slow("digits_vit")]
)
def test_costs_of_real_models_rank_as_single_roundings_do(name):
    made = onnx.load(ENTRIES[name].model)
    samples = ENTRIES[name].test_feeds[:1]
    report = qpasses.analyze(quantized(name).model, ENTRIES[name].model, samples).report
    outputs = [each["name"] for each in report["analysis"]["outputs"]]
    known = {each for node in made.graph.node for each in node.output}
    rows = [row for row in activations(report) if row["real"] in known]
    assert len(rows) > 4
    found = [row["cost"]["alone_db"] for row in rows]
    plain = giving(made, outputs)
    others = [with_rounding(plain, r["real"], r["scale"], r["zero_point"]) for r in rows]
    expected = [outputs_db(plain, other, samples) for other in others]
    ranks = [np.argsort(np.argsort(each)) for each in (found, expected)]
    assert np.corrcoef(*ranks)[0, 1] > 0.9


@pytest.mark.thinned
@pytest.mark.parametrize(
    "options",
    [
        {"residual_type": "int16"},
        {"activation_scales": "per-channel"},
        {"target": "tflite"},
        {"activation_bits": 4},
        {"integer_io": True},
    ],
    ids=str,
)
def test_outputs_are_as_far_off_as_verify_says(options):
    entry = ENTRIES["digits_cnn"]
    made = qpasses.quantize(
        entry.model, entry.calibration, samples=8, accuracy="fast", **options
    ).model
    samples = entry.test_feeds[:3]
    found = qpasses.analyze(made, entry.model, samples, seconds=0).report
    expected = qpasses.verify(made, entry.model, samples).report
    ours, theirs = (each["accuracy"]["outputs"][0]["sqnr_db"] for each in (found, expected))
    assert ours == pytest.approx(theirs, abs=1e-3)  # float is fused otherwise, in pieces
    assert all(row["local_sqnr_db"] is not None for row in found["analysis"]["tensors"])
