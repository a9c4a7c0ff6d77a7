"""IntegerizeWhere: either of two tensors, as a condition says, where codes have 16 bits."""

from typing import ClassVar

from qpasses.ir.graph import Graph, Node, sole_consumer
from qpasses.ir.moving import moved
from qpasses.ir.patterns import data_inputs, quantized_by, stored_input
from qpasses.ir.record import WORDS, NodeRecord
from qpasses.ir.rewriting import NOT_MINE, Context, Outcome, Pass
from qpasses.lowering.integerize_moving import stored_alike
from qpasses.lowering.put_integer_node import put_integer_node, sources


class IntegerizeWhere(Pass):
    """Replace a Where of 16 bits, which onnxruntime has no kernel for, by an integer one.

    before: ``y = Q(Where (condition, DQ(a), DQ(b)))``, of one scale
    after:  ``y = qpasses.IntWhere (condition, a, b)``, constant operands stored like y
    **Exact:** dequantization is one to one.
    """

    op_types: ClassVar = frozenset({"Where"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Put IntWhere in place."""
        settings = context.settings
        y = quantized_by(sole_consumer(graph, node.outputs[0]), settings, WORDS)
        operands = [stored_input(tensor, settings, WORDS) for tensor in data_inputs(node)]
        meanings = {None if each is None else each.quantization for each in operands}
        if y is None or meanings - {y.quantization}:
            return NOT_MINE  # of 8 bits, or nothing that only moves
        stored = [
            stored_alike(tensor, f"{node.name}.operand_{place}", y, context)
            for place, tensor in enumerate(moved(node))
        ]
        scale = [y.quantization.scale]
        record = NodeRecord(sources(node), {"a": scale, "b": scale, "y": scale})
        inputs = [node.inputs[0], *stored]
        return put_integer_node(
            graph, "IntWhere", node.name, inputs, y.tensor, {}, record, context
        )
