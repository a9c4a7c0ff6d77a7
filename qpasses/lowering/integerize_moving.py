"""IntegerizeMoving: ops that only move values run on the stored integers."""

from typing import ClassVar

import numpy as np

from qpasses.ir.graph import (
    STORE,
    Graph,
    Node,
    Tensor,
    input_at,
    is_float,
    new_tensor,
    sole_consumer,
)
from qpasses.ir.moving import MOVING, moved, moves, results
from qpasses.ir.patterns import (
    Stored,
    data_inputs,
    quantized_by,
    real_value_of,
    stored_input,
    value_of,
)
from qpasses.ir.record import SIGNALS, NodeRecord
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass


class IntegerizeMoving(Pass):
    """Run a moving op on stored integers where all it moves shares scale and zero point.

    before: ``y, z = Split(DQ(x))``, both quantized
    after:  ``y, z = Split(x)``
    **Exact:** dequantization is monotone and one to one; Pad fills with the stored value, and
    constant operands are stored like the others. Codes of 16 bits are moved by the ops that
    onnxruntime has kernels for.
    """

    op_types: ClassVar = frozenset(MOVING) - {STORE}

    def takes(self, node: Node) -> bool:
        """Those that compute nothing, but for what RemoveStores takes away."""
        return moves(node) and node.op != STORE

    def guard(self, graph: Graph, node: Node) -> Declined | None:
        """Finite constants, a constant fill value."""
        if not is_float(node.outputs[0]):
            return None  # shape arithmetic
        values = [real_value_of(tensor) for tensor in moved(node)]
        if not data_inputs(node) and not all(
            np.isfinite(v).all() for v in values if v is not None
        ):
            return Declined(f"{node.op} of a constant that holds infinite values")
        fill = input_at(node, 2)
        if node.op == "Pad" and fill is not None and value_of(fill) is None:
            return Declined("Pad with a fill value that is not constant")
        return None

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Read and write the stored tensors."""
        settings = context.settings
        inputs = [stored_input(tensor, settings, SIGNALS) for tensor in data_inputs(node)]
        used = results(graph, node)
        outputs = [quantized_by(sole_consumer(graph, t), settings, SIGNALS) for t in used]
        found = [each for each in [*inputs, *outputs] if each is not None]
        if not found:
            return NOT_MINE  # float on both sides, or no float at all
        if len(found) < len(inputs) + len(outputs):
            return Declined("not all of its inputs and its output are quantized to 8 bits")
        if len({each.quantization for each in found}) > 1:
            return Declined("its inputs and output have different scales")
        if found[0].quantization.dtype == "int16" and not MOVING[node.op].words:
            return Declined(f"onnxruntime has no {node.op} of 16 bits")
        stored = {
            id(tensor): stored_alike(tensor, f"{node.name}.operand_{index}", found[0], context)
            for index, tensor in enumerate(moved(node))
        }
        node.inputs = [stored.get(id(tensor), tensor) for tensor in node.inputs]
        if node.op == "Pad":
            fill = context.scalar(found[0].quantization.dtype, _fill(node, found[0]))
            node.inputs = [*node.inputs[:2], fill, *node.inputs[3:]]
        ends = {id(t): y.tensor for t, y in zip(used, outputs, strict=True) if y is not None}
        for tensor in ends.values():
            tensor.inputs.clear()
        node.outputs = [
            ends.get(id(tensor), tensor)
            if tensor.name == "" or not is_float(tensor) or id(tensor) in ends
            else new_tensor(tensor.name, tensor, found[0].tensor.dtype)  # nothing reads it
            for tensor in node.outputs
        ]
        scale = found[0].quantization.scale
        context.record.nodes[node.name] = NodeRecord(
            [node.name], {"y": [scale]}, "moves stored integers"
        )
        return REWRITTEN


def stored_alike(tensor: Tensor, name: str, like: Stored, context: Context) -> Tensor:
    """What a moved ``tensor`` is stored as; a constant, as ``name``, ``like`` the others."""
    value = real_value_of(tensor)
    if value is None:
        stored = stored_input(tensor, context.settings, SIGNALS)
        assert stored is not None, tensor.name
        return stored.tensor
    meaning = like.quantization
    made = context.constant(name, meaning.store_all(value))
    context.record.tensors[made.name] = meaning
    if meaning in context.given.scales.values():
        context.record.kept.append(made.name)
    return made


def _fill(node: Node, y: Stored) -> int:
    value = real_value_of(input_at(node, 2))
    return y.quantization.store(0.0 if value is None else float(value.reshape(())))
