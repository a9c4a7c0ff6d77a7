"""Moments from histograms are those of the values, up to the width of a bin."""

import numpy as np
import pytest

from calibration.methods.moments import moments
from tests.support.statistics_of import statistics_of

NORMAL = np.random.default_rng(0).standard_normal(20000).astype(np.float32)
TENSORS = {
    "normal": NORMAL,
    "behind a relu": np.maximum(NORMAL, 0),
    "far from zero": NORMAL + np.float32(100),
    "constant": np.full(10, 3, np.float32),
    "zero": np.zeros(10, np.float32),
    "two values": np.array([-1, 5], np.float32),
}


@pytest.mark.parametrize("name", TENSORS)
def test_moments_are_those_of_the_values_up_to_a_bin(name):
    values, seen = TENSORS[name].astype(np.float64), statistics_of(TENSORS[name])
    width = seen.histogram.width
    found = moments(seen)
    assert found.mean == pytest.approx(values.mean(), abs=width / 2)
    assert found.std == pytest.approx(values.std(), abs=width / 2)
    distance = np.abs(values - values.mean()).mean()
    assert found.distance == pytest.approx(distance, abs=width)


def test_moments_of_any_split_are_the_same_to_the_last_bit():
    whole = statistics_of(NORMAL)
    halves = statistics_of(NORMAL[12345:]).merged(statistics_of(NORMAL[:12345]))
    assert moments(whole) == moments(halves)


def test_moments_need_a_histogram():
    with pytest.raises(ValueError, match="no histogram"):
        moments(statistics_of(NORMAL, histogram=False))
