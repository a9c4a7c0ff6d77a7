"""OneHotToGather: a one-hot row times a matrix is a row of that matrix."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpasses.ir.graph import (
    Graph,
    Node,
    Tensor,
    add_node,
    constant,
    input_at,
    new_tensor,
    producer,
    rank,
)
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass


class OneHotToGather(Pass):
    """Replace the product of OneHot and a constant matrix by Gather from a constant table.

    before: ``h = OneHot <axis = -1> (ids, depth, values); y = Gemm (h, w, b)``
    after:  ``i = Clip (ids, -depth - 1, depth); y = Gather (table, i)``
    The table holds a row for each id, one for ids that are out of range, and those of the ids
    from -depth on, which count from the end. A Cast or Reshape may lie between.
    **Exact** in real arithmetic, for every id.
    """

    op_types: ClassVar = frozenset({"Gemm", "MatMul"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Put Clip and Gather in place; what reads only the sizes of OneHot reads others."""
        weights, bias = constant(node.inputs[1]), constant(input_at(node, 2))
        is_plain = not node.attrs and (bias is not None or input_at(node, 2) is None)
        if weights is None or weights.ndim != 2 or not is_plain:
            return NOT_MINE
        found = _encoded(node.inputs[0], len(weights))
        if found is None:
            return NOT_MINE
        ids, depth = found.one_hot.inputs[0], len(weights)
        values = constant(found.one_hot.inputs[2])
        if values is None or not np.isfinite(values).all():
            return Declined("OneHot with values that are not constant and finite")
        if ids.dtype not in (np.int32, np.int64):
            return Declined("OneHot of indices that are neither int32 nor int64")
        table = _table(weights, values.astype(np.float64), bias)
        limits = (context.scalar(np.dtype(ids.dtype).name, n) for n in (-depth - 1, depth))
        index = _written(graph, context, "Clip", f"{node.name}_ids", [ids, *limits])
        if found.shape is not None:
            reshaped = context.constant(f"{node.name}.ids_shape", found.shape[:-1])
            called = f"{node.name}_ids_reshaped"
            index = _written(graph, context, "Reshape", called, [index, reshaped])
        node.op, node.domain = "Gather", ""
        node.attrs.clear()
        node.attrs["axis"] = 0
        node.inputs = [context.table(f"{node.name}.table", table), index]
        for tensor in found.alike:
            _measure_ids(graph, tensor, ids, depth, context)
        return REWRITTEN


@dataclass(frozen=True)
class _Encoded:
    """A OneHot, the tensors ``alike`` that hold its rows, and the shape that they take."""

    one_hot: Node
    alike: list[Tensor]
    shape: NDArray[np.int64] | None


def _encoded(tensor: Tensor, depth: int) -> _Encoded | None:
    """The one-hot rows of ``depth`` that ``tensor`` holds, if it does."""
    before, shape = producer(tensor), None
    if before is not None and before.op == "Reshape":
        shape = constant(before.inputs[1])
        is_known = shape is not None and shape.size > 1 and not before.attrs.get("allowzero")
        if not is_known or list(tensor.shape or [])[-1:] != [depth]:
            return None
        before = producer(before.inputs[0])
    cast = before if before is not None and before.op == "Cast" else None
    if cast is not None:
        before = producer(cast.inputs[0])
    if before is None or before.op != "OneHot":
        return None
    size, dims = constant(before.inputs[1]), rank(before.outputs[0])
    is_last = dims is not None and before.attrs.get("axis", -1) in (-1, dims - 1)
    if not is_last or size is None or int(size.reshape(())) != depth:
        return None
    alike = [each.outputs[0] for each in (before, cast) if each is not None]
    return _Encoded(before, alike, shape)


def _table(
    weights: NDArray[Any], values: NDArray[np.float64], bias: NDArray[Any] | None
) -> NDArray[Any]:
    """The rows of ids from 0 on, of ids out of range, and of those from -depth to -1."""
    off, on = values
    ground = off * weights.astype(np.float64).sum(axis=0, keepdims=True)
    ground = ground if bias is None else ground + bias
    rows = ground + (on - off) * weights
    return np.concatenate([rows, ground, rows]).astype(weights.dtype)


def _written(
    graph: Graph, context: Context, op: str, name: str, inputs: list[Tensor]
) -> Tensor:
    """What a new node makes of ``inputs``."""
    made = new_tensor(context.fresh(name), inputs[0])
    if op == "Reshape":
        shape = np.asarray(constant(inputs[1]))
        made.shape = [int(n) if n > 0 else f"{made.name}_{i}" for i, n in enumerate(shape)]
    add_node(graph, op, context.fresh(f"{name}_{op.lower()}"), inputs, [made])
    return made


def _measure_ids(
    graph: Graph, tensor: Tensor, ids: Tensor, depth: int, context: Context
) -> None:
    """Let each Shape of one-hot ``tensor`` measure ``ids`` instead."""
    for reader in [each for each in tensor.outputs if each.op == "Shape" and not each.attrs]:
        measured = new_tensor(context.fresh(f"{reader.name}_ids"), reader.outputs[0])
        measured.shape = [rank(ids)]
        last = context.constant(f"{reader.name}.depth", np.array([depth], np.int64))
        (written,) = reader.outputs
        reader.inputs, reader.outputs = [ids], [measured]
        called = context.fresh(f"{reader.name}_with_depth")
        add_node(graph, "Concat", called, [measured, last], [written], attributes={"axis": 0})
