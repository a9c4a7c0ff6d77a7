"""GroupNormToLayerNorm: groups of channels are rows of a reshaped tensor."""

from typing import ClassVar

import numpy as np

from qpasses.ir.graph import Graph, Node, constant, spatial_shape
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.prepare.recognition.group_norm import normalize_groups


class GroupNormToLayerNorm(Pass):
    """Replace GroupNormalization by LayerNormalization between two Reshapes.

    before: ``y = GroupNormalization <num_groups = G> (x, gamma, beta)``
    after:  ``r = Reshape (x, [0, G, C / G, H, W])``,
            ``n = LayerNormalization <axis = 2> (r, gamma, beta)``, gamma of [G, C / G, 1, 1],
            ``y = Reshape (n, [0, C, H, W])``
    **Exact:** a group is a row of C / G channels with all their positions.
    """

    op_types: ClassVar = frozenset({"GroupNormalization"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite where channels and positions are known, and gamma and beta constant."""
        x, groups = node.inputs[0], int(node.attrs["num_groups"])
        spatial = spatial_shape(x)
        if spatial is None or not isinstance(x.shape[1], int):
            return Declined("GroupNormalization of sizes that are not known")
        if x.dtype != np.float32:
            return NOT_MINE
        gamma, beta = (constant(tensor) for tensor in node.inputs[1:3])
        if gamma is None or beta is None:
            return Declined("GroupNormalization with a gamma or beta that is not constant")
        # from opset 21 on by channel, before by group, which raising a model does not change
        shape = (groups, gamma.size // groups, *(1 for _ in spatial))
        epsilon = node.attrs.get("epsilon", 1e-5)
        y = node.outputs[0]
        node.inputs.clear()
        node.outputs.clear()
        factors = np.reshape(gamma, shape), np.reshape(beta, shape)
        normalize_groups(graph, node.name, (x, y), factors, epsilon, context)
        return REWRITTEN
