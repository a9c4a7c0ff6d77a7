"""ExpandPackedAttention: onnxruntime's Attention, its three products packed into one."""

from typing import ClassVar

import numpy as np

from qpasses.ir.graph import Graph, Node, constant, input_at
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.prepare.recognition.attention import (
    TO_HEADS,
    TO_KEYS,
    attend,
    fused_masks,
    join_heads,
    padding_objection,
    scale_of,
    split_heads,
    unhandled,
)
from qpasses.prepare.recognition.expansion import Expansion, are_read, is_fused

_INPUTS = {4: "past"}


class ExpandPackedAttention(Pass):
    """Replace Attention of onnxruntime by MatMul, Softmax, and the moves that split heads.

    before: ``y = com.microsoft.Attention <num_heads> (x, weights, bias, keys, , mask)``
    after:  query, key and value by a MatMul and Add each, with their columns of the weights;
            ``y`` of ``MatMul (Softmax (MatMul (q, k) * scale + mask), v)``
    **Exact:** it is its definition.
    """

    op_types: ClassVar = frozenset({"Attention"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite where weights and bias are constant, and nothing is kept."""
        if not is_fused(node):
            return NOT_MINE
        more = unhandled(node, _INPUTS, ("do_rotary",))
        more = more or padding_objection(input_at(node, 3), node.inputs[0])
        if more:
            return Declined(f"Attention with {more}")
        if are_read(graph, node.outputs[1:]):
            return Declined("Attention whose keys and values are read")
        weights, bias = (constant(input_at(node, index)) for index in (1, 2))
        if weights is None or (bias is None and input_at(node, 2) is not None):
            return Declined("Attention with weights or a bias that are not constant")
        heads, third = int(node.attrs["num_heads"]), weights.shape[1] // 3
        sizes = node.attrs.get("qkv_hidden_sizes") or [third, third, third]
        ends = np.cumsum(sizes)[:2]
        made, scale = Expansion(graph, node, context), scale_of(node, sizes[0] // heads)
        biases = [None] * 3 if bias is None else np.split(bias, ends)
        names, orders = ("query", "key", "value"), (TO_HEADS, TO_KEYS, TO_HEADS)
        split = []
        for name, columns, row, order in zip(
            names, np.split(weights, ends, axis=1), biases, orders, strict=True
        ):
            matrix = made.constant(f"{name}_weights", columns)
            product = made.add("MatMul", name, [made.needed(0), matrix])
            if row is not None:
                added = made.constant(f"{name}_bias", row)
                product = made.add("Add", f"{name}_biased", [product, added])
            split.append(split_heads(made, name, product, heads, order))
        query, keys, values = split
        masks = fused_masks(node, made, made.given(5), made.given(3))
        join_heads(made, attend(made, query, keys, values, scale, masks))
        return REWRITTEN
