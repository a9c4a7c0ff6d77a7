"""Tensors of every kind for the tests of calibration methods, and their statistics."""

import numpy as np
import pytest
from hypothesis import strategies as st

from calibration.methods import METHODS, Wanted
from tests.support.statistics_of import statistics_of

random = np.random.Generator(np.random.PCG64(0))
NORMAL = random.standard_normal(100_000).astype(np.float32)
OUTLIER = np.append(np.linspace(0.001, 1, 1000), 8.0).astype(np.float32)
SMOOTH = {
    "normal": NORMAL,
    "relu": np.maximum(NORMAL, 0),
    "negative": np.minimum(NORMAL, 0),
    "laplace": random.laplace(0.3, 1, 100_000),
    "skewed": random.gamma(2, size=100_000) - 1,
    "uniform": random.uniform(-1, 3, 50_000),
}
ODD = {
    "outlier": OUTLIER,
    "heavy": random.standard_t(2, 100_000),
    "far from zero": NORMAL + 1000,
    "two values": [-1, 3],
    "two values of one sign": [5, 7],
    "one magnitude": [-2, 2],
    "mostly zero": [0] * 100_000 + [1],
    "mostly zero, both signs": [0] * 100_000 + [1, -3],
    "whole numbers": random.integers(-3, 9, 1000),
    "huge": NORMAL * 1e37,
    "denormal": NORMAL * 1e-40,
    "least and largest": [1e-45, 3.4e38],
    "two neighbours": [1.0, np.nextafter(np.float32(1), np.float32(2))],
}
ALL = {name: statistics_of(values, samples=2) for name, values in (SMOOTH | ODD).items()}
WANTED = [Wanted(bits, symmetric) for bits in (2, 4, 8, 16) for symmetric in (False, True)]

every_method = pytest.mark.parametrize("method", METHODS)
every_wanted = pytest.mark.parametrize("wanted", WANTED, ids=str)
every_tensor = pytest.mark.parametrize("tensor", ALL)
every_smooth = pytest.mark.parametrize("tensor", SMOOTH)
float32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
tensors = st.lists(float32 | st.floats(-8, 8, width=32), min_size=1, max_size=40)
