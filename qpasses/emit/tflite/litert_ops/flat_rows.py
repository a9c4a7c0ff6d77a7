"""What only matrices read lies as it is: the rows of their weights are moved instead."""

from math import prod

import numpy as np

from qpasses.emit.layouts import in_order
from qpasses.emit.tflite.tflite_lowering import TfliteLowering
from qpasses.emit.tosa.lowerings import movements
from qpasses.ir.graph import Node


def flatten(to: TfliteLowering, node: Node) -> None:
    """RESHAPE, without a TRANSPOSE before it if it can be."""
    if not _as_it_lies(to, node):
        movements.flatten(to, node)


def reshape(to: TfliteLowering, node: Node) -> None:
    """The same."""
    if not _as_it_lies(to, node):
        movements.reshape(to, node)


def _as_it_lies(to: TfliteLowering, node: Node) -> bool:
    """Whether a picture became a row for IntGemm alone, whose weights follow its order."""
    x, y = node.inputs[0], node.outputs[0]
    readers = y.outputs
    if not readers or not all(n.op == "IntGemm" and n.inputs[0] is y for n in readers):
        return False
    shape, laid = to.shape(x), to.laid(x)
    if not shape:
        return False
    flat = (shape[0], prod(shape[1:]))
    is_flat = y.shape is not None and tuple(y.shape) == flat
    if not is_flat or laid.order[:1] != (0,) or laid.order == in_order(len(shape)):
        return False
    places = np.arange(flat[1]).reshape(shape[1:])
    to.columns[id(y)] = places.transpose([axis - 1 for axis in laid.order[1:]]).reshape(-1)
    to.write(y, to.program.reshape(laid.value, flat))
    return True


LOWERINGS = {"Flatten": flatten, "Reshape": reshape}
