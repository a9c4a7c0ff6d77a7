"""IntegerizeMaxPool: the largest code of each window, where codes have 16 bits."""

from typing import ClassVar

from qpasses.ir.graph import Graph, Node, sole_consumer
from qpasses.ir.moving import moves_words
from qpasses.ir.patterns import quantized_by, stored_input
from qpasses.ir.record import WORDS, NodeRecord
from qpasses.ir.rewriting import NOT_MINE, Context, Declined, Outcome, Pass
from qpasses.ir.windows import geometry_of
from qpasses.lowering.put_integer_node import put_integer_node, scales, sources


class IntegerizeMaxPool(Pass):
    """Replace a MaxPool of 16 bits, which onnxruntime has no kernel for, by an integer one.

    before: ``y = Q(MaxPool <kernel_shape> (DQ(x)))``, of one scale
    after:  ``y = qpasses.IntMaxPool <kernel_shape, dilations, pads, strides> (x)``
    **Exact:** dequantization is monotone, and padding is no number.
    """

    op_types: ClassVar = frozenset({"MaxPool"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Put IntMaxPool in place."""
        x = stored_input(node.inputs[0], context.settings, WORDS)
        y = quantized_by(sole_consumer(graph, node.outputs[0]), context.settings, WORDS)
        if x is None or y is None or x.quantization != y.quantization:
            return NOT_MINE  # of 8 bits, or nothing that only moves
        if not moves_words(node):
            return Declined("MaxPool of 16 bits with positions, auto_pad or ceil_mode")
        attributes = {"kernel_shape": list(node.attrs["kernel_shape"]), **geometry_of(node)}
        record = NodeRecord(sources(node), scales(x=x, y=y))
        return put_integer_node(
            graph, "IntMaxPool", node.name, [x.tensor], y.tensor, attributes, record, context
        )
