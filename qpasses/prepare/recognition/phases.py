"""Phases: the geometry by which a transposed convolution is a Conv of stride 1."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qpasses.ir.graph import Node, spatial_shape


@dataclass(frozen=True)
class Axis:
    """One spatial axis: the taps of each phase, [stride, taps of the Conv], and its geometry.

    Taps are places in the kernel; the one behind its end stands for zero. ``crop``: how many
    outputs at both ends are not wanted.
    """

    taps: NDArray[np.int64]
    dilation: int
    pads: tuple[int, int]
    crop: tuple[int, int]

    @property
    def stride(self) -> int:
        """How many phases there are."""
        return len(self.taps)


def axes_of(node: Node, kernel: Sequence[int]) -> list[Axis] | None:
    """Each spatial axis, or None where it depends on a size that is not known.

    ONNX's sizes: stride * (size - 1) + output_padding + reach - pads; auto_pad and
    output_shape say the size, and pads follow. As in onnxruntime these are never negative.
    """
    dims = len(kernel)
    strides, dilations, added = (
        node.attrs.get(name) or [default] * dims
        for name, default in (("strides", 1), ("dilations", 1), ("output_padding", 0))
    )
    mode, wanted = node.attrs.get("auto_pad", "NOTSET"), node.attrs.get("output_shape")
    pads = (mode != "VALID" and node.attrs.get("pads")) or [0] * (2 * dims)
    sizes = spatial_shape(node.inputs[0])
    if wanted and sizes is None:
        return None
    found = []
    for i, (k, s, d) in enumerate(zip(kernel, strides, dilations, strict=True)):
        whole = (k - 1) * d + 1 + added[i]
        begin, length = pads[i], whole - pads[i] - pads[i + dims]
        if wanted or mode.startswith("SAME"):
            length = wanted[i - dims] - s * (sizes[i] - 1) if wanted and sizes else s
            total = max(whole - length, 0)
            begin = total // 2 if mode == "SAME_UPPER" else total - total // 2
            length = length if wanted else whole - total
        found.append(axis_of(k, s, d, begin, length))
    return found


def axis_of(kernel: int, stride: int, dilation: int, begin: int, length: int) -> Axis:
    """The axis with the fewest taps, then with the smallest crop.

    Of ``size`` inputs it makes stride * (size - 1) + ``length`` outputs; ``begin`` outputs
    before them are padding. Output stride * q + phase, counted from ``crop`` outputs before
    the first one, reads input q - j by tap phase + begin - crop + stride * j, for j from
    ``first`` to ``last``.
    """
    reach = (kernel - 1) * dilation + 1

    def ends(crop: int) -> tuple[int, int]:
        offset = begin - crop
        return -((stride - 1 + offset) // stride), (reach - 1 - offset) // stride

    def cost(crop: int) -> tuple[int, int]:
        first, last = ends(crop)
        return last - first, crop

    before = [crop for crop in range(max(stride, begin + 1)) if begin - crop < reach]
    crop = min(before, key=cost)
    first, last = ends(crop)
    step = dilation if stride == 1 else 1
    places = np.arange(last, first - 1, -step) * stride + np.arange(stride)[:, None]
    places += begin - crop
    is_tap = (places >= 0) & (places < reach) & (places % dilation == 0)
    behind = -(-(length + crop) // stride) - 1 - first
    unwanted = -(length + crop) % stride + stride * max(-behind, 0)
    taps = np.where(is_tap, places // dilation, kernel)
    return Axis(taps, step, (last, max(behind, 0)), (crop, unwanted))
