"""ResolveAutoPad: write the padding that auto_pad stands for."""

from typing import ClassVar

from opsets.convolution import padding
from qpasses.ir.graph import Graph, Node, constant, rank, spatial_shape
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass


class ResolveAutoPad(Pass):
    """Replace auto_pad by explicit pads where the spatial size is known.

    before: ``y = Conv <auto_pad = "SAME_UPPER"> (x, w)``
    after:  ``y = Conv <pads = [1, 1, 1, 1]> (x, w)``
    **Exact:** ONNX defines auto_pad by these pads.
    """

    op_types: ClassVar = frozenset({"Conv", "MaxPool", "AveragePool"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Set pads and drop auto_pad."""
        mode = node.attrs.get("auto_pad", "NOTSET")
        if mode in ("NOTSET", ""):
            return NOT_MINE
        weights = constant(node.inputs[1]) if node.op == "Conv" else None
        kernel = node.attrs.get("kernel_shape") or (
            None if weights is None else weights.shape[2:]
        )
        dims = len(kernel) if kernel is not None else (rank(node.inputs[0]) or 2) - 2
        shape = spatial_shape(node.inputs[0])
        if kernel is None or (shape is None and mode != "VALID"):
            return Declined("auto_pad stays: the spatial size is not fixed")
        begin, end = padding(
            shape or [0] * dims,
            kernel,
            node.attrs.get("strides") or [1] * dims,
            node.attrs.get("dilations") or [1] * dims,
            None,
            mode,
        )
        node.attrs.pop("auto_pad")
        node.attrs["pads"] = [*begin, *end]
        return REWRITTEN
