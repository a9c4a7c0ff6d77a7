"""RemoveIdentity: drop nodes that pass their input on unchanged."""

from typing import ClassVar

from qpasses.ir.graph import (
    Graph,
    Node,
    constant,
    input_at,
    is_graph_output,
    is_used,
    producer,
    redirect,
)
from qpasses.ir.rewriting import REWRITTEN, Context, Declined, Outcome, Pass


class RemoveIdentity(Pass):
    """Let the readers of an Identity or an inference-time Dropout read its input.

    before: ``y = Identity (x); z = Relu (y)``
    after:  ``z = Relu (x)``
    **Exact:** the value is the same tensor.
    """

    op_types: ClassVar = frozenset({"Identity", "Dropout"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Redirect the readers of the output; the node falls away."""
        source, result = node.inputs[0], node.outputs[0]
        training = input_at(node, 2)
        value = constant(training)
        if training is not None and (value is None or value.any()):
            return Declined("Dropout in training mode: export the model for inference")
        if any(is_used(graph, extra) for extra in node.outputs[1:]):
            return Declined("the mask of Dropout is used")
        source_is_edge = producer(source) is None or is_graph_output(graph, source)
        if is_graph_output(graph, result) and source_is_edge:
            return Declined("it connects an input or constant straight to an output")
        redirect(graph, result, source)
        node.inputs.clear()
        return REWRITTEN
