"""RemoveStores: what stood for the Q/DQ nodes of a quantized model falls away."""

from typing import ClassVar

from qpasses.ir.graph import STORE, Graph, Node, redirect
from qpasses.ir.rewriting import REWRITTEN, Context, Outcome, Pass


class RemoveStores(Pass):
    """Let QuantizeLinear read what the STORE before it read.

    before: ``y = Q(Store(DQ(x)))``
    after:  ``y = Q(DQ(x))``, which is x itself, or a table where the scales differ
    **Exact:** the value is the same tensor.
    """

    op_types: ClassVar = frozenset({STORE})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Redirect the readers of the output; the node falls away."""
        redirect(graph, node.outputs[0], node.inputs[0])
        node.inputs.clear()
        return REWRITTEN
