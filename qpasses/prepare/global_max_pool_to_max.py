"""GlobalMaxPoolToMax: the largest number of each channel by ops that run on integers."""

from typing import ClassVar

import numpy as np

from qpasses.ir.graph import Graph, Node, rank, spatial_shape
from qpasses.ir.rewriting import REWRITTEN, Context, Declined, Outcome, Pass

AXES_AS_INPUT = 18
"""From this opset on ReduceMax reads its axes."""


class GlobalMaxPoolToMax(Pass):
    """Replace GlobalMaxPool by a MaxPool of one window, or by ReduceMax of free sizes.

    before: ``y = GlobalMaxPool (x)``
    after:  ``y = MaxPool <kernel_shape> (x)`` or ``y = ReduceMax (x, axes)``
    **Exact:** the same numbers are compared.
    """

    op_types: ClassVar = frozenset({"GlobalMaxPool"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Put either in place where the number of axes is known."""
        dims, sizes = rank(node.inputs[0]), spatial_shape(node.inputs[0])
        if dims is None or dims < 3:
            return Declined("GlobalMaxPool over spatial axes that are not known")
        node.attrs.clear()
        if sizes is not None and dims <= 5:
            node.op = "MaxPool"
            node.attrs["kernel_shape"] = list(sizes)
            return REWRITTEN
        axes = list(range(2, dims))
        node.op = "ReduceMax"
        node.attrs["keepdims"] = 1
        if graph.opset < AXES_AS_INPUT:
            node.attrs["axes"] = axes
        else:
            node.inputs.append(context.constant(f"{node.name}.axes", np.array(axes)))
        return REWRITTEN
