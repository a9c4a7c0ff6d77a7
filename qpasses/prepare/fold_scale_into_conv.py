"""FoldScaleIntoConv: a constant per channel that a convolution is multiplied with."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpasses.ir.graph import Graph, Node, constant, producer, rank, write_for
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Outcome, Pass
from qpasses.prepare.fold_add_into_conv import CONVOLVING
from qpasses.prepare.fold_batch_normalization import can_absorb, scale_outputs


class FoldScaleIntoConv(Pass):
    """Move a constant factor per channel into the Conv or ConvTranspose before it.

    before: ``c = Conv (x, w, b); y = Div (c, k)`` with k shaped [1, C, 1, 1] or [C, 1, 1]
    after:  ``y = Conv (x, w / k, b / k)``
    PyTorch writes so what BatchNormalization scales while it is trained quantization-aware.
    **Exact** in real arithmetic; the factor is computed in float64.
    """

    op_types: ClassVar = frozenset({"Div", "Mul"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite where one operand is such a node and the other such a constant."""
        for place, data in enumerate(node.inputs[:2]):
            before, values = producer(data), constant(node.inputs[1 - place])
            if before is None or values is None or before.op not in CONVOLVING:
                continue
            if node.op == "Div" and place:
                continue
            channels = _channels(before)
            factor = _factor(values, rank(data), channels, node.op)
            if factor is None or not can_absorb(graph, before, node, channels):
                continue
            if not scale_outputs(before, factor, np.zeros(channels), context):
                continue
            write_for(before, node)
            return REWRITTEN
        return NOT_MINE  # an ordinary product


def _channels(conv: Node) -> int:
    """How many channels it writes; 0 where its weights vary."""
    shape = conv.inputs[1].shape
    if constant(conv.inputs[1]) is None:
        return 0
    return int(shape[0] if conv.op == "Conv" else shape[1] * conv.attrs.get("group", 1))


def _factor(
    values: NDArray[Any], dims: int | None, channels: int, op: str
) -> NDArray[np.float64] | None:
    """By what each channel is multiplied, if it is a finite number other than zero."""
    if dims is None or values.ndim > dims or not channels:
        return None
    full = values.reshape((1,) * (dims - values.ndim) + values.shape).astype(np.float64)
    if full.size not in (1, channels) or full.shape[1] != full.size:
        return None
    with np.errstate(divide="ignore"):
        factor = np.broadcast_to(full.reshape(-1), (channels,))
        factor = 1 / factor if op == "Div" else factor
    sound = np.isfinite(factor).all() and bool(factor.all())
    return factor if sound else None
