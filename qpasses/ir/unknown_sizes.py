"""Why a size is not known, and what the user can do about it."""

from qpasses.ir.graph import Node, Tensor, constant, input_at, producer
from qpasses.ir.stages import MEASURING

FREE = "--input-shape fixes free sizes"
"""The advice where sizes follow from those of the model's inputs alone."""


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
