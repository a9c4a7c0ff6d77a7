"""Tensors that are others but for sizes of 1 before the last."""

from collections.abc import Iterator

from qpasses.ir.graph import Node, Tensor, producer
from qpasses.ir.recurrent_nodes import GATES, Y_H, X, Y, direction_of
from qpasses.prepare.recognition.affine import width
from qpasses.prepare.recognition.gates import plain


def origin(tensor: Tensor) -> Tensor:
    """The first of those that ``tensor`` is but for sizes of 1."""
    *_, first = resized(tensor)
    return first


def is_resized(tensor: Tensor | None, other: Tensor | None) -> bool:
    """Whether ``tensor`` is made of ``other``, and is it but for sizes of 1."""
    if tensor is None or other is None:
        return False
    return any(each is plain(other) for each in resized(tensor))


def resized(tensor: Tensor) -> Iterator[Tensor]:
    """``tensor``, and what it is but for sizes of 1 before the last, back to the first.

    What a recurrent node of one step gives of all steps is its last state too.
    """
    while True:
        tensor = plain(tensor)
        yield tensor
        node = producer(tensor)
        if node is None or node.domain:
            return
        if node.op in GATES and takes_one_step(node) and tensor is node.outputs[Y]:
            tensor = node.outputs[Y_H] if len(node.outputs) > Y_H else tensor
            if tensor is node.outputs[Y] or tensor.is_empty():
                return
            continue
        if node.op not in ("Reshape", "Squeeze", "Unsqueeze"):
            return
        x = node.inputs[0]
        if width(x) is None or width(x) != width(tensor):
            return
        if node.op == "Reshape" and _sizes(x) != _sizes(tensor):
            return
        tensor = x


def takes_one_step(node: Node) -> bool:
    """Whether a recurrent node, of one direction, is given one step alone."""
    sizes = node.inputs[X].shape
    return bool(sizes) and sizes[0] == 1 and direction_of(node) != "bidirectional"


def _sizes(tensor: Tensor) -> list[object] | None:
    return None if tensor.shape is None else [size for size in tensor.shape if size != 1]
