"""The zoo of real models: its feeds and scores by its own score.py."""

import numpy as np
import pytest

from tests.bench.manifest import ZOO, entries, zoo_script

ENTRIES = {entry.name: entry for entry in entries()}

NEEDS_ZOO = [
    pytest.mark.zoo,
    pytest.mark.skipif(
        not (ZOO / "score.py").is_file(),
        reason=f"no zoo of models at {ZOO}: set QPASSES_ZOO to the folder that holds it",
    ),
]
"""The marks of a test that needs the zoo."""


def path(name):
    """The float model."""
    return ZOO / "models" / f"{name}.onnx"


def feeds(name, split):
    """The batch-1 feeds of the split ``calib`` or ``test``."""
    return zoo_script().feeds(name, split, root=str(ZOO))


def score(model, name):
    """The zoo's figures for a model that stands in for ``name``, on the test split.

    On one thread, as other tests run beside this one.
    """
    return zoo_script().score(model, name, root=str(ZOO), threads=1)


def write_feeds(folder, samples):
    """One .npz file per feed, in order; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for index, feed in enumerate(samples):
        np.savez(folder / f"{index}.npz", **feed)
    return folder
