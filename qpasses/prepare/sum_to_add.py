"""SumToAdd: write a Sum of many tensors as a chain of Adds."""

from typing import ClassVar

from qpasses.ir.graph import Graph, Node, add_node, new_tensor
from qpasses.ir.rewriting import REWRITTEN, Context, Outcome, Pass


class SumToAdd(Pass):
    """Replace Sum by Adds, left to right.

    before: ``y = Sum (a, b, c)``
    after:  ``ab = Add (a, b); y = Add (ab, c)``
    **Exact:** onnxruntime adds the terms of a Sum in the same order.
    """

    op_types: ClassVar = frozenset({"Sum"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Turn the Sum itself into the last Add; a Sum of one tensor becomes an Identity."""
        terms = list(node.inputs)
        if len(terms) == 1:
            node.op = "Identity"
            return REWRITTEN
        total = terms[0]
        for position, term in enumerate(terms[1:-1], start=1):
            partial = new_tensor(
                context.fresh(f"{node.outputs[0].name}_partial_{position}"), node.outputs[0]
            )
            partial.shape = None
            add_node(
                graph,
                "Add",
                context.fresh(f"{node.name}_{position}"),
                [total, term],
                [partial],
            )
            total = partial
        node.op, node.inputs = "Add", [total, terms[-1]]
        return REWRITTEN
