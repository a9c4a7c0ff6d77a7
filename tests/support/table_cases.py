"""Tables of made-up samples, and how a file that is none is refused."""

import copy
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from calibration import Preprocessing
from calibration.histogram import Histogram
from calibration.statistics import Statistics
from calibration.table import Table
from opsets.errors import DataError

MODEL = "0123456789abcdef" * 4
PICTURES = {"random": False, "preprocessing": Preprocessing(mean=(1, 2, 3)).as_json()}


def statistics_of(samples, histograms=True):
    """Of one array of values per sample, from their definition."""
    values = np.concatenate([np.ravel(sample) for sample in samples])
    return Statistics(
        float(values.min()),
        float(values.max()),
        values.size,
        int(np.sum(values == 0)),
        len(samples),
        sum((Fraction(float(sample.min())) for sample in samples), Fraction(0)),
        sum((Fraction(float(sample.max())) for sample in samples), Fraction(0)),
        Histogram.of(values) if histograms else None,
    )


def table_of(samples, histograms=True, **changes):
    """Of one dict of arrays per sample."""
    tensors = {
        name: statistics_of([sample[name] for sample in samples], histograms)
        for name in samples[0]
    }
    made = Table(MODEL, "1.2.3", len(samples), tensors, PICTURES)
    return replace(made, **changes)


def normal(count=3, seed=0):
    """Samples of three tensors: positive with many zeros, of both signs, constant."""
    numbers = np.random.Generator(np.random.PCG64(seed))
    found = []
    for _ in range(count):
        values = numbers.standard_normal(60).astype(np.float32)
        found.append(
            {
                "relu/out 1": np.maximum(values, 0),
                "x": values * np.float32(1e-3),
                "ä": np.full(2, 0.1, np.float32),
            }
        )
    return found


def saved(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(read, path):
    """What DataError, and no other, says: it begins with the path."""
    with pytest.raises(DataError) as raised:
        read(path)
    message = str(raised.value)
    assert message.startswith(f"{path}")
    assert "\n" not in message
    return message


FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
SAMPLES = st.lists(
    st.fixed_dictionaries(
        {name: arrays.arrays(np.float32, st.integers(1, 9), elements=FLOATS) for name in "ab"}
    ),
    min_size=1,
    max_size=6,
)


def places(entries, path=()):
    """The path of everything in a JSON value, the first two and the last of each list."""
    yield path
    if isinstance(entries, dict):
        keys = list(entries)
    elif isinstance(entries, list):
        keys = sorted({0, 1, len(entries) - 1} & set(range(len(entries))))
    else:
        keys = []
    for key in keys:
        yield from places(entries[key], (*path, key))


def changed(entries, path, change):
    """A copy in which ``change`` was called with what holds the last of ``path``.

    What is beside the path is shared with ``entries``: there are many changes and long lists.
    """
    found = holder = copy.copy(entries)
    for key in path[:-1]:
        holder[key] = copy.copy(holder[key])
        holder = holder[key]
    change(holder, path[-1])
    return found


STRANGE = [
    *(None, True, False, 0, 1, -1, 2, 0.5, -0.0, 1e-50, 1e39, -1e300, 10**400, -(2**63)),
    *(float("nan"), float("inf"), "", "a", "qpasses.calibration/2", [], [0], [0, 0], [1, 0]),
    *([3, 10**9], [True, 0], [1, 2.0], {}, {"a": 1}, {"CLS": 0}, "\ud800"),
]
