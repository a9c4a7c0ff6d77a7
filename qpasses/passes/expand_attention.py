"""ExpandAttention: ONNX's Attention is products and a Softmax."""

from math import sqrt
from typing import ClassVar

import numpy as np

from qpasses.attention import (
    TO_HEADS,
    TO_KEYS,
    attend,
    join_heads,
    size_of,
    split_heads,
    unhandled,
)
from qpasses.expansion import MICROSOFT, Expansion, are_read
from qpasses.graph import Graph, Node, Tensor, input_at, is_float, rank
from qpasses.passes.base import Context, Declined, Pass

_INPUTS = {4: "past_key", 5: "past_value", 6: "nonpad_kv_seqlen"}


class ExpandAttention(Pass):
    """Replace Attention of opset 23 by MatMul, Softmax, and the moves that split heads.

    before: ``y = Attention (q, k, v, mask)``, of [N, heads, L, size] or, with the number of
            heads, [N, L, heads * size]
    after:  ``y`` of ``MatMul (Softmax (MatMul (q, k) * scale + mask), v)``
    **Exact:** it is its definition; the scale multiplies scores, not its root both parts.
    """

    op_types: ClassVar = frozenset({"Attention"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Declined | None:
        """Rewrite where each query has keys of its own, and nothing is kept."""
        if node.domain == MICROSOFT or node.outputs[0].dtype != np.float32:
            return None
        more = unhandled(node, _INPUTS, ("is_causal", "softcap"))
        if more:
            return Declined(f"Attention of ONNX with {more}")
        if are_read(graph, node.outputs[1:]):
            return Declined("Attention of ONNX whose keys, values or scores are read")
        mask = input_at(node, 3)
        if mask is not None and not is_float(mask):
            return Declined("Attention of ONNX with a mask that is not added")
        operands = [node.inputs[index] for index in range(3)]
        counts = [
            _heads(node, *each) for each in zip(operands, ("q", "kv", "kv"), strict=True)
        ]
        width = size_of(operands[0])
        if None in counts or width is None or len(set(map(rank, operands))) > 1:
            return Declined("Attention of ONNX of sizes that are not known")
        if len(set(counts)) > 1:
            return Declined("Attention of ONNX with fewer heads of keys than of queries")
        heads, is_split = counts[0] or 1, rank(operands[0]) == 4
        scale = node.attrs.get("scale", 1 / sqrt(width if is_split else width // heads))
        made = Expansion(graph, node, context)
        query, keys, values = (made.needed(index) for index in range(3))
        if is_split:
            keys = made.add("Transpose", "keys", [keys], perm=[0, 1, 3, 2])
            attend(made, query, keys, values, scale, mask, made.y)
            return None
        query, keys, values = (
            split_heads(made, name, tensor, heads, order)
            for name, tensor, order in (
                ("query", query, TO_HEADS),
                ("key", keys, TO_KEYS),
                ("value", values, TO_HEADS),
            )
        )
        join_heads(made, attend(made, query, keys, values, scale, mask))
        return None


def _heads(node: Node, tensor: Tensor, which: str) -> int | None:
    """How many heads ``tensor`` has, where that is known."""
    if rank(tensor) == 4:
        return tensor.shape[1] if isinstance(tensor.shape[1], int) else None
    return node.attrs.get(f"{which}_num_heads") if rank(tensor) == 3 else None
