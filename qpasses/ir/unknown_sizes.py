"""Why a size is not known, and what the user can do about it."""

from qpasses.ir.graph import Node, Tensor, constant, input_at, producer
from qpasses.ir.stages import MEASURING

FREE = "--input-shape fixes free sizes"
"""The advice where sizes follow from those of the model's inputs alone."""


def is_unknown(size: int | str | None) -> bool:
    """Whether a size has no name either, or one that inference has made up, by a count."""
    return size is None or (isinstance(size, str) and size.startswith("unk__"))


def declared_sizes(tensor: Tensor) -> list[int | str | None] | None:
    """Numbers and names, None where neither is known; None as a whole for an unknown rank."""
    if tensor.shape is None:
        return None
    return [None if is_unknown(size) else size for size in tensor.shape]


def given_in_a_run(node: Node, *places: int) -> bool:
    """Whether one of these inputs of ``node`` follows from values, not from sizes alone.

    Such are scales, sizes and axes that are inputs of the model: no size of an input fixes
    them.
    """
    waiting = [each for place in places if (each := input_at(node, place)) is not None]
    seen = set[int]()
    while waiting:
        tensor: Tensor = waiting.pop()
        if constant(tensor) is not None or tensor.is_empty() or id(tensor) in seen:
            continue
        seen.add(id(tensor))
        writer = producer(tensor)
        if writer is None:
            return True
        if writer.op not in MEASURING:
            waiting += writer.inputs
    return False
