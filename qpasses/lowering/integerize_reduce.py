"""IntegerizeReduce: sums and means over any axes become integer sums."""

from typing import ClassVar

import numpy as np

from qpasses.ir.graph import Graph, Node, constant, input_at, is_float, rank
from qpasses.ir.patterns import stored_input, stored_output
from qpasses.ir.record import SIGNALS
from qpasses.ir.rewriting import NOT_MINE, Context, Declined, Outcome, Pass
from qpasses.lowering.reduction import put_reduction


class IntegerizeReduce(Pass):
    """Replace a quantized ReduceMean or ReduceSum by one integer node.

    before: ``y = Q(ReduceMean(DQ(x), axes))``
    after:  ``y = qpasses.IntReduce <axes, keepdims, mean> (x, x_zero, multiplier, ...)``
    **Exact** up to the multiplier. The number of cells is asked at run time, so sizes may be
    free. It is a follower: what it reads is on integers already, or it stays float.
    """

    op_types: ClassVar = frozenset({"ReduceMean", "ReduceSum"})

    def guard(self, graph: Graph, node: Node) -> Declined | None:
        """Axes and rank that are known."""
        if not is_float(node.outputs[0]):
            return None  # shape arithmetic
        if reduced_axes(node) is None:
            if rank(node.inputs[0]) is None:
                return Declined(f"{node.op} of a rank that is not known")
            return Declined(f"{node.op} over axes that are not constant, or over none")
        return None

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Put IntReduce in place."""
        x, found = (
            stored_input(node.inputs[0], context.settings, SIGNALS),
            stored_output(graph, node, context.settings, SIGNALS),
        )
        if x is None and found is None:
            return NOT_MINE  # all in float
        axes = reduced_axes(node)
        if x is None or found is None or axes is None:
            return Declined("input or output is not quantized per tensor to 8 bits")
        keep = int(node.attrs.get("keepdims", 1))
        return put_reduction(graph, node, x, found, axes, keep, context)


def reduced_axes(node: Node) -> list[int] | None:
    """The axes a node reduces, counted from the end, where they are known."""
    dims, axes = rank(node.inputs[0]), constant(input_at(node, 1))
    if dims is None or (axes is None and input_at(node, 1) is not None):
        return None
    given = node.attrs.get("axes", []) if axes is None else np.ravel(axes).tolist()
    if not given and node.attrs.get("noop_with_empty_axes", 0):
        return None
    return sorted((int(axis) % dims) - dims for axis in given or range(dims))
