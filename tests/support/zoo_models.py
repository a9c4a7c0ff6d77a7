"""The zoo of real models: its feeds and scores by its own score.py."""

from functools import cache
from unittest.mock import patch

import numpy as np
import pytest

import qpasses
from tests.bench.manifest import ZOO, entries, zoo_script
from tests.support.thoroughness import only_thorough

ENTRIES = {entry.name: entry for entry in entries()}

NEEDS_ZOO = [
    pytest.mark.zoo,
    pytest.mark.skipif(
        not (ZOO / "score.py").is_file(),
        reason=f"no zoo of models at {ZOO}: set QPASSES_ZOO to the folder that holds it",
    ),
]
"""The marks of a test that needs the zoo."""


LONG = {
    *("candy_op13_224", "cifar10_resnet20", "cifar10_resnet44", "fsanet_1x1", "mnist-8"),
    *("kwt1_transformer", "mtcnn_onet", "nanodet_m", "pfld", "squeezenet1.1_fp32_from_fp16"),
    "yolox_nano",
}
"""Networks that take long in most tests."""


def networks(names):
    """Parameters of a test that needs the zoo: those that take long are for the thorough."""
    of_zoo = {name: [*NEEDS_ZOO, *([only_thorough] if name in LONG else [])] for name in names}
    return [pytest.param(name, marks=marks) for name, marks in of_zoo.items()]


def path(name):
    """The float model."""
    return ZOO / "models" / f"{name}.onnx"


@cache
def quantized(name, samples=None):
    """What ``quantize`` makes of a model: with the samples of ``make zoo``, or so many."""
    entry = ENTRIES[name]
    return qpasses.quantize(
        entry.model,
        entry.calibration,
        samples=samples or entry.samples,
        preprocessing=entry.preprocessing,
    )


def feeds(name, split):
    """The batch-1 feeds of the split ``calib`` or ``test``."""
    return zoo_script().feeds(name, split, root=str(ZOO))


def score(model, name):
    """The zoo's figures for a model that stands in for ``name``, on the test split.

    Either model runs on one thread: idle ones spin, on cores that other tests need.
    """
    script = zoo_script()
    session = script.session
    with patch.object(script, "session", lambda made, *_: session(made, threads=1)):
        return script.score(model, name, root=str(ZOO))


def write_feeds(folder, samples):
    """One .npz file per feed, in order; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for index, feed in enumerate(samples):
        np.savez(folder / f"{index}.npz", **feed)
    return folder
