"""Standard ONNX: every body written out where it is called, no functions left."""

import onnx
import onnx.inliner

from opsets.errors import ModelError
from qpasses.ir.model_nodes import nested_graphs


def emit_standard(integer: onnx.ModelProto) -> onnx.ModelProto:
    """``integer``, whose bodies are all portable, with ops of ``ai.onnx`` alone.

    Raises ModelError, naming the node, if something of another domain is left in it.
    """
    model = onnx.inliner.inline_local_functions(integer)
    for node in (node for graph in nested_graphs(model.graph) for node in graph.node):
        if node.domain not in ("", "ai.onnx"):
            raise ModelError(
                f"emit standard: node {node.name!r} is {node.domain}.{node.op_type}, which is "
                "no standard ONNX op and was left as it is"
            )
    standard = [each for each in model.opset_import if each.domain in ("", "ai.onnx")]
    del model.opset_import[:]
    model.opset_import.extend(standard)
    return onnx.shape_inference.infer_shapes(model)
