"""True and false: comparisons of integers, and what is made of them."""

import numpy as np

from qpasses.emit.operations import RefusedError
from qpasses.emit.tosa.lowering import Lowering
from qpasses.ir.graph import Node

_COMPARED = {
    "Equal": ("equal", False),
    "Greater": ("greater", False),
    "GreaterOrEqual": ("greater_equal", False),
    "Less": ("greater", True),
    "LessOrEqual": ("greater_equal", True),
}
"""TOSA's name, and whether the operands change places."""

_JOINED = {"And": "logical_and", "Or": "logical_or", "Xor": "logical_xor"}


def compared(to: Lowering, node: Node) -> None:
    """As int32; codes of two tensors that are stored alike are compared as they are."""
    types = {np.dtype(each.dtype) for each in node.inputs}
    if len(types) > 1 or types.pop().kind not in "iu":
        raise RefusedError("it compares what are no integers of one type")
    order = to.common_order(node.inputs)
    a, b = (to.program.cast(to.broadcast(each, order), "i32") for each in node.inputs)
    op, is_turned = _COMPARED[node.op]
    sides = (b, a) if is_turned else (a, b)
    to.write(node.outputs[0], to.program.elementwise(op, *sides), order)


def joined(to: Lowering, node: Node) -> None:
    """Two tensors of true and false."""
    order = to.common_order(node.inputs)
    a, b = (to.broadcast(each, order) for each in node.inputs)
    to.write(node.outputs[0], to.program.elementwise(_JOINED[node.op], a, b), order)


def turned(to: Lowering, node: Node) -> None:
    """``logical_not``."""
    x = to.laid(node.inputs[0])
    found = to.program.add("logical_not", [x.value], x.value.shape, "i1")
    to.write(node.outputs[0], found, x.order)


LOWERINGS = {
    **dict.fromkeys(_COMPARED, compared),
    **dict.fromkeys(_JOINED, joined),
    "Not": turned,
}
