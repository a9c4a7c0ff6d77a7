"""The models that are measured: one that ships with the project, and some of the zoo."""

import importlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from calibration import Session, input_specs, open_samples
from qpasses.summary import Accuracy

ROOT = Path(__file__).parents[2]
ZOO = Path(os.environ.get("QPASSES_ZOO", ROOT.parent / "shared" / "zoo"))
ZOO_MODELS = ("cifar10_resnet20", "cifar10_resnet44", "mnist-8", "mlperf_tiny_dscnn_kws")

Model = onnx.ModelProto
Score = Callable[[Model], tuple[float, float]]
"""Top-1 and output SQNR in dB of a model."""


@dataclass(frozen=True)
class Case:
    """A float model, its calibration samples, a feed to time, and how to score a model."""

    name: str
    model: Path
    data: Path
    feed: dict[str, Any]
    score: Score


def digits() -> Case:
    """The model that ships with the project."""
    folder = ROOT / "models" / "digits_cnn"
    model, labels = folder / "digits_cnn.onnx", np.load(folder / "test_labels.npy")
    test = open_samples(folder / "test.npz", input_specs(onnx.load(model)))
    feeds = [dict(feed) for _, feed in test]
    original = Session(model)
    expected = [original.run(None, feed) for feed in feeds]

    def score(candidate: Model) -> tuple[float, float]:
        runner, accuracy = Session(candidate), Accuracy(["logits"])
        found = [runner.run(None, feed) for feed in feeds]
        for reference, outputs in zip(expected, found, strict=True):
            accuracy.update(reference, outputs)
        right = np.array([outputs[0].argmax() for outputs in found]) == labels
        return float(right.mean()), accuracy.as_json()[0]["sqnr_db"]

    return Case("digits_cnn", model, folder / "calibration.npz", feeds[0], score)


def zoo(name: str, work: Path) -> Case:
    """A model of the zoo, split and scored by the zoo's own script."""
    sys.path.insert(0, str(ZOO))
    script = importlib.import_module("score")
    data = work / name
    data.mkdir()
    for i, feed in enumerate(script.feeds(name, "calib")):
        np.savez(data / f"{i}.npz", **feed)

    def score(candidate: Model) -> tuple[float, float]:
        found = script.score(candidate, name)
        return found["score"], found["sqnr_db"]

    feed = script.feeds(name, "test")[0]
    return Case(name, Path(script.model_path(name)), data, feed, score)
