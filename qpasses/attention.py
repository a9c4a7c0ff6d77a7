"""Attention in standard ops: products, a Softmax, and the moves that split heads."""

from collections.abc import Mapping, Sequence
from math import sqrt

import numpy as np

from qpasses.expansion import Expansion
from qpasses.graph import Node, Tensor, input_at, rank

TO_HEADS, TO_KEYS = [0, 2, 1, 3], [0, 2, 3, 1]
"""From [N, L, heads, size]: to one matrix for each head, and to its transpose."""


def size_of(tensor: Tensor | None) -> int | None:
    """The size of the last axis, where it is known."""
    if tensor is None or not rank(tensor):
        return None
    size = tensor.shape[-1]
    return size if isinstance(size, int) else None


def scale_of(node: Node, size: int) -> float:
    """What multiplies scores: as the node says, or 1 / sqrt of the ``size`` of a head."""
    return float(node.attrs.get("scale", 0)) or 1 / sqrt(size)


def split_heads(
    made: Expansion, what: str, tensor: Tensor, heads: int, order: Sequence[int]
) -> Tensor:
    """[N, L, heads * size] as [N, heads, L, size], or in another ``order``."""
    sizes = made.constant(f"{what}_sizes", np.array([0, 0, heads, -1]))
    split = made.add("Reshape", f"{what}_split", [tensor, sizes])
    return made.add("Transpose", f"{what}_heads", [split], perm=list(order))


def attend(
    made: Expansion,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    scale: float,
    mask: Tensor | None,
    y: Tensor | None = None,
) -> Tensor:
    """Of each head [N, heads, L, size]: softmax(query keys * scale + mask) values.

    ``keys`` are transposed already.
    """
    scores = made.add("MatMul", "scores", [query, keys])
    scaled = made.add("Mul", "scaled", [scores, made.number("scale", scale)])
    if mask is not None:
        scaled = made.add("Add", "masked", [scaled, mask])
    shares = made.add("Softmax", "shares", [scaled], axis=-1)
    return made.add("MatMul", "attended", [shares, values], y)


def join_heads(made: Expansion, tensor: Tensor) -> None:
    """[N, heads, L, size] as [N, L, heads * size], which is the result."""
    joined = made.add("Transpose", "joined", [tensor], perm=TO_HEADS)
    sizes = made.constant("sizes", np.array([0, 0, -1]))
    made.add("Reshape", "merged", [joined, sizes], made.y)


def unhandled(node: Node, inputs: Mapping[int, str], flags: Sequence[str]) -> str:
    """What makes ``node`` more than attention with an additive mask: an input or a flag."""
    found = [name for index, name in inputs.items() if input_at(node, index) is not None]
    found += [flag for flag in flags if node.attrs.get(flag, 0)]
    return next(iter(found), "")
