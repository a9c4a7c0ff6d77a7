"""IntegerizeShuffle: channels become places, or places channels, where codes have 16 bits."""

from typing import ClassVar

from qpasses.ir.graph import Graph, Node, sole_consumer
from qpasses.ir.moving import moves_words
from qpasses.ir.patterns import quantized_by, stored_input
from qpasses.ir.record import WORDS, NodeRecord
from qpasses.ir.rewriting import NOT_MINE, Context, Declined, Outcome, Pass
from qpasses.lowering.put_integer_node import put_integer_node, scales, sources


class IntegerizeShuffle(Pass):
    """Replace DepthToSpace and SpaceToDepth of 16 bits by integer nodes.

    onnxruntime has no kernels for these.

    before: ``y = Q(DepthToSpace <blocksize = 2> (DQ(x)))``, of one scale
    after:  ``y = qpasses.IntShuffle <split, perm, joined> (x)``
    **Exact:** it is what ONNX defines them by.
    """

    op_types: ClassVar = frozenset({"DepthToSpace", "SpaceToDepth"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Put IntShuffle in place."""
        x = stored_input(node.inputs[0], context.settings, WORDS)
        y = quantized_by(sole_consumer(graph, node.outputs[0]), context.settings, WORDS)
        if x is None or y is None or x.quantization != y.quantization:
            return NOT_MINE  # of 8 bits, or nothing that only moves
        if not moves_words(node):
            return Declined(f"{node.op} of 16 bits and of sizes that are not known")
        record = NodeRecord(sources(node), scales(x=x, y=y))
        return put_integer_node(
            graph,
            "IntShuffle",
            node.name,
            [x.tensor],
            y.tensor,
            _shuffle(node),
            record,
            context,
        )


def _shuffle(node: Node) -> dict[str, list[int]]:
    """The sizes in between and the order of axes, as ONNX's text has them."""
    channels, rows, columns = node.inputs[0].shape[1:]
    b = node.attrs["blocksize"]
    if node.op == "SpaceToDepth":
        split, perm = [0, channels, rows // b, b, columns // b, b], [0, 3, 5, 1, 2, 4]
        return {
            "split": split,
            "perm": perm,
            "joined": [0, channels * b * b, rows // b, columns // b],
        }
    left = channels // (b * b)
    joined = [0, left, rows * b, columns * b]
    if node.attrs.get("mode", "DCR") == "CRD":
        return {
            "split": [0, left, b, b, rows, columns],
            "perm": [0, 1, 4, 2, 5, 3],
            "joined": joined,
        }
    return {
        "split": [0, b, b, left, rows, columns],
        "perm": [0, 3, 4, 1, 5, 2],
        "joined": joined,
    }
