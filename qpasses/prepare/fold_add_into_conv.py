"""FoldAddIntoConv: a constant per channel added to a convolution is its bias."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpasses.ir.graph import (
    Graph,
    Node,
    constant,
    input_at,
    producer,
    rank,
    sole_consumer,
    write_for,
)
from qpasses.ir.overflow import overflows
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Outcome, Pass, rename_between

CONVOLVING = frozenset({"Conv", "ConvTranspose"})
"""Ops with a bias per output channel."""

_MOVING = frozenset({"Squeeze", "Transpose", "Unsqueeze"})


class FoldAddIntoConv(Pass):
    """Move an added per-channel constant into the bias of the Conv or ConvTranspose before it.

    before: ``c = Conv (x, w, b); y = Add (c, k)`` with k shaped [1, C, 1, 1] or [C, 1, 1]
    after:  ``y = Conv (x, w, b + k)``
    Squeeze, Unsqueeze and Transpose may lie between.
    **Exact** in real arithmetic; the bias is summed in float64.
    """

    op_types: ClassVar = frozenset({"Add"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite where one operand is such a Conv and the other such a constant."""
        for data, other in (node.inputs, node.inputs[::-1]):
            before, given = producer(data), constant(other)
            if before is None or given is None or sole_consumer(graph, data) is not node:
                continue
            conv, added = _source(graph, before, given)
            if conv is None or conv.op not in CONVOLVING or added is None:
                continue
            if _absorb(conv, added, node, context):
                write_for(before, node)
                rename_between(conv, before, context)
                return REWRITTEN
        return NOT_MINE  # an ordinary Add


def _source(
    graph: Graph, node: Node, added: NDArray[Any]
) -> tuple[Node | None, NDArray[Any] | None]:
    """What ``node`` moves the axes of, and ``added`` with the axes that this has."""
    source: Node | None = node
    values: NDArray[Any] | None = added
    while source is not None and source.op in _MOVING and values is not None:
        values, data = _moved_back(source, values), source.inputs[0]
        source = producer(data) if sole_consumer(graph, data) is source else None
    return source, values


def _moved_back(node: Node, values: NDArray[Any]) -> NDArray[Any] | None:
    """``values`` for what ``node`` reads, if they are the same there."""
    dims, axes = rank(node.outputs[0]), constant(input_at(node, 1))
    if dims is None or values.ndim > dims:
        return None
    full = values.reshape((1,) * (dims - values.ndim) + values.shape)
    if node.op == "Transpose":
        return full.transpose(np.argsort(node.attrs.get("perm", range(dims)[::-1])))
    if axes is None:
        return None
    listed = tuple(int(axis) for axis in axes.ravel())
    if node.op == "Squeeze":
        return np.expand_dims(full, listed)
    return full.squeeze(listed) if all(full.shape[axis] == 1 for axis in listed) else None


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
    if overflows(weights.dtype, total):
        return False
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
