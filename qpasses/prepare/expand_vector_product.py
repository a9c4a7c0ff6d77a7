"""ExpandVectorProduct: a product with a vector is one with a matrix of one row or column."""

from typing import ClassVar

import numpy as np

from qpasses.ir.graph import Graph, Node, rank
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Outcome, Pass
from qpasses.prepare.recognition.expansion import Expansion


class ExpandVectorProduct(Pass):
    """Replace MatMul of a vector by MatMul of a matrix, and take the axis away again.

    before: ``y = MatMul (a, b)`` with b [K]
    after:  ``c = Unsqueeze (b, [1]); p = MatMul (a, c); y = Squeeze (p, [-1])``; a vector on
            the left becomes a row
    **Exact:** it is its definition.
    """

    op_types: ClassVar = frozenset({"MatMul"})

    def takes(self, node: Node) -> bool:
        """Whether one operand, or both, have one axis."""
        return super().takes(node) and 1 in map(rank, node.inputs)

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite where both ranks are known."""
        ranks = [rank(tensor) for tensor in node.inputs]
        if None in ranks or node.outputs[0].dtype != np.float32:
            return NOT_MINE
        made = Expansion(graph, node, context)
        a, b = made.needed(0), made.needed(1)
        dropped = []
        if ranks[0] == 1:
            axis = made.constant("row_axis", np.array([0]))
            a, dropped = made.add("Unsqueeze", "row", [a, axis]), [-2]
        if ranks[1] == 1:
            axis = made.constant("column_axis", np.array([1]))
            b, dropped = made.add("Unsqueeze", "column", [b, axis]), [*dropped, -1]
        product = made.add("MatMul", "product", [a, b])
        axes = made.constant("axes", np.array(dropped))
        made.add("Squeeze", "result", [product, axes], made.y)
        return REWRITTEN
