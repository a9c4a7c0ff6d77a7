"""ExpandSkipLayerNorm: a fused sum and normalization are separate nodes again."""

from typing import ClassVar

import numpy as np

from qpasses.ir.graph import Graph, Node, Tensor, producer, sole_consumer
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.prepare.recognition.expansion import Expansion, are_read, is_fused

_EPSILON = 1e-12
"""What onnxruntime takes where a node states none."""


class ExpandSkipLayerNorm(Pass):
    """Replace SkipLayerNormalization and SkipSimplifiedLayerNormalization by Add and a norm.

    before: ``y, , , s = com.microsoft.SkipLayerNormalization (x, skip, gamma, beta, bias)``
    after:  ``b = Add (x, bias); s = Add (b, skip); y = LayerNormalization (s, gamma, beta)``
    The simplified one has no mean and no beta: it is RMSNormalization from opset 23 on, and
    written out below. The bias goes to what a product writes, of which it becomes part.
    **Exact:** it is their definition.
    """

    op_types: ClassVar = frozenset(
        {"SkipLayerNormalization", "SkipSimplifiedLayerNormalization"}
    )

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite where neither mean nor deviation is read."""
        if not is_fused(node):
            return NOT_MINE
        if are_read(graph, node.outputs[1:3]):
            return Declined(f"{node.op} whose mean or deviation is read")
        epsilon = float(node.attrs.get("epsilon", _EPSILON))
        is_simplified = node.op == "SkipSimplifiedLayerNormalization"
        first, second = node.inputs[:2]
        if _is_product(graph, second):
            first, second = second, first
        made = Expansion(graph, node, context)
        bias = made.given(3 if is_simplified else 4)
        if bias is not None:
            first = made.add("Add", "biased", [first, bias])
        is_given = len(made.outputs) > 3 and made.outputs[3].name
        total = made.add("Add", "sum", [first, second], made.outputs[3] if is_given else None)
        if is_simplified:
            _simplified(made, graph.opset, total, epsilon)
            return REWRITTEN
        factors = [each for each in (made.needed(2), made.given(3)) if each is not None]
        made.add("LayerNormalization", "norm", [total, *factors], made.y, epsilon=epsilon)
        return REWRITTEN


def _is_product(graph: Graph, tensor: Tensor) -> bool:
    """Whether a MatMul writes ``tensor`` for nothing else."""
    node = producer(tensor)
    return node is not None and node.op == "MatMul" and bool(sole_consumer(graph, tensor))


def _simplified(made: Expansion, opset: int, x: Tensor, epsilon: float) -> None:
    """``x`` over the root of its mean of squares, times gamma."""
    gamma = made.needed(2)
    if opset >= 23:
        made.add("RMSNormalization", "norm", [x, gamma], made.y, epsilon=epsilon)
        return
    square = made.add("Mul", "square", [x, x])
    mean = made.add("ReduceMean", "mean", [square, made.constant("axes", np.array([-1]))])
    above = made.add("Add", "above", [mean, made.number("epsilon", epsilon)])
    root = made.add("Sqrt", "root", [above])
    normal = made.add("Div", "normal", [x, root])
    made.add("Mul", "norm", [normal, gamma], made.y)
