"""Means along axes: MEAN, which folds the number of cells into its multiplier."""

from math import prod

import numpy as np

from opsets.qpasses_v1.int_reduce import DIVIDES, FOLDED
from qpasses.emit.layouts import channels_last, without
from qpasses.emit.operations import RefusedError
from qpasses.emit.tflite.litert_ops.window_pools import (
    check_divides,
    check_one_scale,
    pooled,
)
from qpasses.emit.tflite.tflite_lowering import TfliteLowering
from qpasses.emit.tosa.lowerings import reductions
from qpasses.evidence.thresholds import Interval, end_levels
from qpasses.ir.graph import Node


def int_reduce(to: TfliteLowering, node: Node) -> None:
    """MEAN; a sum is one of int32, for SUM of codes reads others in the reference kernels."""
    given, x = to.constants(node), node.inputs[0]
    shape, laid = to.shape(x), to.laid(x)
    axes = {int(axis) % len(shape) for axis in node.attrs["axes"]}
    cells = prod(shape[axis] for axis in axes)
    if node.attrs["mean"] == DIVIDES:
        _divided(to, node, sorted(axes))
        return
    if node.attrs["mean"] != FOLDED:
        reductions.int_reduce(to, node)
        return
    (value, own), y = to.codes_of(node, "x", laid.order), to.written(node)
    ends = (np.array([end * cells], np.int64) for end in end_levels(given["x_zero"]))
    pair = to.runtime.of_mean(own.scale, y.scale, cells)
    to.check_steps(node, given, [pair], Interval(*ends))
    places = sorted(laid.order.index(axis) for axis in axes)
    kept = [1 if place in places else size for place, size in enumerate(value.shape)]
    found = to.program.operator(
        *("MEAN", 2 if value.element == "i8" else 3, [value, to.program.sizes(places)]),
        *(kept, value.element, "ReducerOptions"),
        meaning=y,
        keepDims=True,
    )
    found = to.bounded(found, None, given)
    if node.attrs["keepdims"]:
        to.write(node.outputs[0], found, laid.order)
        return
    left = [size for place, size in enumerate(kept) if place not in places]
    to.write(node.outputs[0], to.program.reshape(found, left), without(laid.order, axes))


def _divided(to: TfliteLowering, node: Node, axes: list[int]) -> None:
    """AVERAGE_POOL_2D over whole pictures."""
    check_divides(to, node)
    x = node.inputs[0]
    order = channels_last(len(to.shape(x)))
    value = to.read(x, order)
    dims = len(order) - 2
    if axes != [*range(2, len(order))] or dims not in (1, 2):
        raise RefusedError("a mean that is divided over others than the axes of a picture")
    check_one_scale(to, value)
    found = pooled(
        to, "AVERAGE_POOL_2D", (value, value.shape[1:-1], [(0, 0)] * dims, [1] * dims)
    )
    found = to.bounded(found, None, to.constants(node))
    if node.attrs["keepdims"]:
        to.write(node.outputs[0], found, order)
        return
    flat = to.program.reshape(found, (found.shape[0], found.shape[-1]))
    to.write(node.outputs[0], flat)


LOWERINGS = {"IntReduce": int_reduce}
