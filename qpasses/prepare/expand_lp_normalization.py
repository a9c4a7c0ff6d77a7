"""ExpandLpNormalization: a row is divided by its norm."""

from typing import ClassVar

import numpy as np

from qpasses.ir.graph import Graph, Node
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Outcome, Pass
from qpasses.prepare.recognition.expansion import Expansion

_SMALLEST = float(np.finfo(np.float32).tiny)
"""A norm of 0 leaves a row of zeros as it is."""


class ExpandLpNormalization(Pass):
    """Replace LpNormalization by the norm that it divides by, and the division.

    before: ``y = LpNormalization <axis, p = 2> (x)``
    after:  ``n = ReduceL2 (x, [axis]); d = Clip (n, 2 ** -126); y = Div (x, d)``; for p = 1
            ReduceL1
    **Exact** but for norms that are no normal numbers of float32: a row of zeros stays zero.
    """

    op_types: ClassVar = frozenset({"LpNormalization"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite what is float32."""
        x = node.inputs[0]
        if node.domain or x.dtype != np.float32:
            return NOT_MINE
        axis, p = node.attrs.get("axis", -1), node.attrs.get("p", 2)
        made = Expansion(graph, node, context)
        axes = made.constant("axes", np.array([axis]))
        norm = made.add(f"ReduceL{p}", "norm", [x, axes], keepdims=1)
        divisor = made.add("Clip", "divisor", [norm, made.number("smallest", _SMALLEST)])
        made.add("Div", "normalized", [x, divisor], made.y)
        return REWRITTEN
