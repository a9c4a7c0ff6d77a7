"""IntegerizeExtreme: the largest or smallest code along axes, where codes have 16 bits."""

from typing import ClassVar

from qpasses.ir.graph import Graph, Node, constant, input_at, rank, sole_consumer
from qpasses.ir.moving import moves_words
from qpasses.ir.patterns import quantized_by, stored_input
from qpasses.ir.record import WORDS, NodeRecord
from qpasses.ir.rewriting import NOT_MINE, Context, Declined, Outcome, Pass
from qpasses.lowering.put_integer_node import put_integer_node, scales, sources


class IntegerizeExtreme(Pass):
    """Replace ReduceMax and ReduceMin of 16 bits by integer nodes.

    onnxruntime has no kernels for these.

    before: ``y = Q(ReduceMax (DQ(x), axes))``, of one scale
    after:  ``y = qpasses.IntExtreme <axes, which = "largest"> (x)``
    **Exact:** dequantization is monotone.
    """

    op_types: ClassVar = frozenset({"ReduceMax", "ReduceMin"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Put IntExtreme in place."""
        x = stored_input(node.inputs[0], context.settings, WORDS)
        y = quantized_by(sole_consumer(graph, node.outputs[0]), context.settings, WORDS)
        if x is None or y is None or x.quantization != y.quantization:
            return NOT_MINE  # of 8 bits, or nothing that only moves
        if not moves_words(node):
            return Declined(f"{node.op} of 16 bits along no axes, or along unknown ones")
        attributes = {
            "axes": _axes(node),
            "keepdims": int(node.attrs.get("keepdims", 1)),
            "which": "largest" if node.op == "ReduceMax" else "smallest",
        }
        record = NodeRecord(sources(node), scales(x=x, y=y))
        return put_integer_node(
            graph, "IntExtreme", node.name, [x.tensor], y.tensor, attributes, record, context
        )


def _axes(node: Node) -> list[int]:
    """Counted from the end, in order; all where none are named."""
    dims, given = rank(node.inputs[0]) or 0, constant(input_at(node, 1))
    axes = node.attrs.get("axes", []) if given is None else given.reshape(-1).tolist()
    return sorted({axis % dims - dims for axis in axes or range(dims)})
