"""FoldIntoTable: a function of single numbers that were looked up is looked up itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from qpasses.ir.elementwise import ELEMENTWISE, differing_axes, is_elementwise
from qpasses.ir.function import Function
from qpasses.ir.graph import (
    Graph,
    Node,
    Tensor,
    add_node,
    constant,
    is_graph_output,
    new_tensor,
    producer,
    varies,
)
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Outcome, Pass


class FoldIntoTable(Pass):
    """Compute elementwise ops behind a Gather of constants once, on the constants.

    before: ``e = Gather (table, ids); y = Tanh (e)``
    after:  ``y = Gather (Tanh (table), ids)``
    A Reshape may lie between, constants may differ along the last axis.
    **Exact:** the same operations on the same numbers.
    """

    op_types: ClassVar = ELEMENTWISE

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Look ``node`` up where all that varies in it is looked up at the same places."""
        if not is_elementwise(node):
            return NOT_MINE
        sources = list({id(each): each for each in node.inputs if varies(each)}.values())
        found = [each for tensor in sources if (each := _looked_up(graph, tensor)) is not None]
        if len(sources) > 2 or len(found) < len(sources) or not found[0].is_like(found[-1]):
            return NOT_MINE
        by_column = differing_axes([node])
        if by_column and not (found[0].has_rows and by_column == {_last_axis(node)}):
            return NOT_MINE
        apart = context.selection.excluded
        if any(each.name in apart for lookup in found for each in lookup.nodes):
            return NOT_MINE
        tables = [np.asarray(constant(lookup.nodes[0].inputs[0])) for lookup in found]
        function = Function.of([node], sources, node.outputs[0], graph.opset)
        values = function.run(*(table.T for table in tables)).T
        if not np.isfinite(values).all():
            return NOT_MINE
        _look_up(graph, node, values, found[0].nodes, context)
        return REWRITTEN


def _last_axis(node: Node) -> int:
    return len(node.outputs[0].shape) - 1


def _look_up(
    graph: Graph,
    node: Node,
    values: NDArray[np.float32],
    nodes: Sequence[Node],
    context: Context,
) -> None:
    """Let ``node`` look ``values`` up as ``nodes`` do theirs."""
    gather, *reshapes = nodes
    inputs = [context.table(f"{node.name}.table", values), gather.inputs[1]]
    attributes = dict(gather.attrs)
    ends = [each.outputs[0] for each in nodes]
    for reshape in reshapes:
        found = new_tensor(context.fresh(f"{node.name}_found"), gather.outputs[0])
        name = context.fresh(f"{node.name}_look_up")
        add_node(graph, "Gather", name, inputs, [found], attributes=attributes)
        inputs, attributes = [found, reshape.inputs[1]], dict(reshape.attrs)
    node.op, node.domain = nodes[-1].op, ""
    node.attrs.clear()
    node.attrs.update(attributes)
    node.inputs = inputs
    made = [*inputs[: len(reshapes)], node.outputs[0]]
    for old, new in zip(ends, made, strict=True):
        for reader in [each for each in old.outputs if each.op == "Shape"]:
            reader.inputs = [new]  # of the same sizes


@dataclass(frozen=True)
class _LookedUp:
    """A Gather from a constant, and the Reshape behind it if there is one.

    ``has_rows``: whether the last axis is that of the table.
    """

    nodes: list[Node]
    has_rows: bool

    def is_like(self, other: "_LookedUp") -> bool:
        """Whether both take the same places in the same shape."""
        pairs = list(zip(self.nodes, other.nodes, strict=False))
        same = all(a.inputs[1] is b.inputs[1] and a.attrs == b.attrs for a, b in pairs)
        sizes = [each.nodes[0].inputs[0].shape for each in (self, other)]
        return len(self.nodes) == len(other.nodes) and same and sizes[0] == sizes[1]


def _looked_up(graph: Graph, tensor: Tensor) -> _LookedUp | None:
    """How ``tensor`` is looked up, if only elementwise ops and sizes are made of it."""
    readers = [*tensor.outputs]
    nodes = [producer(tensor)]
    if nodes[0] is not None and nodes[0].op == "Reshape":
        readers += [each for each in nodes[0].inputs[0].outputs if each is not nodes[0]]
        nodes.insert(0, producer(nodes[0].inputs[0]))
    gather = nodes[0]
    if gather is None or gather.op != "Gather" or is_graph_output(graph, tensor):
        return None
    if not all(each.op in ELEMENTWISE or each.op == "Shape" for each in readers):
        return None
    table = constant(gather.inputs[0])
    if table is None or table.dtype != np.float32 or not table.size:
        return None
    is_by_row = table.ndim == 2 and gather.attrs.get("axis", 0) in (0, -2)
    columns = {list(each.outputs[0].shape or [None])[-1] for each in nodes if each}
    return _LookedUp([n for n in nodes if n], is_by_row and columns == {table.shape[-1]})
