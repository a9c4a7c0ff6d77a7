"""Linear Resize: RESIZE_BILINEAR where a node has its coefficients, else int32."""

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpasses.emit.layouts import channels_last
from qpasses.emit.tflite.litert_arithmetic import RESIZE_STEPS, resize_rows
from qpasses.emit.tflite.tflite_lowering import Given, TfliteLowering
from qpasses.emit.tosa.lowering import offset
from qpasses.emit.tosa.lowerings import reductions
from qpasses.ir.graph import Node


def int_resize(to: TfliteLowering, node: Node) -> None:
    """One operator, if its places, coefficients and rounding are those of the node."""
    given, rank = to.constants(node), len(to.shape(node.inputs[0]))
    sizes = [*node.attrs["y_sizes"]]
    if rank != 4 or node.attrs["dims"] != 2 or not _divides(node, given):
        reductions.int_resize(to, node)
        return
    value, before = to.read(node.inputs[0], channels_last(4)), to.shape(node.inputs[0])[2:]
    ends = np.cumsum(sizes)[:-1]
    rows = [np.split(given[n], ends, axis=1)[1:] for n in ("indices", "coefficients")]
    own = [_matrix(a, b, size) for a, b, size in zip(*rows, before, strict=True)]
    for align, half in product((False, True), repeat=2):
        options = {"align_corners": align, "half_pixel": half}
        taken = zip(before, sizes[1:], strict=True)
        theirs = [_matrix(*resize_rows(a, b, **options), a) for a, b in taken]
        is_equal = all(np.array_equal(*each) for each in zip(own, theirs, strict=True))
        if is_equal and to.program.scales(value) == to.program.meaning:
            found = to.program.operator(
                *("RESIZE_BILINEAR", 3, [value, to.program.sizes(sizes[1:])]),
                *((value.shape[0], *sizes[1:], value.shape[-1]), value.element),
                "ResizeBilinearOptions",
                alignCorners=align,
                halfPixelCenters=half,
            )
            to.write(node.outputs[0], to.bounded(found, None, given), channels_last(4))
            return
    reductions.int_resize(to, node)


def _divides(node: Node, given: Given) -> bool:
    """Whether sums of codes, zero points left in, are divided, ties away from zero."""
    zeros = {int(given[name]) - offset(given[name].dtype) for name in ("x_zero", "y_zero")}
    multiplier, shift = (int(given[name].reshape(-1)[0]) for name in ("multiplier", "shift"))
    is_whole = multiplier * RESIZE_STEPS**2 == 1 << shift
    return zeros == {0} and is_whole and node.attrs["rounding"] == "half_away"


def _matrix(places: NDArray[Any], factors: NDArray[Any], size: int) -> NDArray[np.int64]:
    """[wanted, size]: how much of each element is in each of the result."""
    wanted = places.shape[1]
    found = np.zeros((wanted, size), np.int64)
    for row, part in zip(places, factors, strict=True):
        np.add.at(found, (np.arange(wanted), row), part)
    return found


LOWERINGS = {"IntResize": int_resize}
