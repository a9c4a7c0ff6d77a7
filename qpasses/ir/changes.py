"""Whether a pass changed a graph: nodes and their tensors, before and after."""

from collections.abc import Iterable, Iterator, Sequence
from operator import eq
from typing import Any

from qpasses.ir.graph import Graph, Node, Tensor, is_graph, producer

SMALL = 64
"""Graphs with at most so many nodes are looked at as a whole, larger ones around a node."""

LARGE = 4096
"""Of graphs with more nodes only what a pass has done to all of them is compared: to look
around each node would take longer than the passes themselves."""

_WIDE = 64
"""Of a neighbour that reads or writes more tensors than so many only the number is looked at:
each of a thousand nodes before a join would look at all that it joins."""


class Snapshot:
    """What some nodes of a graph are: ops, names, attributes, and the tensors they touch.

    The time it takes is linear in the nodes and what they read and write.
    """

    def __init__(self, graph: Graph, node: Node | None = None) -> None:
        """Look at ``node`` and its neighbours, or all, and the graph's ends."""
        self.is_whole = node is None
        self._graph = graph
        self._nodes = list(graph.nodes) if node is None else neighbours(node)
        self._wide = () if node is None else self._nodes_too_wide(node)
        self._held = list[Any]()
        self._facts = list(self._look(self._held))

    def near(self, node: Node) -> Sequence[Node]:
        """``node`` and its neighbours, as they were when this was taken of it."""
        return neighbours(node) if self.is_whole else self._nodes

    def is_true(self) -> bool:
        """Whether nothing of it has changed since: it is looked at up to the first change.

        There are as many facts as before, or an earlier one differs: a count, or the ids.
        """
        return all(map(eq, self._facts, self._look([])))

    def _nodes_too_wide(self, node: Node) -> frozenset[int]:
        others = (each for each in self._nodes if each is not node)
        return frozenset(
            id(each) for each in others if len(each.inputs) + len(each.outputs) > _WIDE
        )

    def _look(self, held: list[Any]) -> Iterator[Any]:
        """What can be compared; ``held`` takes the objects whose ids are in it.

        As long as they are held their ids stay theirs.
        """
        graph, ends = self._graph, list[Tensor]()
        held.append(ends)
        yield len(graph.nodes), len(graph.inputs), len(graph.outputs)
        if self.is_whole or len(graph.inputs) + len(graph.outputs) <= _WIDE:
            ends += [*graph.inputs, *graph.outputs]
        waiting = [*self._nodes]
        for node in waiting:
            inputs, outputs, attributes = node.inputs, node.outputs, node.attrs
            if id(node) in self._wide:
                yield node.op, len(inputs), len(outputs)
                continue
            yield node.op, node.domain, node.name, len(inputs), len(outputs)
            ends += inputs
            ends += outputs
            if attributes:
                held += attributes.values()
                yield [(name, _plain(value)) for name, value in attributes.items()]
                for body in filter(is_graph, attributes.values()):
                    waiting += body.nodes
                    ends += [*body.inputs, *body.outputs]
            else:
                yield None
        tensors = {id(tensor): tensor for tensor in ends}
        yield list(map(id, ends))
        for tensor in tensors.values():
            shape = tensor.shape
            yield tensor.name, tensor.dtype, None if shape is None else tuple(shape)


def neighbours(node: Node) -> list[Node]:
    """What writes the inputs of ``node``, itself, and what reads its results."""
    before = [each for tensor in node.inputs if (each := producer(tensor)) is not None]
    return [*before, node, *(reader for tensor in node.outputs for reader in tensor.outputs)]


def described(nodes: Iterable[Node]) -> str:
    """One line for each: op, name, and the names of what it reads and writes."""
    return "\n".join(
        f"  {node.op} {node.name!r} ({_names(node.inputs)}) -> ({_names(node.outputs)})"
        for node in nodes
    )


def _names(tensors: Iterable[Tensor]) -> str:
    return ", ".join(tensor.name for tensor in tensors)


def _plain(value: Any) -> Any:
    """An attribute as it is now: a list may change in place, tensors and graphs do not."""
    if isinstance(value, list | tuple):
        return tuple(value)
    return value if isinstance(value, bool | int | float | str | bytes) else id(value)
