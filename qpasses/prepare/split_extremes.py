"""SplitExtremes: Max, Mean and Min of many tensors are rows of those of two."""

from typing import ClassVar

import numpy as np

from qpasses.ir.elementwise import made_of
from qpasses.ir.graph import Graph, Node, varies
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Outcome, Pass
from qpasses.prepare.recognition.expansion import Expansion


class SplitExtremes(Pass):
    """Write Max and Min of more than two tensors as a row of those of two, Mean as a sum.

    before: ``y = Max (a, b, c)``; ``z = Mean (a, b, c)``
    after:  ``m = Max (a, b); y = Max (m, c)``; ``s = Sum (a, b, c); z = Mul (s, 1 / 3)``
    **Exact:** Max and Min are associative; the mean in real arithmetic.
    """

    op_types: ClassVar = frozenset({"Max", "Mean", "Min"})

    def takes(self, node: Node) -> bool:
        """Whether at least two of more than two tensors vary."""
        is_many = super().takes(node) and len(node.inputs) > 2
        return is_many and len({id(each) for each in node.inputs if varies(each)}) > 1

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite what is float32, and no function of one tensor, which a table holds."""
        is_function = made_of(node.outputs[0], ())[1] is not None
        if is_function or node.outputs[0].dtype != np.float32:
            return NOT_MINE
        op = node.op
        made = Expansion(graph, node, context)
        first, *others = (made.needed(index) for index in range(len(made.inputs)))
        if op == "Mean":
            share = made.number("share", 1 / len(made.inputs))
            total = made.add("Sum", "total", [first, *others])
            made.add("Mul", "mean", [total, share], made.y)
            return REWRITTEN
        for position, each in enumerate(others, start=1):
            is_last = position == len(others)
            y = made.y if is_last else None
            first = made.add(op, f"of_{position + 1}", [first, each], y)
        return REWRITTEN
