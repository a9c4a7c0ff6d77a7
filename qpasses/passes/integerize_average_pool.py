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

    def takes(self, node: Node) -> bool:
        """Those with the same number of cells under every window."""
        return node.op in self.op_types and (
            node.op == "GlobalAveragePool" or has_equal_windows(node)
        )

    def guard(self, graph: Graph, node: Node) -> Declined | None:
        """Pads that are written out, and a known number of channels."""
        return guard_pool(node)

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
            attributes |= {"kernel_shape": kernel, **geometry_of(node)}
        zero_point = x.quantization.zero_point
        low, high = ((limit - zero_point) * cells for limit in x.quantization.type_limits)
        reachable = Interval(np.array([low], np.int64), np.array([high], np.int64))
        inputs = [x.tensor, context.scalar(x.quantization.dtype, zero_point)]
        acc = Accumulation(reachable, {"x": [x.quantization.scale]}, cells)
        return emit_requantized(
            graph, Site(node, *found), op, inputs, attributes, acc, context
        )


def guard_pool(node: Node) -> Declined | None:
    """Why a pool can have no integer form, judged by its attributes and what it reads."""
    if node.attrs.get("auto_pad", "NOTSET") not in ("NOTSET", ""):
        return Declined("AveragePool with auto_pad over a dynamic spatial size")
    x = node.inputs[0]
    if x.shape is None or len(x.shape) < 3 or not isinstance(x.shape[1], int):
        return Declined(f"{node.op} over an unknown number of channels")
    spatial = spatial_shape(x)
    if node.op == "AveragePool" and spatial is not None:
        padded = spatial + np.reshape(all_pads(node), (2, -1)).sum(axis=0)
        if (padded < reach_of(node)).any():  # onnxruntime 1.31 makes one output all the same
            return Declined("AveragePool whose window is larger than what it reads")
    return None


def all_pads(node: Node) -> list[int]:
    """The padding of an AveragePool, with what ceil_mode adds behind.

    That goes on for as long as a window can begin before it: by stride - 1 cells, but to less
    than the window reaches.
    """
    geometry = geometry_of(node)
    if not node.attrs.get("ceil_mode", 0):
        return geometry["pads"]
    reach = reach_of(node)
    behind = geometry["pads"][len(reach) :]
    steps = zip(behind, geometry["strides"], reach, strict=True)
    ends = [min(end + stride - 1, size - 1) for end, stride, size in steps]
    return [*geometry["pads"][: len(reach)], *ends]


def geometry_of(node: Node) -> dict[str, list[int]]:
    """Dilations, pads and strides as they are stated, written out."""
    dims = len(node.attrs["kernel_shape"])
    return {
        "dilations": list(node.attrs.get("dilations") or [1] * dims),
        "pads": list(node.attrs.get("pads") or [0] * (2 * dims)),
        "strides": list(node.attrs.get("strides") or [1] * dims),
    }


def reach_of(node: Node) -> list[int]:
    """How far the window goes along each axis, in cells."""
    pairs = zip(node.attrs["kernel_shape"], geometry_of(node)["dilations"], strict=True)
    return [(size - 1) * dilation + 1 for size, dilation in pairs]


def has_equal_windows(node: Node) -> bool:
    """Whether each window of an AveragePool has as many cells, as far as sizes are known."""
    geometry = geometry_of(node)
    if any(geometry["pads"]) and not node.attrs.get("count_include_pad", 0):
        return False
    if not node.attrs.get("ceil_mode", 0):
        return True
    spatial = spatial_shape(node.inputs[0])
    if spatial is None:
        return False
    begin, end = np.reshape(geometry["pads"], (2, -1))
    return not ((spatial + begin + end - reach_of(node)) % geometry["strides"]).any()
