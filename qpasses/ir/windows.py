"""Windows of a pool: where they lie, and whether each has as many cells."""

import numpy as np

from qpasses.ir.graph import Node, spatial_shape
from qpasses.ir.rewriting import Declined
from qpasses.ir.unknown_sizes import FREE


def guard_pool(node: Node) -> Declined | None:
    """Why a pool can have no integer form, judged by its attributes and what it reads."""
    if node.attrs.get("auto_pad", "NOTSET") not in ("NOTSET", ""):
        return Declined("AveragePool with auto_pad over a dynamic spatial size")
    x = node.inputs[0]
    if x.shape is None or len(x.shape) < 3 or not isinstance(x.shape[1], int):
        return Declined(f"{node.op} over a number of channels that is not known: {FREE}")
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


def is_global(node: Node) -> bool:
    """Whether the one window of an AveragePool is all that it reads, of a known size."""
    windows = tuple(node.attrs["kernel_shape"]), tuple(reach_of(node))
    is_padded = any(geometry_of(node)["pads"])
    return not is_padded and windows == (spatial_shape(node.inputs[0]),) * 2
