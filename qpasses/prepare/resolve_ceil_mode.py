"""ResolveCeilMode: write the padding that ceil_mode of a pool stands for."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qpasses.ir.graph import Graph, Node, add_node, new_tensor, spatial_shape
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.ir.windows import geometry_of, reach_of


class ResolveCeilMode(Pass):
    """Replace ceil_mode by padding behind the end where the spatial size is known.

    before: ``y = MaxPool <ceil_mode = 1, kernel_shape = [2], strides = [2]> (x)``, 5 cells
    after:  ``y = MaxPool <kernel_shape = [2], strides = [2], pads = [0, 1]> (x)``
    **Exact:** the same windows; padding is never the largest, nor does what ceil_mode adds
    count for a mean. Below opset 22 ONNX counts one more where the last would start in the
    padding, and onnxruntime plans memory by that: where ceil_mode stays along another axis,
    a Slice leaves off what no window reaches.
    """

    op_types: ClassVar = frozenset({"AveragePool", "MaxPool"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Set pads and drop ceil_mode."""
        if not node.attrs.get("ceil_mode"):
            return NOT_MINE
        shape = spatial_shape(node.inputs[0])
        if shape is None or node.attrs.get("auto_pad", "NOTSET") not in ("NOTSET", ""):
            return Declined("ceil_mode stays: the spatial size is not fixed")
        geometry, dims = geometry_of(node), len(shape)
        begin, end = geometry["pads"][:dims], geometry["pads"][dims:]
        sizes = zip(shape, begin, end, reach_of(node), geometry["strides"], strict=True)
        axes = [_Axis(*each) for each in sizes]
        if any(axis.stated < 1 for axis in axes):
            return Declined("ceil_mode stays: the window is larger than what it reads")
        counts = any(geometry["pads"]) and node.attrs.get("count_include_pad", 0)
        reason = _why_it_stays(axes, node.attrs["kernel_shape"], bool(counts))
        if not reason:
            del node.attrs["ceil_mode"]
            node.attrs["pads"] = [*begin, *(max(axis.behind, 0) for axis in axes)]
            if not counts:
                node.attrs.pop("count_include_pad", None)
        elif any(axis.is_trap for axis in axes):
            ends = [max(axis.behind, 0) if axis.is_trap else axis.end for axis in axes]
            node.attrs["pads"] = [*begin, *ends]
            _crop(graph, node, axes, context)
        else:
            return Declined(reason)
        return REWRITTEN


@dataclass(frozen=True)
class _Axis:
    """The windows along one axis; sizes in cells."""

    size: int
    begin: int
    end: int
    reach: int
    stride: int

    @property
    def stated(self) -> int:
        """How many windows ONNX's rule has below opset 22."""
        return -((self.reach - self.size - self.begin - self.end) // self.stride) + 1

    @property
    def _last(self) -> int:
        """Where the last window starts: in no padding behind the end."""
        start = (self.size + self.begin - 1) // self.stride
        return min(self.stated - 1, start) * self.stride

    @property
    def is_trap(self) -> bool:
        """Whether ONNX's rule has one more window than onnxruntime's kernel."""
        return self._last != (self.stated - 1) * self.stride

    @property
    def behind(self) -> int:
        """The padding that the last window reaches; below 0 the cells that none does."""
        return self._last + self.reach - self.size - self.begin


def _why_it_stays(axes: list[_Axis], kernel: list[int], counts: bool) -> str:
    """``counts``: whether there is padding, and it counts."""
    pairs = zip(axes, kernel, strict=True)
    if any(axis.behind >= size for axis, size in pairs):
        return "ceil_mode stays: the padding would be as large as the window"
    if counts and any(axis.behind > axis.end for axis in axes):
        return "ceil_mode stays: of the padding behind the end some counts, some does not"
    return ""


def _crop(graph: Graph, node: Node, axes: list[_Axis], context: Context) -> None:
    """Leave off the cells behind the last window along axes where ONNX's rule has one more."""
    cut = {i + 2: axis for i, axis in enumerate(axes) if axis.is_trap and axis.behind < 0}
    if not cut:
        return
    ends = [axis.size + axis.behind for axis in cut.values()]
    given = {"starts": [0] * len(cut), "ends": ends, "axes": [*cut]}
    constants = [
        context.constant(f"{node.name}.{name}", np.array(each, np.int64))
        for name, each in given.items()
    ]
    x = node.inputs[0]
    cropped = new_tensor(context.fresh(f"{node.name}.cropped"), x)
    cropped.shape = [*x.shape]
    for axis, size in zip(cut, ends, strict=True):
        cropped.shape[axis] = size
    add_node(graph, "Slice", f"{node.name}.crop", [x, *constants], [cropped])
    node.inputs[0] = cropped
