"""IntegerizeAveragePool: averages over windows of one size become sums with a multiplier."""

from math import prod
from typing import Any, ClassVar

import numpy as np

from qpasses.evidence.thresholds import Interval
from qpasses.graph import Graph, Node, spatial_shape
from qpasses.passes.base import Context, Declined, Pass
from qpasses.patterns import stored_input, stored_output
from qpasses.reduction import put_reduction
from qpasses.requantized import Accumulation, Site, emit_requantized


class IntegerizeAveragePool(Pass):
    """Replace a quantized AveragePool or GlobalAveragePool by an integer sum.

    Over a size that is known at run time only it is IntReduce.

    before: ``y = Q(AveragePool(DQ(x)))``
    after:  ``y = qpasses.IntAveragePool(x, x_zero, multiplier, shift, y_zero, y_min, y_max)``
    **Exact** up to the multiplier, which holds x_scale / (y_scale * cells).
    """

    op_types: ClassVar = frozenset({"AveragePool", "GlobalAveragePool"})

    def guard(self, graph: Graph, node: Node) -> Declined | None:
        """Known channels, and the same number of cells under every window."""
        x = node.inputs[0]
        if x.shape is None or len(x.shape) < 3 or not isinstance(x.shape[1], int):
            return Declined(f"{node.op} over an unknown number of channels")
        return None if node.op == "GlobalAveragePool" else _guard_windows(node)

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Declined | None:
        """Put IntAveragePool or IntGlobalAveragePool in place."""
        settings = context.settings
        x = stored_input(node.inputs[0], settings)
        found = stored_output(graph, node, settings)
        if x is None or found is None:
            return Declined("input or output is not quantized per tensor to 8 bits")
        spatial = spatial_shape(node.inputs[0])
        if node.op == "GlobalAveragePool" and spatial is None:
            axes = list(range(2 - len(node.inputs[0].shape), 0))
            return put_reduction(graph, node, x, found, axes, 1, context)
        attributes: dict[str, Any] = {"channels": node.inputs[0].shape[1]}
        if node.op == "GlobalAveragePool":
            op, cells = "IntGlobalAveragePool", prod(spatial or ())
            attributes["spatial_shape"] = list(spatial or ())
        else:
            op, kernel = "IntAveragePool", list(node.attrs["kernel_shape"])
            cells = prod(kernel)
            attributes |= {"kernel_shape": kernel, **_geometry(node)}
        zero_point = x.quantization.zero_point
        low, high = ((limit - zero_point) * cells for limit in x.quantization.type_limits)
        reachable = Interval(np.array([low], np.int64), np.array([high], np.int64))
        inputs = [x.tensor, context.scalar(x.quantization.dtype, zero_point)]
        acc = Accumulation(reachable, {"x": [x.quantization.scale]}, cells)
        return emit_requantized(
            graph, Site(node, *found), op, inputs, attributes, acc, context
        )


def _geometry(node: Node) -> dict[str, list[int]]:
    dims = len(node.attrs["kernel_shape"])
    return {
        "dilations": list(node.attrs.get("dilations") or [1] * dims),
        "pads": list(node.attrs.get("pads") or [0] * (2 * dims)),
        "strides": list(node.attrs.get("strides") or [1] * dims),
    }


def _guard_windows(node: Node) -> Declined | None:
    if node.attrs.get("auto_pad", "NOTSET") not in ("NOTSET", ""):
        return Declined("AveragePool with auto_pad over a dynamic spatial size")
    geometry = _geometry(node)
    if any(geometry["pads"]) and not node.attrs.get("count_include_pad", 0):
        return Declined(
            "AveragePool whose windows differ in size (padding is not counted): no "
            "integer form yet"
        )
    if not node.attrs.get("ceil_mode", 0):
        return None
    spatial = spatial_shape(node.inputs[0])
    if spatial is None:
        return Declined("AveragePool with ceil_mode over a dynamic spatial size")
    dims = len(spatial)
    for i, size in enumerate(spatial):
        padded = size + geometry["pads"][i] + geometry["pads"][i + dims]
        reach = (node.attrs["kernel_shape"][i] - 1) * geometry["dilations"][i] + 1
        if (padded - reach) % geometry["strides"][i]:
            return Declined(
                "AveragePool whose last windows are cut off by ceil_mode: no integer form yet"
            )
    return None
