"""CanonicalizeGemm: one form for every product with a constant matrix."""

from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpasses.ir.graph import (
    Graph,
    Node,
    constant,
    input_at,
    rank,
    sole_consumer,
    write_for,
)
from qpasses.ir.overflow import overflows
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass


class CanonicalizeGemm(Pass):
    """Fold transB, alpha and beta into the constants; MatMul (+ Add) of a matrix is a Gemm.

    before: ``p = MatMul (x, w); y = Add (p, b)`` or ``y = Gemm <transB = 1> (x, w_t, b)``
    after:  ``y = Gemm (x, w, b)`` with w [K, N] and b [N]
    **Exact** in real arithmetic.
    """

    op_types: ClassVar = frozenset({"Gemm", "MatMul"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite in place; products of two activations and of higher rank stay."""
        weights = constant(node.inputs[1])
        if weights is None or weights.ndim != 2 or weights.dtype.kind != "f":
            return NOT_MINE
        if node.op == "MatMul" and rank(node.inputs[0]) != 2:
            return NOT_MINE
        if node.op == "Gemm" and (declined := _fold_factors(node, context)):
            return declined
        node.op = "Gemm"
        if input_at(node, 2) is None:
            _absorb_bias(graph, node, context)
        return REWRITTEN


def _fold_factors(node: Node, context: Context) -> Declined | None:
    if node.attrs.get("transA", 0):
        return Declined("Gemm with transA = 1: no integer form yet")
    given = np.asarray(constant(node.inputs[1]))
    turned, alpha = bool(node.attrs.get("transB", 0)), node.attrs.get("alpha", 1.0)
    weights = given.T if turned else given
    if alpha != 1:
        exact = weights.astype(np.float64) * alpha
        if overflows(given.dtype, exact):
            return Declined("Gemm with weights times alpha that float32 does not hold")
        weights = exact.astype(given.dtype)
    made = context.constant(f"{node.name}.weight", weights)
    context.given.carry(
        node.inputs[1],
        made,
        lambda codes: (codes.moved(np.transpose) if turned else codes).scaled(np.array(alpha)),
    )
    inputs = [node.inputs[0], made]
    bias = input_at(node, 2)
    if bias is not None:
        as_row = partial(_as_row, columns=weights.shape[1])
        row = _row(constant(bias), weights.shape[1])
        if row is None:
            return Declined("Gemm with a third input that is not a constant row")
        scaled = row.astype(np.float64) * node.attrs.get("beta", 1.0)
        if overflows(given.dtype, scaled):
            return Declined("Gemm with a bias times beta that float32 does not hold")
        inputs.append(context.constant(f"{node.name}.bias", scaled.astype(given.dtype)))
        if node.attrs.get("beta", 1.0) == 1:
            context.given.carry(bias, inputs[-1], lambda codes: codes.moved(as_row))
    node.attrs.clear()
    node.inputs = inputs
    return None


def _absorb_bias(graph: Graph, node: Node, context: Context) -> None:
    add = sole_consumer(graph, node.outputs[0])
    if add is None or add.op != "Add" or add.name in context.selection.excluded:
        return
    other = add.inputs[1] if add.inputs[0] is node.outputs[0] else add.inputs[0]
    row = _row(constant(other), node.inputs[1].shape[1])
    if row is None:
        return
    node.inputs.append(context.constant(f"{node.name}.bias", row))
    as_row = partial(_as_row, columns=node.inputs[1].shape[1])
    context.given.carry(other, node.inputs[-1], lambda codes: codes.moved(as_row))
    write_for(node, add)


def _row(values: NDArray[Any] | None, columns: int) -> NDArray[Any] | None:
    """``values`` as one row of ``columns`` if it broadcasts along rows only, else None."""
    if values is None or values.ndim > 2 or values.size not in (1, columns):
        return None
    if values.size > 1 and values.shape[-1] != columns:
        return None
    return _as_row(values, columns)


def _as_row(values: NDArray[Any], columns: int) -> NDArray[Any]:
    return np.broadcast_to(values.reshape(-1), (columns,))
