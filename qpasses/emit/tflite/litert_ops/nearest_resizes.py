"""The nearest of places: RESIZE_NEAREST_NEIGHBOR of pictures, or by places."""

from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from qpasses.emit.layouts import channels_last
from qpasses.emit.tflite.tflite_lowering import TfliteLowering
from qpasses.emit.tosa.lowerings.places import by_places, places_by_axes
from qpasses.ir.graph import Node


def resize(to: TfliteLowering, node: Node) -> None:
    """One operator, if it takes the places that the node does."""
    shape, axes = to.shape(node.inputs[0]), places_by_axes(to, node)
    kept = axes is not None and all(
        np.array_equal(axes[k], np.arange(shape[k])) for k in (0, 1) if len(shape) == 4
    )
    if axes is None or len(shape) != 4 or not kept:
        by_places(to, node)
        return
    for align, half in product((False, True), repeat=2):
        taken = zip(shape[2:], axes[2:], strict=True)
        if all(np.array_equal(_nearest(k, len(a), align, half), a) for k, a in taken):
            _write(to, node, [len(each) for each in axes[2:]], align=align, half=half)
            return
    by_places(to, node)


def _write(
    to: TfliteLowering, node: Node, sizes: Sequence[int], *, align: bool, half: bool
) -> None:
    order = channels_last(4)
    x = to.read(node.inputs[0], order)
    found = to.program.operator(
        *("RESIZE_NEAREST_NEIGHBOR", 3, [x, to.program.sizes(sizes)]),
        *((x.shape[0], *sizes, x.shape[-1]), x.element, "ResizeNearestNeighborOptions"),
        alignCorners=align,
        halfPixelCenters=half,
    )
    to.write(node.outputs[0], found, order)


def _nearest(size: int, wanted: int, align: bool, half: bool) -> NDArray[np.int64]:
    """GetNearestNeighbor: places in float32, rounded down, or to the nearest if aligned."""
    ends = (size - 1, wanted - 1) if align and wanted > 1 else (size, wanted)
    scale = np.float32(ends[0]) / np.float32(ends[1])
    at = (np.arange(wanted, dtype=np.float32) + np.float32(0.5 if half else 0)) * scale
    found = np.floor(at + np.float32(0.5)) if align else np.floor(at)
    return np.asarray(np.clip(found.astype(np.int64), 0, size - 1))


LOWERINGS = {"Resize": resize}
