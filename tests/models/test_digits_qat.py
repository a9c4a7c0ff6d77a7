"""The digits network that was trained quantization-aware: no digit is lost."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import qpasses
from calibration import Session

MODELS = Path(__file__).parents[2] / "models"
QAT = MODELS / "digits_qat" / "digits_qat.onnx"
STYLES = sorted((MODELS.parent / "tests" / "data" / "qat").glob("*.onnx"))
TEST, LABELS = MODELS / "digits_cnn" / "test.npz", MODELS / "digits_cnn" / "test_labels.npy"
CALIBRATION = MODELS / "digits_cnn" / "calibration.npz"


def digits():
    return np.load(TEST)["image"], np.load(LABELS)


def predictions(session, images):
    return session.run(None, {"image": images})[0].argmax(axis=1)


@pytest.fixture(scope="module")
def made():
    return qpasses.integerize(QAT)


def test_the_score_is_that_of_the_network_as_it_was_trained(made):
    images, labels = digits()
    theirs = predictions(Session(onnx.load(QAT), optimize=False), images)
    ours = predictions(Session(made.model), images)
    assert (theirs == labels).sum() == (ours == labels).sum() == 597
    np.testing.assert_array_equal(ours, theirs)


def test_it_is_integer_only_with_all_its_integers(made):
    assert made.verdict == "ok" and made.report["summary"]["float_nodes"] == []
    assert made.report["kept"]["weights_not_kept"] == {}
    assert made.report["kept"]["from_samples"] == []
    stored = [numpy_helper.to_array(each) for each in made.model.graph.initializer]
    assert sum(each.dtype == np.int8 and each.ndim >= 2 for each in stored) == 8
    assert qpasses.verify(made.model, QAT, TEST, samples=3).verdict == "ok"


@pytest.mark.parametrize("path", STYLES, ids=lambda path: path.stem)
def test_whatever_exporter_of_pytorch_wrote_it(path):
    """Without samples nodes may stay float, by name; with some, none does, nor loses much."""
    images, labels = digits()
    alone = qpasses.integerize(path)
    assert qpasses.verify(alone.model, path, TEST, samples=2).verdict == alone.verdict
    assert all("--data" in each["reason"] for each in alone.report["summary"]["float_nodes"])
    filled = qpasses.integerize(path, CALIBRATION)
    assert filled.verdict == "ok" and filled.report["summary"]["float_nodes"] == []
    if path.stem.startswith("dynamo"):
        return  # its batch is fixed
    theirs = predictions(Session(onnx.load(path), optimize=False), images)
    for each, most in ((alone, 3), (filled, 12)):
        ours = predictions(Session(each.model), images)
        assert abs((ours == labels).sum() - (theirs == labels).sum()) <= most
