"""IntegerizeMoving: ops that only move values run on the stored integers."""

from typing import ClassVar

from qpasses.graph import Graph, Node, input_at, is_float, is_used, sole_consumer
from qpasses.passes.base import Context, Declined, Pass
from qpasses.patterns import (
    Stored,
    data_inputs,
    quantized_by,
    real_value_of,
    stored_input,
    value_of,
)
from qpasses.record import NodeRecord
from qpasses.stages import MOVING


class IntegerizeMoving(Pass):
    """Run a moving op on stored integers where input and output share scale and zero point.

    before: ``y = Q(MaxPool(DQ(x)))``
    after:  ``y = MaxPool(x)``
    **Exact:** dequantization is monotone and one to one; Pad fills with the stored value.
    """

    op_types: ClassVar = MOVING

    def guard(self, graph: Graph, node: Node) -> Declined | None:
        """No second result, and a constant fill value."""
        if any(is_used(graph, extra) for extra in node.outputs[1:]):
            return Declined(f"{node.op} whose second output is used")
        if not is_float(node.outputs[0]):
            return None  # shape arithmetic
        if node.op == "Concat" and len(data_inputs(node)) < len(node.inputs):
            return Declined("Concat with a constant operand: no integer form yet")
        if not data_inputs(node):
            return Declined(f"{node.op} of a constant")
        fill = input_at(node, 2)
        if node.op == "Pad" and fill is not None and value_of(fill) is None:
            return Declined("Pad with a fill value that is not constant")
        return None

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Declined | None:
        """Read and write the stored tensors."""
        inputs = [stored_input(tensor, context.settings) for tensor in data_inputs(node)]
        y = quantized_by(sole_consumer(graph, node.outputs[0]), context.settings)
        if y is None and all(each is None for each in inputs):
            return None  # float on both sides, or no float at all
        if y is None or any(each is None for each in inputs):
            return Declined("not all of its inputs and its output are quantized to 8 bits")
        if any(each is None or each.quantization != y.quantization for each in inputs):
            return Declined("its inputs and output have different scales")
        stored = [each.tensor for each in inputs if each is not None]
        rest = list(node.inputs[len(stored) :])
        if node.op == "Pad":
            fill = context.scalar(y.quantization.dtype, _fill(node, y))
            rest = [rest[0], fill, *rest[2:]]
        node.inputs = [*stored, *rest]
        y.tensor.inputs.clear()
        node.outputs = [y.tensor]
        context.record.nodes[node.name] = NodeRecord(
            [node.name], {"y": [y.quantization.scale]}, "moves stored integers"
        )
        return None


def _fill(node: Node, y: Stored) -> int:
    value = real_value_of(input_at(node, 2))
    return y.quantization.store(0.0 if value is None else float(value.reshape(())))
