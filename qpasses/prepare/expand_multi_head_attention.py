"""ExpandMultiHeadAttention: fused attention is products and a Softmax again."""

from typing import ClassVar

import numpy as np

from qpasses.ir.graph import Graph, Node, constant, input_at, rank
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.prepare.recognition.attention import (
    TO_HEADS,
    TO_KEYS,
    attend,
    fused_masks,
    join_heads,
    padding_objection,
    scale_of,
    size_of,
    split_heads,
    unhandled,
)
from qpasses.prepare.recognition.expansion import Expansion, are_read, is_fused

_INPUTS = {6: "past_key", 7: "past_value", 9: "cache_indirection"}


class ExpandMultiHeadAttention(Pass):
    """Replace MultiHeadAttention by MatMul, Softmax, and the moves that split heads.

    before: ``y = com.microsoft.MultiHeadAttention <num_heads> (query, key, value, bias,
            keys, mask)``
    after:  query, key and value plus their part of the bias, by Reshape and Transpose of
            [N, heads, L, size];
            ``y`` of ``MatMul (Softmax (MatMul (q, k) * scale + mask), v)``
    **Exact:** it is its definition.
    """

    op_types: ClassVar = frozenset({"MultiHeadAttention"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite where query, key and value are separate rows, and nothing is kept."""
        if not is_fused(node):
            return NOT_MINE
        more = unhandled(node, _INPUTS, ())
        more = more or padding_objection(input_at(node, 4), node.inputs[0])
        if more:
            return Declined(f"MultiHeadAttention with {more}")
        if are_read(graph, node.outputs[1:]):
            return Declined("MultiHeadAttention whose keys, values or scores are read")
        operands, bias = [input_at(node, index) for index in range(3)], input_at(node, 3)
        if any(each is None or rank(each) != 3 for each in operands):
            return Declined("MultiHeadAttention of packed or split query, key and value")
        widths, heads = [size_of(each) for each in operands], int(node.attrs["num_heads"])
        if widths[0] is None or widths[1] != widths[0] or widths[2] is None:
            return Declined("MultiHeadAttention of a width that is not known")
        values = constant(bias)
        if bias is not None and values is None:
            return Declined("MultiHeadAttention with a bias that is not constant")
        made, scale = Expansion(graph, node, context), scale_of(node, widths[0] // heads)
        rows = [made.needed(index) for index in range(3)]
        names = "query", "key", "value"
        if values is not None:
            parts = np.split(values, np.cumsum([width or 0 for width in widths])[:2])
            rows = [
                made.add("Add", f"{name}_biased", [row, made.constant(f"{name}_bias", part)])
                for name, row, part in zip(names, rows, parts, strict=True)
            ]
        orders = TO_HEADS, TO_KEYS, TO_HEADS
        query, keys, found = (
            split_heads(made, name, row, heads, order)
            for name, row, order in zip(names, rows, orders, strict=True)
        )
        masks = fused_masks(node, made, made.given(5), made.given(4))
        join_heads(made, attend(made, query, keys, found, scale, masks))
        return REWRITTEN
