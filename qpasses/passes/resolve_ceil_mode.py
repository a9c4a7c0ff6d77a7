"""ResolveCeilMode: write the padding that ceil_mode of a MaxPool stands for."""

from typing import ClassVar

from qpasses.graph import Graph, Node, spatial_shape
from qpasses.passes.base import Context, Declined, Pass


class ResolveCeilMode(Pass):
    """Replace ceil_mode by padding behind the end where the spatial size is known.

    before: ``y = MaxPool <ceil_mode = 1, kernel_shape = [2], strides = [2]> (x)``, 5 cells
    after:  ``y = MaxPool <kernel_shape = [2], strides = [2], pads = [0, 1]> (x)``
    **Exact:** the same windows; padding is never the largest. Below opset 22 ONNX counts one
    more where the last would start in the padding: onnxruntime's optimizer believes it.
    """

    op_types: ClassVar = frozenset({"MaxPool"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Declined | None:
        """Set pads and drop ceil_mode."""
        if not node.attrs.get("ceil_mode"):
            return None
        shape, kernel = spatial_shape(node.inputs[0]), node.attrs["kernel_shape"]
        if shape is None or node.attrs.get("auto_pad", "NOTSET") not in ("NOTSET", ""):
            return Declined("ceil_mode stays: the spatial size is not fixed")
        dims = len(kernel)
        strides = node.attrs.get("strides") or [1] * dims
        dilations = node.attrs.get("dilations") or [1] * dims
        pads = list(node.attrs.get("pads") or [0] * (2 * dims))
        for i, (size, stride) in enumerate(zip(shape, strides, strict=True)):
            reach = (kernel[i] - 1) * dilations[i] + 1
            there = size + pads[i]  # cells in which a window may start
            windows = -((reach - there - pads[dims + i]) // stride) + 1
            last = min(windows - 1, (there - 1) // stride) * stride
            pads[dims + i] = max(0, last + reach - there)
            if pads[dims + i] >= kernel[i]:
                return Declined("ceil_mode stays: the padding would be as large as the window")
        del node.attrs["ceil_mode"]
        node.attrs["pads"] = pads
        return None
