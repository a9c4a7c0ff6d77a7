"""InvertConstant: write x / c as x * (1 / c)."""

from typing import ClassVar

import numpy as np

from qpasses.ir.elementwise import objection, pair_objection
from qpasses.ir.graph import Graph, Node, constant
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass


class InvertConstant(Pass):
    """Replace Div by a constant that no table can hold: Mul has a kernel.

    before: ``y = Div (x, c)``, c differing along several axes
    after:  ``y = Mul (x, 1 / c)``
    A quotient may change by the rounding of 1 / c, **half a unit in the last place** of
    float32. Stored in 8 bits a small divisor would become zero, its inverse not.
    """

    op_types: ClassVar = frozenset({"Div"})

    def rewrite(self, _graph: Graph, node: Node, context: Context) -> Outcome:
        """Put Mul with the inverse constant in place."""
        c = constant(node.inputs[1])
        if c is None or not objection(node) or pair_objection(node):
            return NOT_MINE  # a table holds it, or nothing does
        with np.errstate(divide="ignore", over="ignore"):
            inverse = np.reciprocal(c)
        if not np.isfinite(inverse).all():
            return Declined("Div by a constant with zeros, or too small for a float32 inverse")
        node.op = "Mul"
        node.inputs = [node.inputs[0], context.constant(f"{node.name}.inverse", inverse)]
        return REWRITTEN
