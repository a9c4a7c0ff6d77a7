"""IntegerizeMoving: ops that only move values run on the stored integers."""

from typing import ClassVar

from qpasses.graph import Graph, Node, constant, input_at
from qpasses.passes.base import Context, Declined, Pass
from qpasses.patterns import Stored, clamp, data_inputs, stored_input, stored_output, value_of
from qpasses.record import NodeRecord
from qpasses.stages import CLAMPING, MOVING


class IntegerizeMoving(Pass):
    """Run a moving op on stored integers where input and output share scale and zero point.

    before: ``y = Q(MaxPool(DQ(x)))``
    after:  ``y = MaxPool(x)``
    **Exact:** dequantization is monotone and one to one; Pad fills with the stored value, Relu
    and Clip become a Clip at their stored bounds.
    """

    op_types: ClassVar = MOVING | CLAMPING

    def guard(self, node: Node) -> Declined | None:
        """No second result, and constants where the stored form needs to know them."""
        if any(extra.outputs for extra in node.outputs[1:]):
            return Declined(f"{node.op} whose second output is used")
        if node.op == "Concat" and len(data_inputs(node)) < len(node.inputs):
            return Declined("Concat with a constant operand: no integer form yet")
        if not data_inputs(node):
            return Declined(f"{node.op} of a constant")
        fixed = {"Pad": [2], "Clip": [1, 2]}.get(node.op, [])
        if any(
            input_at(node, i) is not None and value_of(node.inputs[i]) is None for i in fixed
        ):
            return Declined(f"{node.op} with a fill value or bound that is not constant")
        return None

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Declined | None:
        """Read and write the stored tensors."""
        inputs = [stored_input(tensor) for tensor in data_inputs(node)]
        found = stored_output(graph, node)
        if found is None and all(each is None for each in inputs):
            return None  # a float tensor on both sides, or no float at all: nothing to do
        if found is None or any(each is None for each in inputs):
            return Declined("not all of its inputs and its output are quantized to 8 bits")
        y, behind = found
        if any(each is None or each.quantization != y.quantization for each in inputs):
            return Declined("its inputs and output have different scales")
        if behind:
            return Declined(
                f"{node.op} and the {behind[0].op} behind it share a scale only "
                "with a tensor between them"
            )
        stored = [each.tensor for each in inputs if each is not None]
        if node.op in CLAMPING:
            low, high = clamp([node], y.quantization)
            bounds = [context.scalar(y.quantization.dtype, value) for value in (low, high)]
            node.op, node.inputs = "Clip", [*stored, *bounds]
        else:
            rest = list(node.inputs[len(stored) :])
            if node.op == "Pad" and node.attrs.get("mode", "constant") == "constant":
                rest = [
                    rest[0],
                    context.scalar(y.quantization.dtype, _fill(node, y)),
                    *rest[2:],
                ]
            node.inputs = [*stored, *rest]
        y.tensor.inputs.clear()
        node.outputs = [y.tensor]
        context.record.nodes[node.name] = NodeRecord(
            [node.name], {"y": [y.quantization.scale]}, "moves stored integers"
        )
        return None


def _fill(node: Node, y: Stored) -> int:
    value = input_at(node, 2)
    real = 0.0 if value is None else float(constant(value).reshape(()))  # type: ignore[union-attr]
    return y.quantization.store(real)
