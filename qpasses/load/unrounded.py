"""Unrounded: a quantized model without the rounding, to see whether a rewriting kept it.

Where a float differs by the last bit, a code may differ by one, and whatever follows from it.
Without rounding small differences stay small.
"""

import onnx
from onnx import helper


def unrounded(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model``, in which what is quantized and dequantized again is what it was."""
    made = {
        node.output[0]: node.input[0]
        for node in model.graph.node
        if node.op_type == "QuantizeLinear"
    }
    back = {
        index
        for index, node in enumerate(model.graph.node)
        if node.op_type == "DequantizeLinear" and node.input[0] in made
    }
    if not back:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for index in back:
        node = copy.graph.node[index]
        ends = [made[node.input[0]]], list(node.output)
        node.CopyFrom(helper.make_node("Identity", *ends, name=node.name))
    return copy
