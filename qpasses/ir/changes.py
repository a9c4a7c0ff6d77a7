"""Whether a pass changed a graph: nodes and their tensors, before and after."""

from collections.abc import Iterable, Sequence
from typing import Any

from qpasses.ir.graph import Graph, Node, Tensor, producer

SMALL = 64
"""Graphs with at most so many nodes are looked at as a whole, larger ones around a node."""


class Snapshot:
    """What some nodes of a graph are: ops, names, attributes, and the tensors they touch.

    The time it takes is linear in the nodes and what they read and write.
    """

    def __init__(self, graph: Graph, nodes: Sequence[Node] | None = None) -> None:
        """Look at ``nodes``, or all, at the ends of ``graph`` and at how many nodes it has."""
        self.is_whole = nodes is None
        self._graph = graph
        self._nodes = list(graph.nodes) if nodes is None else nodes
        self._facts, self._held = _facts(graph, self._nodes)

    def is_true(self) -> bool:
        """Whether nothing of it has changed since."""
        return _facts(self._graph, self._nodes)[0] == self._facts


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


def _facts(graph: Graph, nodes: Sequence[Node]) -> tuple[list[Any], list[Any]]:
    """What can be compared, and the objects whose ids are in it: they are not used again."""
    facts: list[Any] = [len(graph.nodes)]
    held: list[Any] = []
    for tensors in (graph.inputs, graph.outputs):
        held.append(list(tensors))
        facts.append([_fact(tensor) for tensor in tensors])
    for node in nodes:
        inputs, outputs = list(node.inputs), list(node.outputs)
        held += (inputs, outputs)
        facts.append((node.op, node.domain, node.name))
        facts.append([_fact(tensor) for tensor in inputs])
        facts.append([_fact(tensor) for tensor in outputs])
        for name, value in node.attrs.items():
            held.append(value)
            facts.append((name, _plain(value)))
    return facts, held


def _fact(tensor: Tensor) -> tuple[Any, ...]:
    shape = tensor.shape
    sizes = None if shape is None else tuple(shape)
    return id(tensor), tensor.name, tensor.dtype, sizes


def _plain(value: Any) -> Any:
    """An attribute as it is now: a list may change in place, tensors and graphs do not."""
    if isinstance(value, list | tuple):
        return tuple(value)
    return value if isinstance(value, bool | int | float | str | bytes) else id(value)
