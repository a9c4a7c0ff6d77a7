"""Whether a pass changed a graph: nodes and their tensors, before and after."""

from collections.abc import Iterable, Sequence
from typing import Any

from qpasses.ir.graph import Graph, Node, Tensor, producer

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
        self._facts, self._held = self._look()

    def near(self, node: Node) -> Sequence[Node]:
        """``node`` and its neighbours, as they were when this was taken of it."""
        return neighbours(node) if self.is_whole else self._nodes

    def is_true(self) -> bool:
        """Whether nothing of it has changed since."""
        return self._look()[0] == self._facts

    def _nodes_too_wide(self, node: Node) -> frozenset[int]:
        others = (each for each in self._nodes if each is not node)
        return frozenset(
            id(each) for each in others if len(each.inputs) + len(each.outputs) > _WIDE
        )

    def _look(self) -> tuple[list[Any], list[Any]]:
        """What can be compared, and the objects whose ids are in it, that they stay theirs."""
        graph, facts, held = self._graph, list[Any](), list[Any]()
        tensors = dict[int, Tensor]()
        if self.is_whole or len(graph.inputs) + len(graph.outputs) <= _WIDE:
            facts += [_ids(graph.inputs, tensors), _ids(graph.outputs, tensors)]
        facts += [len(graph.nodes), len(graph.inputs), len(graph.outputs)]
        for node in self._nodes:
            if id(node) in self._wide:
                facts += [node.op, len(node.inputs), len(node.outputs)]
                continue
            facts += [node.op, node.domain, node.name]
            facts += [_ids(node.inputs, tensors), _ids(node.outputs, tensors)]
            for name, value in node.attrs.items():
                held.append(value)
                facts.append((name, _plain(value)))
        for tensor in tensors.values():
            shape = tensor.shape
            facts.append((tensor.name, tensor.dtype, None if shape is None else tuple(shape)))
        return facts, [tensors, held]


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


def _ids(ends: Sequence[Tensor], tensors: dict[int, Tensor]) -> tuple[int, ...]:
    """The ids of ``ends``, which join ``tensors``."""
    ids = tuple(map(id, ends))
    tensors.update(zip(ids, ends, strict=True))
    return ids


def _plain(value: Any) -> Any:
    """An attribute as it is now: a list may change in place, tensors and graphs do not."""
    if isinstance(value, list | tuple):
        return tuple(value)
    return value if isinstance(value, bool | int | float | str | bytes) else id(value)
