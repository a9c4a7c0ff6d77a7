"""RecognizeSoftmax: a Softmax that is written out is one node again."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from qpasses.graph import (
    Graph,
    Node,
    constant,
    input_at,
    is_graph_output,
    producer,
    rank,
)
from qpasses.passes.base import Context, Declined, Pass


class RecognizeSoftmax(Pass):
    """Replace exponentials divided by their sum along one axis by Softmax.

    before: ``e = Exp (x); s = ReduceSum (e, axis); y = Div (e, s)``, or with
            ``m = ReduceMax (u, axis); x = Sub (u, m)`` in front
    after:  ``y = Softmax <axis> (x)``, or ``(u)``
    **Exact** in real arithmetic: a constant added to a row cancels.
    """

    op_types: ClassVar = frozenset({"Div"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Declined | None:
        """Rewrite where nothing else reads what lies between, and the user excludes none."""
        exp, total = (producer(tensor) for tensor in node.inputs)
        if exp is None or total is None or (exp.op, total.op) != ("Exp", "ReduceSum"):
            return None
        if total.inputs[0] is not exp.outputs[0]:
            return None
        axis = _axis(total)
        if axis is None:
            return Declined("exponentials divided by a sum along other than one known axis")
        inside = [exp, total]
        if not _are_inner(graph, inside, node, context):
            return Declined("exponentials or their sum are read by something else as well")
        x, shift = exp.inputs[0], _shift(exp, axis)
        if shift and _are_inner(graph, shift, exp, context):
            x = shift[0].inputs[0]
        node.op, node.inputs = "Softmax", [x]
        node.attrs.clear()
        node.attrs["axis"] = axis
        return None


def _axis(node: Node) -> int | None:
    """The one axis that ``node`` reduces and keeps, from 0 on; None if it is another node."""
    dims, axes = rank(node.inputs[0]), constant(input_at(node, 1))
    given = np.ravel(node.attrs.get("axes", []) if axes is None else axes)
    if dims is None or len(given) != 1 or not node.attrs.get("keepdims", 1):
        return None
    return int(given[0]) % dims


def _shift(exp: Node, axis: int) -> list[Node]:
    """The nodes that subtract the largest number of each row before ``exp``, if there are."""
    sub = producer(exp.inputs[0])
    largest = producer(sub.inputs[1]) if sub is not None and sub.op == "Sub" else None
    if sub is None or largest is None or largest.op != "ReduceMax":
        return []
    is_same = largest.inputs[0] is sub.inputs[0] and _axis(largest) == axis
    return [sub, largest] if is_same else []


def _are_inner(graph: Graph, nodes: Sequence[Node], last: Node, context: Context) -> bool:
    """Whether nothing but ``nodes`` and ``last`` needs them, nor the user by their names."""
    readers = {id(each) for each in (*nodes, last)}
    return not any(
        node.name in context.selection.excluded
        or is_graph_output(graph, node.outputs[0])
        or any(id(reader) not in readers for reader in node.outputs[0].outputs)
        for node in nodes
    )
