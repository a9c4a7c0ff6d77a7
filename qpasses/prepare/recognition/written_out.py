"""What passes share that recognize an op which exporters wrote out."""

from collections.abc import Container, Sequence

import numpy as np

from qpasses.ir.graph import Graph, Node, constant, input_at, is_graph_output, producer, rank


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


def single_axis(node: Node) -> int | None:
    """The one axis that ``node`` reduces and keeps, from 0 on; None if it is another node."""
    axes = reduced_axes(node)
    return axes[0] if axes is not None and len(axes) == 1 else None


def shift_of(exp: Node, axis: int) -> list[Node]:
    """The nodes that subtract the largest number of each row before ``exp``, if there are."""
    sub = producer(exp.inputs[0])
    largest = producer(sub.inputs[1]) if sub is not None and sub.op == "Sub" else None
    if sub is None or largest is None or largest.op != "ReduceMax":
        return []
    is_same = largest.inputs[0] is sub.inputs[0] and single_axis(largest) == axis
    return [sub, largest] if is_same else []
