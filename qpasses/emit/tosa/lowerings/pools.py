"""Pools: max_pool2d, averages as depthwise convolutions of ones or reduce_sum."""

import numpy as np

from qpasses.emit.layouts import channels_last
from qpasses.emit.tosa import mlir
from qpasses.emit.tosa.lowering import Lowering, offset
from qpasses.emit.tosa.lowerings.products import convolved, exact, geometry_of
from qpasses.emit.tosa.program import RefusedError
from qpasses.evidence.prove import accumulator_interval
from qpasses.ir.graph import Node
from qpasses.ir.windows import all_pads


def max_pool(to: Lowering, node: Node) -> None:
    """max_pool2d; what is padded is never the largest."""
    x, attributes = node.inputs[0], node.attrs
    rank = len(to.shape(x))
    if (
        rank not in (3, 4)
        or len(node.outputs) > 1
        or any(each != 1 for each in attributes.get("dilations") or [])
    ):
        raise RefusedError("max_pool2d has no dilations, positions or three dimensions")
    value, order = to.read(x, channels_last(rank)), channels_last(rank)
    kernel = list(attributes["kernel_shape"])
    pads, strides, gaps = geometry_of(node, value.shape[1:-1], kernel)
    if attributes.get("ceil_mode", 0):
        flat = all_pads(node)
        pads = list(zip(flat[: len(kernel)], flat[len(kernel) :], strict=True))
    if rank == 3:
        value = to.program.reshape(value, (value.shape[0], 1, *value.shape[1:]))
        kernel, strides, gaps = [1, *kernel], [1, *strides], [1, *gaps]
        pads = [(0, 0), *pads]
    value, pads = exact(to, value, kernel, pads, strides, gaps)
    sizes = [
        (size + sum(ends) - k) // stride + 1
        for size, ends, k, stride in zip(value.shape[1:-1], pads, kernel, strides, strict=True)
    ]
    found = to.program.add(
        *("max_pool2d", [value], (value.shape[0], *sizes, value.shape[-1]), value.element),
        kernel=mlir.integers(kernel),
        stride=mlir.integers(strides),
        pad=mlir.integers([end for ends in pads for end in ends]),
    )
    if rank == 3:
        found = to.program.reshape(found, (found.shape[0], *found.shape[2:]))
    to.write(node.outputs[0], found, order)


def int_average_pool(to: Lowering, node: Node) -> None:
    """A depthwise convolution of ones, then RESCALE."""
    given, x = to.constants(node), node.inputs[0]
    rank = len(to.shape(x))
    value = to.read(x, channels_last(rank))
    kernel = list(node.attrs["kernel_shape"])
    pads, strides, gaps = geometry_of(node, value.shape[1:-1], kernel)
    channels = value.shape[-1]
    if rank == 3:
        value = to.program.reshape(value, (value.shape[0], 1, *value.shape[1:]))
        kernel, strides, gaps = [1, *kernel], [1, *strides], [1, *gaps]
        pads = [(0, 0), *pads]
    if rank > 4:
        raise RefusedError("an average over three dimensions")
    value, pads = exact(to, value, kernel, pads, strides, gaps)
    ones, bias = np.ones((channels, 1, *kernel), np.int8), np.zeros(channels, np.int32)
    zero = int(given["x_zero"]) - offset(given["x_zero"].dtype)
    geometry = (pads, strides, gaps)
    acc = convolved(to, value, ones, bias, (zero, 0), geometry, channels)
    codes = to.requantized(acc, node, accumulator_interval(node, given))
    if rank == 3:
        codes = to.program.reshape(codes, (codes.shape[0], *codes.shape[2:]))
    to.write(node.outputs[0], codes, channels_last(rank))


def int_global_average_pool(to: Lowering, node: Node) -> None:
    """Levels summed by reduce_sum along each spatial axis, then RESCALE."""
    given, x = to.constants(node), node.inputs[0]
    rank = len(to.shape(x))
    acc = to.levels(
        to.read(x, channels_last(rank)), int(given["x_zero"]) - offset(given["x_zero"].dtype)
    )
    for axis in range(1, rank - 1):
        acc = to.program.reduce("reduce_sum", acc, axis)
    codes = to.requantized(acc, node, accumulator_interval(node, given))
    to.write(node.outputs[0], codes, channels_last(rank))


LOWERINGS = {
    "IntAveragePool": int_average_pool,
    "IntGlobalAveragePool": int_global_average_pool,
    "MaxPool": max_pool,
}
