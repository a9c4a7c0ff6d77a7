"""FoldAddIntoConv: a constant per channel added to a convolution is its bias."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpasses.graph import (
    Graph,
    Node,
    constant,
    input_at,
    producer,
    sole_consumer,
    write_for,
)
from qpasses.passes.base import Context, Declined, Pass

CONVOLVING = frozenset({"Conv", "ConvTranspose"})
"""Ops with a bias per output channel."""


class FoldAddIntoConv(Pass):
    """Move an added per-channel constant into the bias of the Conv or ConvTranspose before it.

    before: ``c = Conv (x, w, b); y = Add (c, k)`` with k shaped [1, C, 1, 1] or [C, 1, 1]
    after:  ``y = Conv (x, w, b + k)``
    **Exact** in real arithmetic; the bias is summed in float64.
    """

    op_types: ClassVar = frozenset({"Add"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Declined | None:
        """Rewrite where one operand is such a Conv and the other such a constant."""
        for data, other in (node.inputs, node.inputs[::-1]):
            conv, added = producer(data), constant(other)
            if conv is None or conv.op not in CONVOLVING or added is None:
                continue
            alone = sole_consumer(graph, data) is node
            if alone and _absorb(conv, added, node, context):
                write_for(conv, node)
                return None
        return None  # an ordinary Add


def _absorb(conv: Node, added: NDArray[Any], node: Node, context: Context) -> bool:
    """Add to the bias of ``conv`` if that is the same; whether it was."""
    weights, bias = constant(conv.inputs[1]), input_at(conv, 2)
    start = np.zeros(1) if bias is None else constant(bias)
    if weights is None or start is None:
        return False
    by_group = conv.op == "ConvTranspose"
    channels = weights.shape[1] * conv.attrs.get("group", 1) if by_group else len(weights)
    if not _is_per_channel(added.shape, channels, weights.ndim):
        return False
    total = np.broadcast_to(added.reshape(-1), (channels,)).astype(np.float64) + start
    folded = context.constant(
        f"{conv.name}.bias_with_{node.name}", total.astype(weights.dtype)
    )
    conv.inputs = [*conv.inputs[:2], folded]
    return True


def _is_per_channel(shape: tuple[int, ...], channels: int, rank: int) -> bool:
    if len(shape) > rank:
        return False
    full = (1,) * (rank - len(shape)) + shape
    return full[1] in (1, channels) and all(n == 1 for i, n in enumerate(full) if i != 1)
