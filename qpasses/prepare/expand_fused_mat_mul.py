"""ExpandFusedMatMul: a product with transposed and scaled operands is a MatMul again."""

from typing import ClassVar

import numpy as np

from qpasses.ir.graph import Graph, Node, Tensor, constant, rank
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.prepare.recognition.expansion import Expansion, is_fused


class ExpandFusedMatMul(Pass):
    """Replace FusedMatMul by Transpose, MatMul and Mul.

    before: ``y = com.microsoft.FusedMatMul <transB = 1, alpha> (a, b)``
    after:  ``t = Transpose (b); p = MatMul (a, t); y = Mul (p, alpha)``; a constant is
            transposed itself
    **Exact:** it is its definition.
    """

    op_types: ClassVar = frozenset({"FusedMatMul"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite where the rank of what is transposed is known."""
        if not is_fused(node):
            return NOT_MINE
        if node.attrs.get("transBatchA", 0) or node.attrs.get("transBatchB", 0):
            return Declined("FusedMatMul that moves the first axis of stacks")
        turned = [bool(node.attrs.get(each, 0)) for each in ("transA", "transB")]
        ranks = [rank(tensor) or 0 for tensor in node.inputs]
        if any(is_turned and dims < 2 for is_turned, dims in zip(turned, ranks, strict=True)):
            return Declined(
                "FusedMatMul of a transposed operand that is not known to be a matrix"
            )
        alpha = float(node.attrs.get("alpha", 1))
        made = Expansion(graph, node, context)
        operands = [made.needed(0), made.needed(1)]
        for index, name in enumerate("ab"):
            if turned[index]:
                operands[index] = _transposed(made, name, operands[index])
        if alpha == 1:
            made.add("MatMul", "product", operands, made.y)
        else:
            product = made.add("MatMul", "product", operands)
            made.add("Mul", "scaled", [product, made.number("alpha", alpha)], made.y)
        return REWRITTEN


def _transposed(made: Expansion, name: str, tensor: Tensor) -> Tensor:
    value, dims = constant(tensor), rank(tensor) or 2
    if value is not None:
        return made.constant(name, np.swapaxes(value, -1, -2))
    return made.add("Transpose", name, [tensor], perm=[*range(dims - 2), dims - 1, dims - 2])
