"""Means along axes: MEAN, which folds the number of cells into its multiplier."""

from math import prod

import numpy as np

from opsets.qpasses_v1.int_reduce import DIVIDES
from qpasses.emit.layouts import without
from qpasses.emit.operations import RefusedError
from qpasses.emit.tflite import runtime
from qpasses.emit.tflite.tflite_lowering import TfliteLowering, check_steps
from qpasses.evidence.thresholds import Interval, end_levels
from qpasses.ir.graph import Node


def int_reduce(to: TfliteLowering, node: Node) -> None:
    """MEAN; SUM of codes reads them as others in the reference kernels."""
    given, x = to.constants(node), node.inputs[0]
    shape, laid = to.shape(x), to.laid(x)
    axes = {int(axis) % len(shape) for axis in node.attrs["axes"]}
    cells = prod(shape[axis] for axis in axes)
    (value, own), y = to.codes_of(node, "x", laid.order), to.written(node)
    ends = (np.array([end * cells], np.int64) for end in end_levels(given["x_zero"]))
    if node.attrs["mean"] == DIVIDES:
        raise RefusedError(
            "a mean that is divided when it runs: quantize with --target litert"
        )
    pair = runtime.of_mean(own.scale, y.scale, cells)
    check_steps(node, given, [pair], Interval(*ends))
    places = sorted(laid.order.index(axis) for axis in axes)
    kept = [1 if place in places else size for place, size in enumerate(value.shape)]
    found = to.program.operator(
        *("MEAN", 2, [value, to.program.sizes(places)], kept, "i8", "ReducerOptions"),
        meaning=y,
        keepDims=True,
    )
    found = to.bounded(found, None, given)
    if node.attrs["keepdims"]:
        to.write(node.outputs[0], found, laid.order)
        return
    left = [size for place, size in enumerate(kept) if place not in places]
    to.write(node.outputs[0], to.program.reshape(found, left), without(laid.order, axes))


LOWERINGS = {"IntReduce": int_reduce}
