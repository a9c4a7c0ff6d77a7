"""ClipCodes: what QuantizeLinear stores stays within codes of fewer bits than its type."""

from typing import ClassVar

from qpasses.ir.graph import Graph, Node, add_node, new_tensor
from qpasses.ir.patterns import quantized_by
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Outcome, Pass


class ClipCodes(Pass):
    """Put a Clip behind each QuantizeLinear where the codes do not fill their type.

    before: ``y = Q(x)``
    after:  ``y = Clip(Q(x), low, high)``
    **Exact:** QuantizeLinear is monotone: it saturates at the ends of the codes.
    """

    op_types: ClassVar = frozenset({"QuantizeLinear"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Let the Clip write the stored tensor, which keeps its name."""
        y = quantized_by(node, context.settings)
        if y is None or y.quantization.limits == y.quantization.type_limits:
            return NOT_MINE
        name = node.inputs[0].name
        unclipped = new_tensor(context.fresh(f"{name}_unclipped"), y.tensor)
        node.outputs = [unclipped]
        ends = [context.scalar(y.quantization.dtype, end) for end in y.quantization.limits]
        add_node(graph, "Clip", context.fresh(f"{name}_clip"), [unclipped, *ends], [y.tensor])
        return REWRITTEN
