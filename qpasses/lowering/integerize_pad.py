"""IntegerizePad: codes around others, where codes have 16 bits."""

from typing import ClassVar

import numpy as np

from qpasses.ir.graph import Graph, Node, constant, input_at, rank, sole_consumer
from qpasses.ir.moving import moves_words
from qpasses.ir.patterns import quantized_by, real_value_of, stored_input
from qpasses.ir.record import WORDS, NodeRecord
from qpasses.ir.rewriting import NOT_MINE, Context, Declined, Outcome, Pass
from qpasses.lowering.put_integer_node import put_integer_node, scales, sources


class IntegerizePad(Pass):
    """Replace a Pad of 16 bits, which onnxruntime has no kernel for, by an integer one.

    before: ``y = Q(Pad <mode> (DQ(x), pads, fill))``, of one scale
    after:  ``y = qpasses.IntPad <mode, pads> (x, fill)``, the fill value stored like x
    **Exact:** dequantization is one to one, what is filled with is stored as in Q/DQ.
    """

    op_types: ClassVar = frozenset({"Pad"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Put IntPad in place."""
        x = stored_input(node.inputs[0], context.settings, WORDS)
        y = quantized_by(sole_consumer(graph, node.outputs[0]), context.settings, WORDS)
        if x is None or y is None or x.quantization != y.quantization:
            return NOT_MINE  # of 8 bits, or nothing that only moves
        if not moves_words(node):
            return Declined(
                "Pad of 16 bits that takes codes away, or whose pads, mode or rank is none "
                "that IntPad has"
            )
        fill = fill_of(node)
        if fill is None:
            return NOT_MINE  # IntegerizeMoving says so
        code = context.scalar("int16", y.quantization.store(fill))
        attributes = {"pads": pads_of(node), "mode": node.attrs.get("mode", "constant")}
        record = NodeRecord(sources(node), scales(x=x, y=y))
        inputs = [x.tensor, code]
        return put_integer_node(
            graph, "IntPad", node.name, inputs, y.tensor, attributes, record, context
        )


def fill_of(node: Node) -> float | None:
    """What a Pad fills with, zero where it does not say; None if that varies."""
    fill = input_at(node, 2)
    value = real_value_of(fill)
    if fill is not None and value is None:
        return None
    return 0.0 if value is None else float(value.reshape(()))


def pads_of(node: Node) -> list[int]:
    """How much is added before each axis of a Pad, then behind: also where it lists some."""
    dims = rank(node.inputs[0]) or 0
    pads, axes = constant(node.inputs[1]), constant(input_at(node, 3))
    assert pads is not None, node.name
    if axes is None:
        return [int(each) for each in pads]
    found = np.zeros((2, dims), np.int64)
    found[:, axes % dims] = pads.reshape(2, -1)
    return [int(each) for each in found.reshape(-1)]
