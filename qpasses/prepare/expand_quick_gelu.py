"""ExpandQuickGelu: x times a sigmoid is written out."""

from typing import ClassVar

from qpasses.ir.graph import Graph, Node
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Outcome, Pass
from qpasses.prepare.recognition.expansion import Expansion, is_fused


class ExpandQuickGelu(Pass):
    """Replace QuickGelu by Sigmoid and products.

    before: ``y = com.microsoft.QuickGelu <alpha> (x)``
    after:  ``s = Sigmoid (Mul (x, alpha)); y = Mul (x, s)``
    **Exact:** it is its definition. With an alpha of 1 it is SiLU.
    """

    op_types: ClassVar = frozenset({"QuickGelu"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite any of them."""
        if not is_fused(node):
            return NOT_MINE
        alpha = float(node.attrs.get("alpha", 1.702))
        made = Expansion(graph, node, context)
        x = slope = made.needed(0)
        if alpha != 1:
            slope = made.add("Mul", "scaled", [x, made.number("alpha", alpha)])
        share = made.add("Sigmoid", "sigmoid", [slope])
        made.add("Mul", "product", [x, share], made.y)
        return REWRITTEN
