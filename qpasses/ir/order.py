"""Topological order, and nothing in a graph that no output needs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from opsets.errors import ModelError
from qpasses.ir.flow import FLOW
from qpasses.ir.graph import Graph, Node, Tensor, is_graph


def tidy(graph: Graph) -> None:
    """Drop what nothing reads and restore topological order; the interface stays."""
    before = drop_unread(graph)
    for inner in (each for node in graph.nodes for each in _bodies(node)):
        sort_nodes(inner)
    _sort(graph, before)


def sort_nodes(graph: Graph) -> None:
    """Restore topological order: by the longest way from an input, then as nodes are found."""
    for inner in (each for node in graph.nodes for each in _bodies(node)):
        sort_nodes(inner)
    _sort(graph, _written_before(graph))


Before: TypeAlias = Mapping[int, Sequence[int]]
"""By the id of each node of a graph: the nodes of it that write what it reads."""


def drop_unread(graph: Graph) -> Before:
    """Drop the nodes from which no way leads to an output, of bodies too.

    What writes an input goes. It is onnx-graphsurgeon's ``cleanup``, which numbers and names
    everything anew each time. Gives what is written before what, for who sorts next.
    """
    for inner in (each for node in graph.nodes for each in _bodies(node)):
        drop_unread(inner)
    for tensor in graph.inputs:
        tensor.inputs.clear()
    before = _written_before(graph)
    waiting = [id(writer) for tensor in graph.outputs for writer in tensor.inputs]
    used, together = set(waiting), _together(graph)
    while waiting:
        key = waiting.pop()
        for writer in (*before.get(key, ()), *together.get(key, ())):  # bodies read outside
            if writer not in used:
                used.add(writer)
                waiting.append(writer)
    unread = [node for node in graph.nodes if id(node) not in used]
    for node in unread:
        node.inputs.clear()
        node.outputs.clear()
    if unread:
        graph.nodes = [node for node in graph.nodes if id(node) in used]
    return before


def _together(graph: Graph) -> Before:
    """Of each node that stands for a value of control flow those of its other values.

    An iteration needs states that nothing reads in the end.
    """
    found: dict[str, list[int]] = {}
    for node in graph.nodes:
        if node.domain == FLOW:
            found.setdefault(node.attrs["of"], []).append(id(node))
    return {key: keys for keys in found.values() for key in keys}


def _sort(graph: Graph, before: Before) -> None:
    """Sort the nodes of ``graph``, not those of bodies.

    It is onnx-graphsurgeon's order, whose own sort recurses and ends at some 250 nodes in a
    row.
    """
    own = {id(node): node for node in graph.nodes}
    levels = dict[int, int]()
    for root in own:
        if root in levels:
            continue
        if all(map(levels.__contains__, before[root])):  # most follow what they read
            levels[root] = _level(before[root], levels)
        else:
            _descend(root, own, before, levels)
    graph.nodes = [own[key] for key in sorted(levels, key=levels.__getitem__)]


def _descend(
    root: int, own: Mapping[int, Node], before: Before, levels: dict[int, int]
) -> None:
    """Find the levels of all that ``root`` reads, and its own, without recursion."""
    path, waiting = [(root, iter(before[root]))], {root}
    while path:
        key, rest = path[-1]
        missing = next((each for each in rest if each not in levels), None)
        if missing is None:
            levels[key] = _level(before[key], levels)
            waiting.discard(key)
            path.pop()
        elif missing in waiting:
            raise ModelError(f"node {own[missing].name!r} reads what follows from it")
        else:
            waiting.add(missing)
            path.append((missing, iter(before[missing])))


def _level(writers: Sequence[int], levels: Mapping[int, int]) -> int:
    return 1 + max(map(levels.__getitem__, writers), default=-1)


def _written_before(graph: Graph) -> Before:
    """Of each node the others, by id, that write what it reads, its bodies included."""
    own = set(map(id, graph.nodes))
    return {
        id(node): [
            id(writer)
            for tensor in _read(node)
            for writer in tensor.inputs
            if id(writer) in own
        ]
        for node in graph.nodes
    }


def _read(node: Node) -> Iterable[Tensor]:
    """What ``node`` reads, its bodies included."""
    read: list[Tensor] = node.inputs
    for inner in _bodies(node):
        read = [*read, *(tensor for each in inner.nodes for tensor in _read(each))]
        read += inner.outputs
    return read


def _bodies(node: Node) -> list[Graph]:
    attributes = node.attrs
    return [value for value in attributes.values() if is_graph(value)] if attributes else []
