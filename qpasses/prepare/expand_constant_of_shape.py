"""ExpandConstantOfShape: a number repeated to a shape is an Expand of a constant."""

from typing import ClassVar

import numpy as np

from qpasses.ir.graph import Graph, Node, constant, is_float, sole_consumer
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Outcome, Pass


class ExpandConstantOfShape(Pass):
    """Replace ConstantOfShape, and the Add of a constant behind it, by Expand.

    before: ``z = ConstantOfShape <value = v> (shape); y = Add (z, token)``
    after:  ``y = Expand (v + token, shape)``
    **Exact:** Expand broadcasts both of its operands, as Add does.
    """

    op_types: ClassVar = frozenset({"ConstantOfShape"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Put Expand in place of both, or of the node alone."""
        if not is_float(node.outputs[0]):
            return NOT_MINE  # shape arithmetic
        given = constant(node.attrs.get("value"))
        value = np.asarray(0 if given is None else given, node.outputs[0].dtype).reshape(())
        last, behind = node, sole_consumer(graph, node.outputs[0])
        if behind is not None and behind.op == "Add":
            others = [constant(t) for t in behind.inputs if t is not node.outputs[0]]
            if len(others) == 1 and others[0] is not None:
                value, last = value + others[0], behind
        shape = node.inputs[0]
        node.inputs.clear()
        last.op = "Expand"
        last.attrs.clear()
        last.inputs = [context.constant(f"{last.name}.value", value), shape]
        if last is not node:
            node.outputs.clear()
        return REWRITTEN
