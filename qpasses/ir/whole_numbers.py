"""Whole numbers: casts of what is no code, and which of these are only sizes."""

import numpy as np

from opsets.declaration import WHOLE
from qpasses.ir.flow import BEGUN
from qpasses.ir.graph import Graph, Node, Tensor, constant, type_name
from qpasses.ir.moving import moved, moves
from qpasses.ir.stages import MEASURING

BOUNDED = ("bool", "uint8", "int8")
"""Types of numbers that stay small whatever they are made of."""


def casts_whole_numbers(node: Node) -> bool:
    """Whether it makes float32 of whole numbers that vary."""
    if node.op != "Cast" or node.outputs[0].dtype != np.float32:
        return False
    given = node.inputs[0]
    return _is_known(given) and type_name(given.dtype) in WHOLE and constant(given) is None


def sizes_among(graph: Graph) -> set[int]:
    """The ids of tensors that are made of sizes, or of an iteration's number, by way of floats
    too; not of what is only moved by such.

    They grow with the input: samples do not tell how far.
    """
    found = set[int]()
    for node in graph.nodes:
        read = moved(node) if moves(node) else node.inputs
        if node.op in MEASURING or node.op == BEGUN:
            found.update(map(id, node.outputs))
        elif any(id(tensor) in found for tensor in read):
            found.update(id(each) for each in node.outputs if _may_grow(each))
    return found


def _may_grow(tensor: Tensor) -> bool:
    return _is_known(tensor) and type_name(tensor.dtype) not in BOUNDED


def _is_known(tensor: Tensor) -> bool:
    return tensor.dtype is not None and not isinstance(tensor.dtype, int)
