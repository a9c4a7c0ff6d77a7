"""Codes of a quantized model's constants: the same numbers in little memory."""

import numpy as np
import pytest

from qpasses.ir.given import Codes

STORED = np.arange(24, dtype=np.uint8).reshape(2, 3, 4) * 10
ZERO = np.array([3, 100, 200], np.uint8).reshape(1, 3, 1)
SCALE = np.array([0.5, 1.0, 3.0]).reshape(1, 3, 1)


def real(codes):
    return codes.stored * codes.scale


def expected():
    return (STORED.astype(float) - ZERO) * SCALE


def in_memory(array):
    """So many of its numbers have a place of their own."""
    return int(
        np.prod([n for n, step in zip(array.shape, array.strides, strict=True) if step])
    )


def test_a_scale_is_in_memory_once_for_each_channel_wherever_it_goes():
    codes = Codes.of(STORED, ZERO, SCALE)
    np.testing.assert_array_equal(real(codes), expected())
    turned = codes.moved(np.transpose).scaled(np.array(2.0))
    np.testing.assert_array_equal(real(turned), expected().T * 2)
    assert in_memory(codes.scale) == in_memory(turned.scale) == 3
    assert codes.levels.nbytes == 2 * STORED.size
    np.testing.assert_array_equal(turned.scales_along(1), [1.0, 2.0, 6.0])
    assert turned.scales_along(0) is None


def test_factors_below_zero_change_the_sign_of_the_integers():
    codes = Codes.of(
        np.array([[-128, 127], [1, 2]], np.int8), np.array(0, np.int8), np.ones(1)
    )
    made = codes.scaled(np.array([[-2.0], [3.0]]))
    np.testing.assert_array_equal(made.stored, [[128, -127], [1, 2]])
    np.testing.assert_array_equal(made.scale, [[2, 2], [3, 3]])


@pytest.mark.parametrize(
    ("stored", "zero", "bits"),
    [
        (np.array([-128, 127], np.int8), np.array(0, np.int8), 8),
        (np.array([0, 255], np.uint8), np.array(128, np.uint8), 8),
        (np.array([0, 255], np.uint8), np.array(0, np.uint8), 16),
        (np.array([0, 65535], np.uint16), np.array(1, np.uint16), 32),
        (np.array([-(1 << 31), 5], np.int32), np.array(0, np.int32), 32),
        (np.array([1 << 30, 5], np.int32), np.array(0, np.int32), 32),
    ],
)
def test_integers_take_the_bytes_they_need(stored, zero, bits):
    codes = Codes.of(stored, zero, np.array(0.25))
    assert codes.levels.dtype.itemsize * 8 == bits
    np.testing.assert_array_equal(codes.stored, stored.astype(np.int64) - zero)


def test_what_is_shared_is_not_copied():
    stored = np.array([[1, 2], [3, 4]], np.int8)
    codes = Codes.of(stored, np.array(0, np.int8), np.array(0.25))
    for each in (codes, codes.moved(np.transpose), codes.scaled(np.array(3.0))):
        assert np.shares_memory(each.levels, stored)


def test_nothing_and_a_single_number_have_codes():
    none = Codes.of(np.zeros((0, 3), np.int8), np.array(0, np.int8), np.array(0.5))
    assert none.scales_along(1) is None
    one = Codes.of(np.array(7, np.uint8), np.array(3, np.uint8), np.array(0.5))
    assert float(real(one)) == 2.0
    assert float(real(one.scaled(np.array(-2.0)))) == -4.0
