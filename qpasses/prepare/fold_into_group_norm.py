"""FoldIntoGroupNorm: a normalization over groups that is written out takes its factors in."""

from math import prod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from qpasses.ir.graph import Graph, Node, Tensor, constant, producer, rank, sole_consumer
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Outcome, Pass
from qpasses.ir.shapes import keeps_shape
from qpasses.prepare.recognition.group_norm import normalize_groups


class FoldIntoGroupNorm(Pass):
    """Move factors by channel behind a normalization over groups into its gamma and beta.

    before: ``r = Reshape (x, [0, G, -1]); n = InstanceNormalization (r, g, b);
            z = Reshape (n, [0, C, H, W]); y = Add (Mul (z, gamma), beta)``, as PyTorch writes
            group_norm
    after:  ``y``, by LayerNormalization of [N, G, C / G, H, W] between two Reshapes, as of
            GroupNormalization
    **Exact** in real arithmetic; gamma and beta are computed in float64.
    """

    op_types: ClassVar = frozenset({"InstanceNormalization"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Take in Mul and Add as long as nothing else reads what lies between."""
        excluded = context.selection.excluded
        split, joined = producer(node.inputs[0]), sole_consumer(graph, node.outputs[0])
        given = [constant(tensor) for tensor in node.inputs[1:3]]
        if split is None or joined is None or any(value is None for value in given):
            return NOT_MINE
        x, chain = split.inputs[0], [node, joined]
        if (
            x.dtype != np.float32
            or not _are_groups(split, joined)
            or {split.name, joined.name} & excluded.keys()
        ):
            return NOT_MINE
        channels, groups = x.shape[1], node.inputs[0].shape[1]
        gamma, beta = (
            np.repeat(np.asarray(value, np.float64), channels // groups) for value in given
        )
        while (behind := sole_consumer(graph, chain[-1].outputs[0])) is not None:
            values = _by_channel(behind, chain[-1].outputs[0])
            if values is None or behind.name in excluded:
                break
            gamma, beta = (
                (gamma * values, beta * values)
                if behind.op == "Mul"
                else (gamma, beta + values)
            )
            chain.append(behind)
        if len(chain) == 2:
            return NOT_MINE
        y = chain[-1].outputs[0]
        for each in chain:
            each.inputs.clear()
            each.outputs.clear()
        shape = groups, channels // groups, *(1 for _ in x.shape[2:])
        factors = np.reshape(gamma, shape), np.reshape(beta, shape)
        epsilon = node.attrs.get("epsilon", 1e-5)
        normalize_groups(graph, node.name, (x, y), factors, epsilon, context)
        return REWRITTEN


def _are_groups(split: Node, joined: Node) -> bool:
    """Whether one splits channels into groups, each with all positions, and one joins them."""
    if split.op != "Reshape" or joined.op != "Reshape":
        return False
    shapes = [t.shape for t in (split.inputs[0], split.outputs[0], joined.outputs[0])]
    if any(shape is None or len(shape) < 3 for shape in shapes):
        return False
    x, rows, y = (list(shape[1:]) for shape in shapes)
    are_known = all(isinstance(size, int) and size > 0 for size in (*x, *rows))
    return x == y and are_known and prod(x) == prod(rows) and x[0] % rows[0] == 0


def _by_channel(node: Node, tensor: Tensor) -> NDArray[np.float64] | None:
    """The constants, one for each channel, by which ``node`` multiplies or shifts."""
    others = [constant(each) for each in node.inputs if each is not tensor]
    dims, shape = rank(tensor) or 0, list(tensor.shape)
    if node.op not in ("Add", "Mul") or len(others) != 1 or others[0] is None:
        return None
    value = others[0]
    if not keeps_shape(shape, value) or value.dtype != np.float32:
        return None
    full = (1,) * (dims - value.ndim) + value.shape
    if any(size != 1 for axis, size in enumerate(full) if axis != 1):
        return None
    return np.broadcast_to(value.ravel().astype(np.float64), (shape[1],))
