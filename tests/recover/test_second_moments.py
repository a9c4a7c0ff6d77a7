"""What matrices read, in rows: a row times the weights is what onnxruntime computes there."""

import numpy as np
import pytest

from qpasses.ir.interchange import import_graph
from qpasses.recover import second_moments
from qpasses.recover.second_moments import Moments, Windows, matrix_rows
from tests.support.stage_checks import net, run

CASES = {
    "plain": ([2, 3, 6, 7], [4, 3, 3, 2], ""),
    "pads and strides": ([1, 2, 9, 8], [4, 2, 3, 3], "pads = [1, 0, 2, 1], strides = [2, 3]"),
    "groups": ([1, 4, 5, 5], [6, 2, 2, 2], "group = 2"),
    "depthwise": ([2, 3, 6, 6], [3, 1, 3, 3], "group = 3, pads = [1, 1, 1, 1]"),
    "dilations": ([1, 2, 9, 9], [3, 2, 2, 3], "dilations = [3, 2]"),
    "upper": ([1, 2, 7, 8], [3, 2, 4, 2], 'auto_pad = "SAME_UPPER", strides = [2, 2]'),
    "lower": ([1, 2, 7, 8], [3, 2, 4, 2], 'auto_pad = "SAME_LOWER", strides = [2, 1]'),
    "valid": ([1, 2, 7, 8], [3, 2, 4, 2], 'auto_pad = "VALID"'),
    "one axis": ([2, 3, 11], [4, 3, 5], "pads = [2, 2], strides = [2]"),
    "three axes": ([1, 2, 4, 5, 3], [2, 2, 2, 3, 2], "pads = [1, 1, 0, 0, 1, 1]"),
}


@pytest.mark.parametrize("case", CASES)
def test_rows_of_a_conv_times_its_weights_are_its_results(case, monkeypatch):
    shape, kernel, attributes = CASES[case]
    monkeypatch.setattr(second_moments, "POSITIONS", 10_000)
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(size).astype(np.float32) for size in (shape, kernel))
    made = net(shape, f"y = Conv {f'<{attributes}>' if attributes else ''} (x, w)", w=w)
    (expected,) = run(made, {"x": x})
    (node,) = import_graph(made).nodes
    windows = Windows.of(node, kernel[2:])
    rows = windows.rows(x, rng)
    matrix = w.reshape(windows.groups, -1, rows.shape[2])
    found = (
        (rows @ matrix.transpose(0, 2, 1)).transpose(0, 2, 1).reshape(kernel[0], len(x), -1)
    )
    wanted = expected.reshape(len(x), kernel[0], -1).swapaxes(0, 1)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_of_many_places_some_are_drawn_the_same_each_time():
    x = np.arange(3000, dtype=np.float32).reshape(10, 100, 3)
    ones = matrix_rows(x, np.random.default_rng(1))
    assert ones.shape == (1, second_moments.POSITIONS, 3)
    assert len(np.unique(ones[0, :, 0])) == second_moments.POSITIONS
    np.testing.assert_array_equal(ones, matrix_rows(x, np.random.default_rng(1)))


def test_moments_are_the_mean_of_products_however_they_came():
    rows = np.random.default_rng(2).standard_normal((2, 30, 4))
    sums = Moments(2, 4)
    for part in np.split(rows, 3, axis=1):
        sums.add(part)
    expected = np.einsum("gpi,gpj->gij", rows, rows) / 30
    np.testing.assert_allclose(sums.mean, expected)
    np.testing.assert_array_equal(Moments(1, 2).mean, np.zeros((1, 2, 2)))
