"""ExpandHardmax: the largest of a row looks its row up in the identity matrix."""

from typing import ClassVar

import numpy as np

from qpasses.ir.graph import Graph, Node, rank
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.prepare.recognition.expansion import Expansion


class ExpandHardmax(Pass):
    """Replace Hardmax by ArgMax and Gather from the identity matrix.

    before: ``y = Hardmax <axis> (x)``
    after:  ``i = ArgMax <axis, keepdims = 0> (x); g = Gather (identity, i);
            y = Transpose (g)``
    **Exact:** both take the first of those that are largest. Transpose brings the axis back
    where it is not the last.
    """

    op_types: ClassVar = frozenset({"Hardmax"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite where the size of the axis is known."""
        x, dims = node.inputs[0], rank(node.inputs[0])
        if node.domain or x.dtype != np.float32:
            return NOT_MINE
        axis = node.attrs.get("axis", -1) % max(dims or 0, 1)
        if not dims or not isinstance(x.shape[axis], int):
            return Declined("Hardmax over an axis of unknown size")
        size = x.shape[axis]
        made = Expansion(graph, node, context)
        first = made.add("ArgMax", "first", [x], dtype=np.int64, axis=axis, keepdims=0)
        table = made.constant("identity", np.eye(size, dtype=np.float32))
        if axis == dims - 1:
            made.add("Gather", "row", [table, first], made.y, axis=0)
        else:
            row = made.add("Gather", "row", [table, first], axis=0)
            others = [*range(dims - 1)]
            made.add(
                "Transpose",
                "back",
                [row],
                made.y,
                perm=[*others[:axis], dims - 1, *others[axis:]],
            )
        return REWRITTEN
