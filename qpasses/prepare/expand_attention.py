"""ExpandAttention: ONNX's Attention is products and a Softmax."""

from math import sqrt
from typing import ClassVar

import numpy as np

from qpasses.ir.graph import Graph, Node, Tensor, input_at, is_float, rank
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.prepare.recognition.attention import (
    TO_HEADS,
    TO_KEYS,
    Mask,
    added,
    attend,
    before,
    join_heads,
    kept,
    repeated,
    size_of,
    split_heads,
    unhandled,
)
from qpasses.prepare.recognition.expansion import MICROSOFT, Expansion, are_read

_INPUTS = {4: "past_key", 5: "past_value", 6: "nonpad_kv_seqlen"}
_WINDOWS = ("left_window_size", "right_window_size")


class ExpandAttention(Pass):
    """Replace Attention of opset 23 by MatMul, Softmax, and the moves that split heads.

    before: ``y = Attention (q, k, v, mask)``, of [N, heads, L, size] or, with the number of
            heads, [N, L, heads * size]; heads may share keys
    after:  ``y`` of ``MatMul (Softmax (MatMul (q, k) * scale + mask), v)``
    **Exact:** it is its definition; the scale multiplies scores, not its root both parts.
    """

    op_types: ClassVar = frozenset({"Attention"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite where each query has keys of its own, and nothing is kept."""
        if node.domain == MICROSOFT or node.outputs[0].dtype != np.float32:
            return NOT_MINE
        mask, more = input_at(node, 3), unhandled(node, _INPUTS, ("softcap",))
        windows = [name for name in _WINDOWS if node.attrs.get(name, -1) >= 0]  # -1: no end
        more = more or next(iter(windows), "")
        if mask is not None and not (is_float(mask) or mask.dtype == np.bool_):
            more = more or "a mask that is neither added nor of booleans"
        if more:
            return Declined(f"Attention of ONNX with {more}")
        if are_read(graph, node.outputs[1:]):
            return Declined("Attention of ONNX whose keys, values or scores are read")
        operands = [node.inputs[index] for index in range(3)]
        counts = [
            _heads(node, *each) for each in zip(operands, ("q", "kv", "kv"), strict=True)
        ]
        width = size_of(operands[0])
        heads, fewer = counts[0] or 0, counts[1] or 1
        if heads % fewer or heads == 0 or counts[1] != counts[2]:
            width = None
        if width is None or len(set(map(rank, operands))) > 1:
            return Declined("Attention of ONNX of sizes that are not known, or do not fit")
        is_split, times = rank(operands[0]) == 4, heads // fewer
        scale = node.attrs.get("scale", 1 / sqrt(width if is_split else width // heads))
        made = Expansion(graph, node, context)
        masks, keep = _masks(made, mask, bool(node.attrs.get("is_causal", 0)))
        query, keys, values = (made.needed(index) for index in range(3))
        if is_split:
            keys = made.add("Transpose", "keys", [keys], perm=[0, 1, 3, 2])
        else:
            query = split_heads(made, "query", query, heads, TO_HEADS)
            keys = split_heads(made, "key", keys, fewer, TO_KEYS)
            values = split_heads(made, "value", values, fewer, TO_HEADS)
        keys = repeated(made, "key", keys, fewer, times)
        values = repeated(made, "value", values, fewer, times)
        y = made.y if is_split else None
        found = attend(made, query, keys, values, scale, masks, y, has_nothing=keep)
        if not is_split:
            join_heads(made, found)
        return REWRITTEN


def _masks(made: Expansion, mask: Tensor | None, is_causal: bool) -> tuple[list[Mask], bool]:
    """What is added to scores, and whether it may leave a row nothing."""
    if mask is None or is_float(mask):
        return added(mask) + ([kept(before, -np.inf)] if is_causal else []), False

    def both(expansion: Expansion, scores: Tensor) -> Tensor:
        causal = before(expansion, scores)
        return expansion.add("And", "keep", [mask, causal], dtype=np.bool_)

    return [kept(both if is_causal else lambda _made, _scores: mask, -np.inf)], True


def _heads(node: Node, tensor: Tensor, which: str) -> int | None:
    """How many heads ``tensor`` has, where that is known."""
    if rank(tensor) == 4:
        return tensor.shape[1] if isinstance(tensor.shape[1], int) else None
    return node.attrs.get(f"{which}_num_heads") if rank(tensor) == 3 else None
