"""The conformance vectors: where they are, and how their numbers are written."""

import json
import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest

BESIDE_THE_REPOSITORY = Path(__file__).parents[3] / "shared" / "conformance"
FOLDER = Path(os.environ.get("QPASSES_CONFORMANCE", BESIDE_THE_REPOSITORY))

needs_vectors = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"no vectors in {FOLDER}: set QPASSES_CONFORMANCE"
)


@cache
def groups(name):
    """The records of a file by their key: lists, dicts of lists, or the file itself."""
    found = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    if isinstance(found, list):
        return {"": found}
    lists = {**found, **found.get("ops", {})}
    return {
        key: value
        for key, value in lists.items()
        if isinstance(value, list) and not any(isinstance(each, str) for each in value)
    }


def load(name, key):
    return groups(name)[key] if FOLDER.is_dir() else []


def each(name, key, keep=lambda record: True):
    records = [record for record in load(name, key) if keep(record)]
    assert records or not FOLDER.is_dir(), f"{name}.json has no such record"
    return pytest.mark.parametrize("case", records, ids=range(len(records)))


def float32(hexadecimal):
    return np.frombuffer(bytes.fromhex(hexadecimal), "<f4")[0]


def ends(dtype):
    return np.iinfo(dtype).min, np.iinfo(dtype).max
