"""ExpandClip: bounds that vary are taken by Max and Min."""

from typing import ClassVar

import numpy as np

from qpasses.ir.graph import Graph, Node, input_at, varies
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Outcome, Pass
from qpasses.prepare.recognition.expansion import Expansion


class ExpandClip(Pass):
    """Replace a Clip with bounds that are not constant by Max and Min.

    before: ``y = Clip (x, low, high)``
    after:  ``m = Max (x, low); y = Min (m, high)``
    **Exact:** it is its definition.
    """

    op_types: ClassVar = frozenset({"Clip"})

    def takes(self, node: Node) -> bool:
        """Whether a bound varies."""
        return super().takes(node) and any(map(varies, node.inputs[1:]))

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite what is float32; the other one may be absent."""
        if node.outputs[0].dtype != np.float32:
            return NOT_MINE
        low, high = input_at(node, 1), input_at(node, 2)
        made = Expansion(graph, node, context)
        x = made.needed(0)
        if low is not None:
            x = made.add("Max", "above", [x, low], made.y if high is None else None)
        if high is not None:
            made.add("Min", "below", [x, high], made.y)
        return REWRITTEN
