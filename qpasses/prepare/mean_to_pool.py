"""MeanToPool: write a mean over all spatial dimensions as GlobalAveragePool."""

from typing import ClassVar

import numpy as np

from qpasses.ir.graph import Graph, Node, add_node, constant, input_at, new_tensor, rank
from qpasses.ir.rewriting import REWRITTEN, Context, Declined, Outcome, Pass


class MeanToPool(Pass):
    """Replace ReduceMean over the spatial dimensions of images or volumes.

    before: ``y = ReduceMean <keepdims = 0> (x, axes)`` with axes [2, 3] of a rank of 4
    after:  ``p = GlobalAveragePool (x); y = Squeeze (p, axes)``
    **Exact:** both are the mean over the same elements. Rows of rank 3 stay as they are: their
    mean may be the first step of a normalization, which is no pool.
    """

    op_types: ClassVar = frozenset({"ReduceMean"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite where rank and axes are known and are those of a pool."""
        if context.target.mean != "requantized":
            return Declined(f"ReduceMean is no pool to target {context.target.name!r}")
        dims, axes = rank(node.inputs[0]), constant(input_at(node, 1))
        if axes is None and "axes" in node.attrs:
            axes = np.asarray(node.attrs["axes"])
        if dims is None or axes is None:
            return Declined("ReduceMean over axes or a rank that is not known")
        if dims < 4 or sorted(int(axis) % dims for axis in axes) != list(range(2, dims)):
            return Declined("ReduceMean over other axes than the spatial ones of images")
        x, y = node.inputs[0], node.outputs[0]
        keep = bool(node.attrs.get("keepdims", 1))
        node.op, node.inputs = "GlobalAveragePool", [x]
        node.attrs.clear()
        if not keep:
            pooled = new_tensor(context.fresh(f"{y.name}_pooled"), y)
            pooled.shape = [*x.shape[:2], *[1] * (dims - 2)]
            squeezed = context.constant(f"{node.name}.axes", np.arange(2, dims))
            node.outputs = [pooled]
            name = context.fresh(f"{node.name}_squeeze")
            add_node(graph, "Squeeze", name, [pooled, squeezed], [y])
        return REWRITTEN
