"""Topological order, and nothing in a graph that no output needs."""

from collections.abc import Container, Iterable

from opsets.errors import ModelError
from qpasses.ir.graph import Graph, Node, Tensor, is_graph


def tidy(graph: Graph) -> None:
    """Drop what nothing reads and restore topological order; the interface stays."""
    _drop_unread(graph)
    sort_nodes(graph)


def _drop_unread(graph: Graph) -> None:
    """Drop the nodes from which no way leads to an output, of bodies too.

    What writes an input goes. It is onnx-graphsurgeon's ``cleanup``, which numbers and names
    everything anew each time.
    """
    for inner in (each for node in graph.nodes for each in _bodies(node)):
        _drop_unread(inner)
    for tensor in graph.inputs:
        tensor.inputs.clear()
    waiting = [writer for tensor in graph.outputs for writer in tensor.inputs]
    used = {id(node) for node in waiting}
    while waiting:
        node = waiting.pop()
        for tensor in _read(node):
            for writer in tensor.inputs:
                if id(writer) not in used:
                    used.add(id(writer))
                    waiting.append(writer)
    unread = [node for node in graph.nodes if id(node) not in used]
    for node in unread:
        node.inputs.clear()
        node.outputs.clear()
    if unread:
        graph.nodes = [node for node in graph.nodes if id(node) in used]


def sort_nodes(graph: Graph) -> None:
    """Restore topological order: by the longest way from an input, then as nodes are found.

    It is onnx-graphsurgeon's, whose own sort recurses and ends at some 250 nodes in a row.
    """
    for node in graph.nodes:
        for inner in _bodies(node):
            sort_nodes(inner)
    own = {id(node): node for node in graph.nodes}
    before = {key: _written_before(node, own) for key, node in own.items()}
    levels = dict[int, int]()
    for root in own:
        if root in levels:
            continue
        path, waiting = [(root, iter(before[root]))], {root}
        while path:
            key, rest = path[-1]
            missing = next((each for each in rest if each not in levels), None)
            if missing is None:
                levels[key] = 1 + max((levels[each] for each in before[key]), default=-1)
                waiting.discard(key)
                path.pop()
            elif missing in waiting:
                raise ModelError(f"node {own[missing].name!r} reads what follows from it")
            else:
                waiting.add(missing)
                path.append((missing, iter(before[missing])))
    graph.nodes = [own[key] for key in sorted(levels, key=levels.__getitem__)]


def _written_before(node: Node, own: Container[int]) -> list[int]:
    """The nodes of ``own``, by id, that write what ``node`` reads, its bodies included."""
    found = dict[int, None]()
    for tensor in _read(node):
        for writer in tensor.inputs:
            if id(writer) in own:
                found[id(writer)] = None
    return list(found)


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
