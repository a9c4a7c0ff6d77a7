"""The zoo of real models: where it is, and its feeds and scores by its own score.py."""

import os
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(
    os.environ.get("QPASSES_ZOO") or Path(__file__).parents[2] / "shared" / "zoo"
).resolve()

NEEDS_ZOO = [
    pytest.mark.zoo,
    pytest.mark.skipif(
        not (ROOT / "score.py").is_file(),
        reason=f"no zoo of models at {ROOT}: set QPASSES_ZOO to the folder that holds it",
    ),
]
"""The marks of a test that needs the zoo."""


@cache
def scorer():
    """The zoo's score.py as a module."""
    spec = spec_from_file_location("zoo_score", ROOT / "score.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def path(name):
    """The float model."""
    return ROOT / "models" / f"{name}.onnx"


def feeds(name, split):
    """The batch-1 feeds of the split ``calib`` or ``test``."""
    return scorer().feeds(name, split, root=str(ROOT))


def score(model, name):
    """The zoo's figures for a model that stands in for ``name``, on the test split."""
    return scorer().score(model, name, root=str(ROOT))


def write_feeds(folder, samples):
    """One .npz file per feed, in order; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for index, feed in enumerate(samples):
        np.savez(folder / f"{index}.npz", **feed)
    return folder
