"""What the tests of samples share: inputs of small models, and how feeds are compared."""

import numpy as np

from calibration import InputSpec

FLOAT = np.dtype(np.float32)
FREE_BATCH = [InputSpec("x", FLOAT, (None, 1, 8, 8))]
ONE_PICTURE = [InputSpec("x", FLOAT, (1, 1, 8, 8))]
BATCH_OF_FOUR = [InputSpec("x", FLOAT, (4, 1, 8, 8))]
TWO_INPUTS = [InputSpec("a", FLOAT, (None, 3)), InputSpec("b", FLOAT, (None, 2))]


def names_of(samples):
    return [name for name, _ in samples]


def assert_feeds(samples, expected):
    """``expected``: one dict of arrays per sample."""
    found = [feed for _, feed in samples]
    assert len(samples) == len(found) == len(expected)
    for feed, arrays in zip(found, expected, strict=True):
        assert feed.keys() == arrays.keys()
        for name, array in arrays.items():
            assert feed[name].dtype == array.dtype
            np.testing.assert_array_equal(feed[name], array, strict=True)
