"""FoldIntoLayerNorm: constants behind a normalization are its gamma and beta."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpasses.ir.graph import (
    Graph,
    Node,
    Tensor,
    constant,
    is_used,
    rank,
    sole_consumer,
    write_for,
)
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Outcome, Pass, rename_between
from qpasses.ir.shapes import keeps_shape
from qpasses.ir.stages import UNCENTERED

_RESHAPING = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})


class FoldIntoLayerNorm(Pass):
    """Move constants that multiply rows, or are added to them, into LayerNormalization.

    before: ``n = LayerNormalization (x, g, b); m = Mul (n, k); y = Add (m, c)``
    after:  ``y = LayerNormalization (x, g * k, b * k + c)``
    A Reshape that keeps rows as the last axis may lie between. RMSNormalization, which has no
    beta, takes factors alone.
    **Exact** in real arithmetic; gamma and beta are computed in float64.
    """

    op_types: ClassVar = frozenset({"LayerNormalization"}) | UNCENTERED

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Take in Mul and Add as long as nothing else reads what lies between."""
        norm = _constants(graph, node)
        if norm is None:
            return NOT_MINE
        gamma, beta = norm
        last, row, is_centered = node, list(gamma.shape), node.op not in UNCENTERED
        end: Node | None = None
        while (behind := sole_consumer(graph, last.outputs[0])) is not None:
            values = _operand(behind, last.outputs[0], row)
            keeps_rows = behind.op in _RESHAPING and _last_size(behind) == gamma.size
            if behind.name in context.selection.excluded:
                break
            if keeps_rows and behind.inputs[0] is last.outputs[0]:
                last, row = behind, [gamma.size]
                continue
            if values is None or not (is_centered or behind.op == "Mul"):
                break
            values = values.reshape(gamma.shape)
            if behind.op == "Mul":
                gamma, beta = gamma * values, beta * values
            else:
                beta = beta + values
            write_for(last, behind)
            end = last
        if end is None:
            return NOT_MINE
        made = {"gamma": gamma} | ({"beta": beta} if is_centered else {})
        node.inputs = [
            node.inputs[0],
            *(
                context.constant(f"{node.name}.{name}", value.astype(np.float32))
                for name, value in made.items()
            ),
        ]
        rename_between(node, end, context)
        return REWRITTEN


def _constants(
    graph: Graph, node: Node
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Gamma and beta of each place of a row, where these are known."""
    sizes = list(node.inputs[0].shape or [])[node.attrs.get("axis", -1) :]
    given = [tensor for tensor in node.inputs[1:3] if not tensor.is_empty()]
    values = [constant(tensor) for tensor in given]
    is_sized = bool(sizes) and all(isinstance(size, int) for size in sizes)
    is_plain = node.outputs[0].dtype == np.float32
    if not is_sized or not is_plain or any(is_used(graph, t) for t in node.outputs[1:]):
        return None
    if any(value is not None and not keeps_shape(sizes, value) for value in values):
        return None
    known = [np.broadcast_to(v, sizes).astype(np.float64) for v in values if v is not None]
    if len(known) < len(values):
        return None
    gamma, beta = [*known, np.zeros(sizes)][:2]
    return gamma, beta


def _last_size(node: Node) -> int | str | None:
    shape = list(node.outputs[0].shape or [None])
    return shape[-1] if shape else None


def _operand(node: Node, normal: Tensor, row: list[int]) -> NDArray[Any] | None:
    """The constant, shaped as ``row``, with which ``node`` multiplies or shifts ``normal``."""
    others = [constant(tensor) for tensor in node.inputs if tensor is not normal]
    if node.op not in ("Add", "Mul") or len(others) != 1 or others[0] is None:
        return None
    value, dims = others[0], rank(normal)
    if dims is None or value.ndim > dims or value.dtype != np.float32:
        return None
    while value.ndim > len(row) and value.shape[0] == 1:
        value = value[0]
    try:
        return np.broadcast_to(value, row)
    except ValueError:  # it differs along other axes
        return None
