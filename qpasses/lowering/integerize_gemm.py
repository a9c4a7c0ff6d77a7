"""IntegerizeGemm: Gemm and MatMul with constant weights become IntGemm."""

from typing import ClassVar

from opsets.qpasses_v1.int_gemm import NOT_KNOWN
from qpasses.ir.graph import Graph, Node, Tensor, input_at, rank
from qpasses.ir.patterns import absorbed, bias_row, multiplies_stacks, value_of
from qpasses.ir.rewriting import NOT_MINE, Context, Declined, Outcome, Pass
from qpasses.lowering.integerize_conv import guard_weights, matrix_inputs, matrix_operands
from qpasses.lowering.requantized import emit_requantized


class IntegerizeGemm(Pass):
    """Replace a quantized product with a constant matrix by one integer node, for any rank.

    before: ``y = Q(Relu(Gemm(DQ(x), DQ(w), DQ(b))))``, or Add(MatMul(...), DQ(b)) within
    after:  ``y = qpasses.IntGemm(x, x_zero, w, w_zero, b, multiplier, shift, ...)``
    **Exact** up to the multiplier: the accumulators that differ from real arithmetic are
    counted in the evidence.
    """

    op_types: ClassVar = frozenset({"Gemm", "MatMul"})

    def guard(self, graph: Graph, node: Node) -> Declined | None:
        """A constant matrix, not transposed or scaled in ways prepare could not fold."""
        if multiplies_stacks(node):
            return None  # IntegerizeMatMul
        weights = value_of(node.inputs[1])
        if weights is None:
            return Declined("Gemm of two activations: no integer form yet")
        factors = {"transA": 0, "transB": 0, "alpha": 1.0, "beta": 1.0}
        for attribute, plain in factors.items():
            if node.attrs.get(attribute, plain) != plain:
                return Declined(f"{node.op} with {attribute} = {node.attrs[attribute]}")
        bias = value_of(input_at(node, 2))
        if bias is not None and bias.shape != weights.shape[1:]:
            return Declined(
                f"{node.op} with a bias of shape {list(bias.shape)}, which is not one "
                "value per column"
            )
        return guard_weights(node, axis=1)

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Collect the stored operands, choose multipliers, put IntGemm in place."""
        if multiplies_stacks(node):
            return NOT_MINE
        chain = absorbed(graph, node)
        if node.op == "MatMul":
            bias = bias_row(node, chain[0]) if chain else None
        else:
            bias = input_at(node, 2)
        operands = matrix_operands(graph, node, 1, bias, context.settings)
        if isinstance(operands, Declined):
            return operands
        inputs = matrix_inputs(operands, context)
        attributes = {"leading": _leading(node.inputs[0])}
        return emit_requantized(
            graph, operands.replaced, "IntGemm", inputs, attributes, operands.acc, context
        )


def _leading(x: Tensor) -> list[int]:
    """The sizes before the last, -1 for those that vary; a row of its own has none."""
    if (rank(x) or 0) < 2:
        return NOT_KNOWN
    return [size if isinstance(size, int) else -1 for size in x.shape[:-1]]
