"""ExpandNormFactors: a gamma or beta that varies is a factor or summand of its own."""

from typing import ClassVar

import numpy as np

from qpasses.ir.graph import Graph, Node, Tensor, input_at, rank, varies
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.prepare.recognition.expansion import Expansion, are_read

_BY_CHANNEL = frozenset({"GroupNormalization", "InstanceNormalization"})


class ExpandNormFactors(Pass):
    """Multiply with gamma, and add beta, behind a normalization where they are not constant.

    before: ``y = LayerNormalization (x, gamma, beta)``
    after:  ``n = LayerNormalization (x, ones); m = Mul (n, gamma); y = Add (m, beta)``
    **Exact:** it is its definition. Those of channels get axes of size 1 behind the channel.
    """

    op_types: ClassVar = _BY_CHANNEL | {"LayerNormalization", "RMSNormalization"}

    def takes(self, node: Node) -> bool:
        """Whether a factor or summand varies."""
        return super().takes(node) and any(map(varies, node.inputs[1:]))

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite where the sizes of what is normalized are known."""
        x, dims = node.inputs[0], rank(node.inputs[0]) or 0
        if node.domain or x.dtype != np.float32 or are_read(graph, node.outputs[1:]):
            return NOT_MINE
        axis = 1 if node.op in _BY_CHANNEL else node.attrs.get("axis", -1) % max(dims, 1)
        sizes = (x.shape or [])[axis : axis + 1 if node.op in _BY_CHANNEL else None]
        if not sizes or not all(isinstance(size, int) for size in sizes):
            return Declined(f"{node.op} with varying factors, over axes of unknown size")
        factors = [input_at(node, 1), input_at(node, 2)]
        given = [list(each.shape or []) for each in factors if each is not None]
        if node.op in _BY_CHANNEL and any(shape != sizes for shape in given):
            return Declined(f"{node.op} with varying factors, but not one for each channel")
        op, attributes = node.op, dict(node.attrs)
        made = Expansion(graph, node, context)
        ones = [made.constant("ones", np.ones(sizes, np.float32))]
        if op in _BY_CHANNEL:
            ones.append(made.constant("zeros", np.zeros(sizes, np.float32)))
        normal = made.add(op, "normal", [x, *ones], **attributes)
        normal.shape = x.shape
        gamma, beta = (
            each if op not in _BY_CHANNEL or each is None else _behind(made, each, name, dims)
            for name, each in zip(("gamma", "beta"), factors, strict=True)
        )
        assert gamma is not None, op
        if beta is None:
            made.add("Mul", "scaled", [normal, gamma], made.y)
        else:
            scaled = made.add("Mul", "scaled", [normal, gamma])
            scaled.shape = x.shape
            made.add("Add", "shifted", [scaled, beta], made.y)
        return REWRITTEN


def _behind(made: Expansion, factor: Tensor, name: str, dims: int) -> Tensor:
    """A factor for each channel, [C], with the axes that follow in an image."""
    axes = made.constant(f"{name}_axes", np.arange(1, dims - 1))
    found = made.add("Unsqueeze", name, [factor, axes])
    found.shape = [*factor.shape, *[1] * (dims - 2)]
    return found
