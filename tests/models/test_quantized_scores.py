"""Integers predict what the quantized original does; where not, single ties are why."""

from dataclasses import dataclass

import numpy as np
import pytest

import qpasses
from calibration import Session
from qpasses.load.arguments import given_source
from tests.bench.quantized_zoo import FOLDER, PUBLISHED
from tests.support.thoroughness import slow
from tests.support.tracing import FLOAT32, Tracer

pytestmark = [
    pytest.mark.zoo,
    pytest.mark.skipif(
        not FOLDER.is_dir(),
        reason=f"no quantized models at {FOLDER}: set QPASSES_ZOO to the folder of the zoo",
    ),
]


@dataclass(frozen=True)
class Scored:
    """Predictions of a file without and with onnxruntime's optimizations, and of integers."""

    plain: np.ndarray
    optimized: np.ndarray
    ours: np.ndarray
    labels: np.ndarray | None

    def right(self, predictions):
        return int((predictions == self.labels).sum())


def published(name):
    return next(each for each in PUBLISHED if each.name == name)


def scored(name):
    given = published(name)
    feeds, source = given.feeds(), given_source(given.path)
    sessions = source.session(), Session(source.reference)
    sessions += (Session(qpasses.integerize(given.path).model),)
    found = [
        np.array([int(s.run(None, feed)[0].argmax()) - given.offset for feed in feeds])
        for s in sessions
    ]
    return Scored(*found, given.labels)


@pytest.mark.parametrize(
    "name",
    [
        "tinycnn_esp_qoperator",
        slow("tinyml_mobilenetv3_cifar_qdq_s8"),
        slow("tflite_mlperf_resnet8_int8"),
        slow("tflite_mlperf_kws_int8"),
    ],
)
def test_every_prediction_is_that_of_the_original(name):
    found = scored(name)
    np.testing.assert_array_equal(found.ours, found.plain)
    assert found.right(found.ours) > 0.7 * len(found.labels)


@pytest.mark.parametrize(
    "name",
    [
        slow("micro_kws_m_qdq"),
        slow("micro_kws_m_qoperator"),
        slow("micro_kws_m_qoperator_softmax"),
    ],
)
def test_made_up_spectrograms_are_taken_for_the_same_words(name):
    found = scored(name)
    assert len(np.unique(found.plain)) == 10
    assert (found.ours == found.plain).mean() >= 0.99


@pytest.mark.parametrize(
    "name",
    [slow("mobilenetv2_imagenet_qoperator"), slow("tflite_mobilenetv2_imagenet_qat_u8")],
)
def test_the_score_is_within_one_percent_of_that_of_the_original(name):
    found = scored(name)
    counts = [found.right(each) for each in (found.plain, found.optimized, found.ours)]
    assert abs(counts[2] - counts[0]) <= len(found.labels) / 100, counts


@pytest.mark.parametrize(
    "name", ["tinycnn_esp_qoperator", slow("mobilenetv2_imagenet_qoperator")]
)
def test_exact_integers_are_real_arithmetic_in_every_node_and_predict_as_the_usual_ones(name):
    """Where predictions differ from onnxruntime's, it is its float32 that leaves the file."""
    given = published(name)
    usual, exact = (qpasses.integerize(given.path, exact=each) for each in (False, True))
    assert exact.verdict == "ok" and exact.report["summary"]["integer_only"]
    assert {each.kind for each in exact.evidence} <= {"thresholds", "exhaustive", "structural"}
    assert [each.name for each in exact.evidence if each.reference_moved] == []
    assert any(each.reference_moved for each in usual.evidence)
    sessions = [Session(each.model) for each in (usual, exact)]
    for feed in given.feeds(40):
        ours, real = (session.run(None, feed)[0].argmax() for session in sessions)
        assert ours == real


@pytest.mark.parametrize(
    "name", [slow("mobilenetv2_imagenet_qoperator"), slow("micro_kws_m_qdq")]
)
def test_another_prediction_begins_with_codes_next_to_ties(name):
    given = published(name)
    made = qpasses.integerize(given.path)
    original, ours = given_source(given.path).session(), Session(made.model)
    feed = next(
        each
        for each in given.feeds()
        if original.run(None, each)[0].argmax() != ours.run(None, each)[0].argmax()
    )
    tracer = Tracer(given.path, made, [feed])
    found, astray = tracer.trace(feed), tracer.astray(feed)
    assert found.unexplained == [] and {each.why for each in found.differences} == {FLOAT32}
    assert len(found.differences) < found.codes / 1_000

    first = next(name for name, places in astray.items() if places)
    at_ties = [each.index for each in found.differences if each.tensor == tracer.pairs[first]]
    assert sorted(astray[first]) == sorted(
        at_ties
    )  # what reads equal codes differs at these ties alone
    assert sum(map(len, astray.values())) > 10 * len(found.differences)
