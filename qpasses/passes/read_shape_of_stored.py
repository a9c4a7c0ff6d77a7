"""ReadShapeOfStored: the shape of a tensor is the shape of its stored integers."""

from typing import ClassVar

from qpasses.graph import Graph, Node, dequantized
from qpasses.passes.base import Context, Declined, Pass


class ReadShapeOfStored(Pass):
    """Let Shape and Size read the stored tensor, so that no float is made for its shape.

    before: ``n = Shape(DQ(x))``
    after:  ``n = Shape(x)``
    **Exact:** DequantizeLinear keeps the shape.
    """

    op_types: ClassVar = frozenset({"Shape", "Size"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Declined | None:
        """Read through the DequantizeLinear, if there is one."""
        view = dequantized(node.inputs[0])
        if view is not None:
            node.inputs = [view.stored]
        return None
