"""ReadStored: what asks for shapes or positions asks the stored integers."""

from typing import ClassVar

from qpasses.ir.graph import Graph, Node
from qpasses.ir.patterns import stored_input
from qpasses.ir.record import BYTES, SIGNALS
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Outcome, Pass
from qpasses.ir.stages import LOCATING, MEASURING


class ReadStored(Pass):
    """Let Shape, Size, ArgMax and ArgMin read the stored tensor, so that no float is made.

    before: ``n = ArgMax(DQ(x))``
    after:  ``n = ArgMax(x)``
    **Exact:** DequantizeLinear keeps the shape, is monotone and one to one. Positions of 16
    bits stay with the real numbers: onnxruntime finds none in int16.
    """

    op_types: ClassVar = MEASURING | LOCATING

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Read through the DequantizeLinear, if there is one."""
        types = SIGNALS if node.op in MEASURING else BYTES
        x = stored_input(node.inputs[0], context.settings, types)
        if x is None:
            return NOT_MINE  # of a float tensor, or read there already
        node.inputs = [x.tensor]
        return REWRITTEN
