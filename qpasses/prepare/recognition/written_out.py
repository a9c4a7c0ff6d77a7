"""What passes share that recognize an op which exporters wrote out."""

from collections.abc import Container, Sequence

import numpy as np

from qpasses.ir.graph import Graph, Node, constant, input_at, is_graph_output, rank


def axes_of(node: Node) -> tuple[int, ...] | None:
    """The axes that ``node`` reduces, from 0 on, in order; None where they are not known."""
    dims, axes = rank(node.inputs[0]), constant(input_at(node, 1))
    if not dims or (axes is None and input_at(node, 1) is not None):
        return None
    given = np.ravel(node.attrs.get("axes", []) if axes is None else axes)
    if not len(given) and not node.attrs.get("noop_with_empty_axes", 0):
        given = np.arange(dims)
    return tuple(sorted(int(axis) % dims for axis in given)) or None


def reduced_axes(node: Node) -> tuple[int, ...] | None:
    """The axes that ``node`` reduces and keeps, from 0 on, in order; None for another node."""
    return axes_of(node) if node.attrs.get("keepdims", 1) else None


def are_inner(
    graph: Graph, nodes: Sequence[Node], last: Node, excluded: Container[str]
) -> bool:
    """Whether nothing but ``nodes`` and ``last`` needs them, nor the user by their names."""
    readers = {id(each) for each in (*nodes, last)}
    return not any(
        node.name in excluded
        or is_graph_output(graph, node.outputs[0])
        or any(id(reader) not in readers for reader in node.outputs[0].outputs)
        for node in nodes
    )
