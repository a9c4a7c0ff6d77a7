"""ExpandGemm: a Gemm of two activations, or of a transposed one, is what it is made of."""

from typing import ClassVar

import numpy as np

from qpasses.ir.graph import Graph, Node, constant, input_at, varies
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Outcome, Pass
from qpasses.prepare.recognition.expansion import Expansion


class ExpandGemm(Pass):
    """Replace Gemm by Transpose, MatMul, Mul and Add where its matrix is not constant.

    before: ``y = Gemm <transB = 1, alpha, beta> (a, b, c)``
    after:  ``t = Transpose (b); p = MatMul (a, t); s = Mul (p, alpha); k = Mul (c, beta);
            y = Add (s, k)``; with a constant b, a alone is transposed
    **Exact:** it is its definition.
    """

    op_types: ClassVar = frozenset({"Gemm"})

    def takes(self, node: Node) -> bool:
        """Whether it is more than a product with a constant matrix and a constant row."""
        return super().takes(node) and (
            any(map(varies, node.inputs[1:])) or bool(node.attrs.get("transA", 0))
        )

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite what is float32."""
        c, is_constant = input_at(node, 2), constant(node.inputs[1]) is not None
        if node.outputs[0].dtype != np.float32:
            return NOT_MINE
        turned = [bool(node.attrs.get(each, 0)) for each in ("transA", "transB")]
        factors = [float(node.attrs.get(each, 1)) for each in ("alpha", "beta")]
        made = Expansion(graph, node, context)
        a, b = (
            made.add("Transpose", name, [made.needed(index)], perm=[1, 0])
            if turned[index] and not (is_constant and name == "b")
            else made.needed(index)
            for index, name in enumerate("ab")
        )
        if is_constant:
            terms = [made.add("Gemm", "product", [a, b], transB=int(turned[1]))]
        else:
            terms = [made.add("MatMul", "product", [a, b])]
        terms += [] if c is None else [c]
        scaled = [
            each
            if factor == 1
            else made.add("Mul", name, [each, made.number(f"{name}_factor", factor)])
            for each, factor, name in zip(terms, factors, ("scaled", "summand"), strict=False)
        ]
        if c is None:
            made.add("Identity", "result", scaled, made.y)
        else:
            made.add("Add", "result", scaled, made.y)
        return REWRITTEN
