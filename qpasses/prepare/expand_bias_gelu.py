"""ExpandBiasGelu: a fused sum and GELU are two nodes again."""

from math import pi, sqrt
from typing import ClassVar

from qpasses.ir.graph import Graph, Node, Tensor, input_at
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Outcome, Pass
from qpasses.prepare.recognition.expansion import Expansion, is_fused


class ExpandBiasGelu(Pass):
    """Replace BiasGelu, and FastGelu with a bias, by Add and Gelu.

    before: ``y = com.microsoft.BiasGelu (x, bias)``
    after:  ``s = Add (x, bias); y = Gelu (s)``, of FastGelu the form by Tanh; written out
            below opset 20, which has no Gelu
    **Exact:** it is their definition.
    """

    op_types: ClassVar = frozenset({"BiasGelu", "FastGelu"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite where there is a bias."""
        if not is_fused(node) or input_at(node, 1) is None:
            return NOT_MINE
        by_tanh = node.op == "FastGelu"
        made = Expansion(graph, node, context)
        x = made.add("Add", "biased", [made.needed(0), made.needed(1)])
        if graph.opset >= 20:
            made.add("Gelu", "gelu", [x], made.y, approximate="tanh" if by_tanh else "none")
            return REWRITTEN
        share = (_by_tanh if by_tanh else _by_erf)(made, x)
        above = made.add("Add", "above", [share, made.number("one", 1)])
        doubled = made.add("Mul", "doubled", [x, above])
        made.add("Mul", "gelu", [doubled, made.number("half", 0.5)], made.y)
        return REWRITTEN


def _by_erf(made: Expansion, x: Tensor) -> Tensor:
    scaled = made.add("Mul", "scaled", [x, made.number("scale", sqrt(0.5))])
    return made.add("Erf", "erf", [scaled])


def _by_tanh(made: Expansion, x: Tensor) -> Tensor:
    cube = made.add("Pow", "cube", [x, made.number("three", 3)])
    small = made.add("Mul", "small", [cube, made.number("factor", 0.044715)])
    whole = made.add("Add", "whole", [x, small])
    scaled = made.add("Mul", "scaled", [whole, made.number("scale", sqrt(2 / pi))])
    return made.add("Tanh", "tanh", [scaled])
