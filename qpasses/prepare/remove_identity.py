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
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass


class RemoveIdentity(Pass):
    """Let the readers of an Identity or an inference-time Dropout read its input.

    And those of a Resize that changes no size, which onnxruntime copies whatever its scales.

    before: ``y = Identity (x); z = Relu (y)``
    after:  ``z = Relu (x)``
    **Exact:** the value is the same tensor.
    """

    op_types: ClassVar = frozenset({"Identity", "Dropout", "Resize"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Redirect the readers of the output; the node falls away."""
        source, result = node.inputs[0], node.outputs[0]
        if node.op == "Resize" and not _copies(node):
            return NOT_MINE
        training = input_at(node, 2) if node.op == "Dropout" else None
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


def _copies(node: Node) -> bool:
    """Whether a Resize has the same sizes before and after, in every run."""
    before, after, factors = node.inputs[0].shape, node.outputs[0].shape, input_at(node, 2)
    is_cropped = node.attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    given = constant(factors)
    if given is not None and given.size and (given == 1).all():
        return not is_cropped
    known = before is not None and after is not None and list(before) == list(after)
    return known and all(isinstance(size, int) for size in before) and not is_cropped
