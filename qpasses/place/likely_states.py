"""Likely states: inputs and outputs that may be a state and its next value, nobody knows."""

from collections.abc import Sequence

from qpasses.ir.graph import Graph, Tensor, is_float


def likely_states(
    graph: Graph, known: Sequence[tuple[str, str]]
) -> list[tuple[list[str], list[str]]]:
    """Names of inputs, and of outputs of the same type and sizes, which follow from them.

    Those of ``known`` states are left out. Of a graph with several of both: a state is not all
    that it reads, nor all that it gives, so that what is left alone is none. Of a kind
    there are as many outputs as inputs: each would be the next value of another one.
    """
    if len(graph.inputs) < 2 or len(graph.outputs) < 2:
        return []
    names = {name for pair in known for name in pair}
    kinds: dict[object, tuple[list[Tensor], list[Tensor]]] = {}
    for place, part in enumerate((graph.inputs, graph.outputs)):
        for each in part:
            if is_float(each) and each.shape is not None and each.name not in names:
                kind = each.dtype, tuple(map(str, each.shape))
                kinds.setdefault(kind, ([], []))[place].append(each)
    found, count = [], sum(len(starts) for starts, _ in kinds.values())
    for starts, ends in kinds.values():
        reached = [_behind(start) for start in starts]
        some = [s.name for s, own in zip(starts, reached, strict=True) if _meets(own, ends)]
        others = [end.name for end in ends if any(id(end) in own for own in reached)]
        if others and len(others) == len(some) and count > 1:
            found.append((some, others))
    return found


def _meets(own: set[int], ends: Sequence[Tensor]) -> bool:
    return any(id(end) in own for end in ends)


def _behind(start: Tensor) -> set[int]:
    """The ids of all tensors that follow from ``start``."""
    waiting, found = [start], set[int]()
    while waiting:
        for node in waiting.pop().outputs:
            fresh = [each for each in node.outputs if id(each) not in found]
            found.update(map(id, fresh))
            waiting += fresh
    return found
