"""Residual streams: sums that a branch joins again, which may be stored in 16 bits."""

from collections.abc import Mapping

from calibration import Range
from qpasses.ir.graph import Graph, Node, Tensor, producer
from qpasses.ir.moving import moves
from qpasses.ir.patterns import activations, data_inputs
from qpasses.ir.record import Quantization
from qpasses.place.planning import Plan

LONGEST_BRANCH = 2000
"""So many tensors of a branch are looked at, behind the place where it leaves."""


def residual_streams(graph: Graph, chosen: Plan) -> set[str]:
    """The names of the stored tensors that are residual streams.

    They are what an Add writes that computes on integers (behind a Relu or Clip that it
    absorbs), if one of its operands is computed from the other; and this other one, if an Add
    writes that as well.
    """
    sums = [node for node in chosen.computing if node.op == "Add"]
    ends = {id(node): stored_end(node, chosen) for node in sums}
    written = set(ends.values())
    place = {id(node): index for index, node in enumerate(graph.nodes)}
    found = set[str]()
    for node in sums:
        operands = activations(node)
        for kept, branch in (operands, operands[::-1]) if len(operands) == 2 else ():
            if kept is not branch and _leads_to(_unmoved(kept), branch, place):
                found |= {ends[id(node)], *{kept.name} & written}
    return found


def stored_end(node: Node, chosen: Plan) -> str:
    """The name of the tensor that stores what ``node`` and what it absorbs compute.

    Of a recurrent node whose first output nobody reads, that output.
    """
    tensor = node.outputs[0]
    while tensor.outputs and tensor.name not in chosen.tensors:
        (reader,) = tensor.outputs
        tensor = reader.outputs[0]
    return str(tensor.name)


def _unmoved(tensor: Tensor) -> Tensor:
    """What ``tensor`` is only a Reshape or the like of."""
    node = producer(tensor)
    while node is not None and moves(node) and len(data_inputs(node)) == 1:
        (tensor,) = data_inputs(node)
        node = producer(tensor)
    return tensor


def _leads_to(source: Tensor, end: Tensor, place: Mapping[int, int]) -> bool:
    """Whether ``end`` is computed from ``source``, by a branch that is not too long."""
    writer = producer(source)
    first = -1 if writer is None else place[id(writer)]
    waiting, seen = [end], set[int]()
    for _ in range(LONGEST_BRANCH):
        if not waiting:
            return False
        tensor = waiting.pop()
        if tensor is source:
            return True
        node = producer(tensor)
        if node is not None and place[id(node)] > first and id(node) not in seen:
            seen.add(id(node))
            waiting += node.inputs[:LONGEST_BRANCH]
    return False


def empty_operands(
    chosen: Plan, narrow: Mapping[str, Quantization], ranges: Mapping[str, Range]
) -> dict[str, Quantization]:
    """How operands of streams that are zero throughout are stored: as 8 bits of the sum.

    Any other scale would take bits from the multiplier of the other operand.
    """
    found = {}
    for node in chosen.computing:
        end = stored_end(node, chosen) if node.op == "Add" else ""
        for tensor in activations(node) if end in narrow else ():
            real = ranges.get(tensor.name)
            if real is not None and real.low == real.high == 0 and tensor.name not in narrow:
                found[tensor.name] = narrow[end]
    return found
