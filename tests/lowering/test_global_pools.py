"""Averages over everything: which pools they are of, and the kernel that onnxruntime has."""

from math import prod

import numpy as np
import onnx
import pytest

from opsets.kernels import float32_kernel
from opsets.qpasses_v1 import OPS
from qpasses import quantize, verify
from qpasses.ir.runtime import run_op
from tests.support.small_models import model, numbers

SIZE = [1, 4, 6, 5]


def made_of(pool, size=None):
    text = f"g (float{size or SIZE} x) => (float[N, C, p, q] y) {{ [pool] y = {pool} }}"
    real = model(text, opset=21, ir_version=10)
    feeds = [{"x": numbers(*SIZE, seed=i)} for i in range(4)]
    result = quantize(real, feeds)
    assert verify(result.model, real, feeds).verdict == "ok"
    assert [each.mismatches for each in result.evidence] == [0]
    return result


def average(**attributes):
    written = ", ".join(f"{name} = {value}" for name, value in attributes.items())
    return f"AveragePool <{written}> (x)"


def op_of(result):
    (node,) = (each for each in result.model.graph.node if each.name == "pool")
    return node.op_type


@pytest.mark.parametrize(
    "pool",
    [
        "GlobalAveragePool (x)",
        average(kernel_shape=[6, 5]),
        average(kernel_shape=[6, 5], strides=[2, 3], ceil_mode=1),
    ],
)
def test_one_window_over_everything_is_a_global_pool(pool):
    assert op_of(made_of(pool)) == "IntGlobalAveragePool"


@pytest.mark.parametrize(
    "pool",
    [
        average(kernel_shape=[6, 4]),
        average(kernel_shape=[3, 3], dilations=[2, 2]),
        average(kernel_shape=[6, 5], pads=[1, 0, 0, 0], count_include_pad=1),
        average(kernel_shape=[6, 5], pads=[1, 0, 0, 0], strides=[9, 1], count_include_pad=1),
    ],
)
def test_a_window_that_leaves_cells_out_or_is_padded_is_none(pool):
    assert op_of(made_of(pool)) == "IntAveragePool"


def test_of_a_free_size_a_window_stays_a_window():
    result = made_of(average(kernel_shape=[6, 5]), "[1, 4, h, w]")
    assert op_of(result) == "IntAveragePool"


def test_a_part_of_what_a_pool_reads_is_not_taken_for_all_of_it():
    real = model(
        f"g (float{SIZE} x) => (float[N, C, p, q] y) {{ [pool] y = GlobalAveragePool (x) }}",
        opset=21,
        ir_version=10,
    )
    feeds = [{"x": numbers(*SIZE)}]
    result = quantize(real, feeds)
    text = onnx.printer.to_text(real).replace(
        "GlobalAveragePool (x)", average(kernel_shape=[3, 5], strides=[9, 1])
    )
    other = onnx.parser.parse_model(text)
    assert verify(result.model, other, feeds).verdict == "failed"


def fast_bodies(cells, **given):
    numbers = {"multiplier": np.int32([1 << 23]), "shift": np.int32([30])} | given
    ends = {"y_zero": 3, "y_min": 0, "y_max": 255}
    constants = numbers | {name: np.array(end, np.uint8) for name, end in ends.items()}
    attributes = {"channels": 1, "spatial_shape": cells, "rounding": "half_to_even"}
    found = OPS["IntGlobalAveragePool"].fitting("onnxruntime", constants, attributes)
    return [body.overload for body in found if body.kernel is float32_kernel]


@pytest.mark.parametrize(
    ("cells", "given"),
    [
        ([41], {}),
        ([5, 11], {}),
        ([1 << 12, 1 << 12], {}),
        ([7, 7], {"shift": np.int32([56])}),
        ([7, 7], {"shift": np.int32([15])}),
        ([7, 7], {"multiplier": np.int32([1 << 23, 1 << 23])}),
    ],
)
def test_sizes_and_scales_that_its_kernel_does_not_take_are_convolutions(cells, given):
    assert fast_bodies(cells, **given) == ["onnxruntime"]


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize(
    "cells", [[1], [7, 7], [14, 14], [25, 5], [33], [112, 112], [3, 5, 7]]
)
def test_the_kernel_requantizes_the_sum_of_all_cells_at_any_size(cells, optimize):
    """Sums all over the range, with multipliers of 24 odd bits, beside the model of it."""
    assert fast_bodies(cells)[0] == "onnxruntime_pool"
    rng, count, zero = np.random.default_rng(0), prod(cells), 77
    x = rng.integers(0, 256, (1, 300, count), np.uint8)
    x[0, :256] = np.arange(256)[:, None]
    x[0, :, : count // 2] = x[0, :, :1]
    for multiplier in (8388609, 11184811, 16777215):
        shift = 23 + int(np.ceil(np.log2(count)))
        given = [np.int32([multiplier]), np.int32([shift])]
        ends = [np.array(each, np.uint8) for each in (100, 0, 255)]
        attributes = {"channels": 300, "spatial_shape": cells, "rounding": "half_to_even"}
        found = run_op(
            "IntGlobalAveragePool",
            "onnxruntime_pool",
            [x.reshape(1, 300, *cells), np.uint8(zero), *given, *ends],
            attributes,
            optimize=optimize,
        )
        acc = x.astype(np.int64).sum(axis=2)[0] - zero * count
        level = float32_kernel(acc, *(each.astype(np.int64) for each in given))
        np.testing.assert_array_equal(found.ravel(), np.clip(level + 100, 0, 255))
