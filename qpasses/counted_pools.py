"""Windows of an AveragePool: where they lie, and IntCountedAveragePool where they differ."""

from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from opsets.fixed_point import scale_to_multiplier
from opsets.multipliers import ScaleError
from opsets.realised import node_rounding
from qpasses.averages import Numbers, follows_shape, pool_numbers, put_average
from qpasses.evidence.reductions import sums
from qpasses.graph import Graph, Node, spatial_shape
from qpasses.passes.base import Context, Declined
from qpasses.patterns import Stored

LARGEST_DIVISOR = 1 << 62
"""cells * 2**shift, and twice a remainder of it, fit int64."""


def put_counted(
    graph: Graph, node: Node, x: Stored, found: tuple[Stored, list[Node]], context: Context
) -> Declined | None:
    """IntCountedAveragePool in place of ``node``, an AveragePool."""
    target, ends = context.target, (x.quantization, found[0].quantization)
    if not follows_shape(target):
        return Declined(
            f"AveragePool whose windows differ in size: target {target.name!r} has another "
            "multiplier for each"
        )
    attributes, cells = _attributes(node), prod(node.attrs["kernel_shape"])
    reachable = sums(cells, ends[0].zero_point, ends[0].dtype)
    if target.average_pool == "divided":
        if attributes["pads"] != attributes["uncounted_pads"]:
            return Declined(
                f"AveragePool whose padding counts: target {target.name!r} "
                "divides by cells alone"
            )
        try:
            numbers = pool_numbers(*ends, cells, reachable, target)
        except ScaleError as error:
            return Declined(f"AveragePool: {error}")
    else:
        ratio = Fraction(ends[0].scale) / Fraction(ends[1].scale)
        pair = scale_to_multiplier(ratio, target.multiplier_bits)
        numbers = Numbers(*pair, node_rounding(target))
    if not reachable.fits_int32() or (cells << numbers.shift) >= LARGEST_DIVISOR:
        return Declined("AveragePool of so many cells that an integer could overflow")
    op = "IntCountedAveragePool"
    put_average(graph, node, op, (x, found), numbers, attributes, 1, context)
    return None


def _attributes(node: Node) -> dict[str, Any]:
    """Where windows lie, and the padding that does not count: ceil_mode's never does."""
    geometry, pads = geometry_of(node), all_pads(node)
    counted = geometry["pads"] if node.attrs.get("count_include_pad", 0) else [0] * len(pads)
    return {
        "channels": node.inputs[0].shape[1],
        "kernel_shape": list(node.attrs["kernel_shape"]),
        **geometry,
        "pads": pads,
        "uncounted_pads": np.subtract(pads, counted).tolist(),
    }


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
