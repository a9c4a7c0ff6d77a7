"""What the passes share that turn an accumulator into stored integers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64
from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from qpasses.evidence.multipliers import Choice, choose_multipliers
from qpasses.evidence.thresholds import Interval, levels
from qpasses.graph import Graph, Node, Tensor, add_node, new_constant
from qpasses.passes.base import Context, Declined
from qpasses.patterns import Stored, clamp
from qpasses.record import NodeRecord, Quantization


def accumulators(
    weights: NDArray[Any], bias: NDArray[Any], axis: int, x: Quantization
) -> Interval:
    """What sum((x - x_zero) * w) + bias can reach per channel, for any stored x.

    ``weights`` are stored, the output channels along ``axis``; padding is zero and inside.
    """
    columns = np.moveaxis(weights, axis, 0).reshape(weights.shape[axis], -1).astype(np.int64)
    low, high = (limit - x.zero_point for limit in x.limits)
    positive, negative = np.maximum(columns, 0).sum(axis=1), np.minimum(columns, 0).sum(axis=1)
    offset = bias.astype(np.int64)
    return Interval(positive * low + negative * high + offset,
                    positive * high + negative * low + offset)


def emit_requantized(
    graph: Graph,
    node: Node,
    op: str,
    inputs: Sequence[Tensor],
    attributes: dict[str, Any],
    x: Stored,
    y: Stored,
    absorbed: Sequence[Node],
    scales: dict[str, list[float]],
    reachable: Interval,
    context: Context,
    cells: int = 1,
) -> Declined | None:
    """Replace ``node`` and what it absorbs by ``op``: ``inputs``, multiplier, shift, output.

    Declines if an accumulator could leave int32.
    """
    if not reachable.fits_int32():
        return Declined(f"{node.op} could overflow its int32 accumulator: "
                        f"[{reachable.low.min()}, {reachable.high.max()}]")
    low, high = clamp(absorbed, y.quantization)
    ends = [context.scalar(y.quantization.dtype, value)
            for value in (y.quantization.zero_point, low, high)]
    clamps = {"y_min": np.asarray(ends[1].values), "y_max": np.asarray(ends[2].values)}
    attributes = {**attributes, "rounding": context.target.rounding}
    fast = OPS[op].body("onnxruntime", clamps, attributes)
    record = NodeRecord(
        source=[node.name, *(each.name for each in absorbed)],
        rule="",
        overload="",
        scales={**scales, "x": [x.quantization.scale], "y": [y.quantization.scale]},
        cells=cells,
        macs=context.record.macs.get(node.name, 0),
    )
    steps = levels(y.quantization.zero_point, low, high)
    assert fast.kernel is not None, op
    choice = choose_multipliers(record.real_scales(), steps, reachable, fast.kernel,
                                context.target)
    exact = bool(choice.exact.all())
    flavour = context.flavour if exact else "portable"
    body = OPS[op].body(flavour, clamps, attributes)
    node_record = NodeRecord(
        record.source, _rule(choice, context), body.overload, record.scales, cells, record.macs
    )
    context.record.nodes[node.name] = node_record
    constants = [
        new_constant(f"{node.name}.multiplier", choice.multiplier.astype(np.int32)),
        new_constant(f"{node.name}.shift", choice.shift.astype(np.int32)),
    ]
    add_node(graph, op, node.name, [*inputs, *constants, *ends], [y.tensor],
             attributes=attributes, domain=DOMAIN)
    return None


def _rule(choice: Choice, context: Context) -> str:
    form = f"{context.target.multiplier_bits}-bit, {context.target.rounding}"
    inexact = int((~choice.exact).sum())
    if inexact:
        return f"{form}: nearest; the kernel is not exact in {inexact} channels"
    return f"{form}: nearest the kernel computes exactly, within {choice.farthest} ulp"


def zeros(channels: int) -> Int64:
    """No bias."""
    return np.zeros(channels, np.int64)
