"""Parts of tensors: SLICE, and STRIDED_SLICE where elements are left out between."""

import numpy as np

from qpasses.emit.tflite.tflite_lowering import TfliteLowering
from qpasses.emit.tosa.lowerings import movements
from qpasses.emit.tosa.lowerings.places import known_input
from qpasses.ir.graph import Node


def slice_(to: TfliteLowering, node: Node) -> None:
    """One operator for all axes; backwards axis by axis."""
    steps = known_input(to, node, 4)
    if steps is None or steps.min() < 0 or steps.max() == 1:
        movements.slice_(to, node)
        return
    x, shape = to.laid(node.inputs[0]), to.shape(node.inputs[0])
    starts, ends = (known_input(to, node, place).reshape(-1).tolist() for place in (1, 2))
    axes = known_input(to, node, 3)
    listed = range(len(starts)) if axes is None else axes.reshape(-1).tolist()
    taken = [range(size) for size in x.value.shape]
    for start, end, axis, step in zip(
        starts, ends, listed, steps.reshape(-1).tolist(), strict=True
    ):
        place = x.order.index(axis % len(shape))
        taken[place] = taken[place][start:end:step]
    numbers = [[each.start, each.stop, each.step] for each in taken]
    given = [x.value, *(to.program.sizes(row) for row in np.transpose(numbers).tolist())]
    sizes = [len(each) for each in taken]
    found = to.program.operator(
        "STRIDED_SLICE", 2, given, sizes, x.value.element, "StridedSliceOptions"
    )
    to.write(node.outputs[0], found, x.order)


LOWERINGS = {"Slice": slice_}
