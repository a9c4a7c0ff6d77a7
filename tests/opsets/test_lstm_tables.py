"""Tables of LSTM kernels: every entry, against plain loops that interpreters confirm."""

import numpy as np
import pytest

from opsets import lstm_tables
from opsets.lstm_forms import LSTM_FORMS
from opsets.rounding import requantize
from tests.support import lstm_kernels as plain

WORDS = np.arange(1 << 16).astype(np.uint16).view(np.int16).tolist()


def test_sigmoids_by_chords():
    expected = [plain.by_steps(each, 0, is_tanh=False) for each in WORDS]
    np.testing.assert_array_equal(lstm_tables.chord_sigmoid(), expected)


@pytest.mark.thinned
@pytest.mark.parametrize("power", LSTM_FORMS["cmsis"].powers)
def test_tanh_by_chords(power):
    expected = [plain.by_steps(each, power + 12, is_tanh=True) for each in WORDS]
    np.testing.assert_array_equal(lstm_tables.chord_tanh(power), expected)


def test_sigmoids_by_gemmlowp():
    expected = [plain.gemmlowp_logistic(each) for each in WORDS]
    np.testing.assert_array_equal(lstm_tables.gemmlowp_sigmoid(), expected)


@pytest.mark.thinned
@pytest.mark.parametrize("power", LSTM_FORMS["litert"].powers)
def test_tanh_by_gemmlowp(power):
    expected = [plain.gemmlowp_tanh(each, 15 + power) for each in WORDS]
    np.testing.assert_array_equal(lstm_tables.gemmlowp_tanh(power), expected)


def test_no_c_library_decides_a_knot():
    k = np.arange(255)
    s = 1 / (1 + np.exp(-k / 24))
    real = (s - s * (1 - s) * (1 - 2 * s) / 24**2 / 16) * 65536
    assert np.abs(real - np.floor(real) - 0.5).min() > 1e-6


def test_plain_products_by_powers_of_two_are_doubling_products_by_the_largest_number():
    """How LiteRT's cells, rounded once, are said by nodes that round twice."""
    products = np.array([0, 1, 2, 16383, 16384, 16385, 49152, 32767**2, 32767 * 32768 - 1])
    both = np.concatenate([products, -products])
    rng = np.random.default_rng(0)
    both = np.concatenate([both, rng.integers(-(2**30) + 1, 2**30, 10000)])
    for power in LSTM_FORMS["litert"].powers:
        for bits, pair in zip(
            (15, 30 + power), LSTM_FORMS["litert"].cells(power), strict=True
        ):
            expected = [plain.divided_by_power(each, bits) for each in both.tolist()]
            found = requantize(both, *pair, "tflite_double")
            np.testing.assert_array_equal(found, expected)
