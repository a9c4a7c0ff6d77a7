"""ReverseTime: a recurrent net that runs backward is one that runs forward on turned rows."""

from typing import ClassVar

import numpy as np

from qpasses.ir.graph import (
    Graph,
    Node,
    Tensor,
    add_node,
    constant,
    input_at,
    is_used,
    new_tensor,
)
from qpasses.ir.recurrent_nodes import GATES, LENS, X, Y, direction_of
from qpasses.ir.rewriting import REWRITTEN, Context, Outcome, Pass


class ReverseTime(Pass):
    """Replace a reverse LSTM, GRU or RNN by a forward one between two turns of time.

    before: ``y, h = GRU <direction = "reverse"> (x, w, r, b)``
    after:  ``turned = Slice (x, [-1], [lowest], [0], [-1]);
            back, h = GRU (turned, w, r, b); y = Slice (back, [-1], [lowest], [0], [-1])``
    With lengths of rows it is ReverseSequence in place of Slice, around y between Squeeze and
    Unsqueeze of the axis of directions.
    **Exact:** it is what the direction means; behind the end of a row stand zeros, which
    ReverseSequence leaves where they are.
    """

    op_types: ClassVar = frozenset(GATES)

    def takes(self, node: Node) -> bool:
        """Whether it runs backward alone."""
        return super().takes(node) and direction_of(node) == "reverse"

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite: the states at the end are those of the first step, as they were."""
        x, y, lengths = node.inputs[X], node.outputs[Y], _lengths(graph, node, context)
        turned = new_tensor(context.fresh(f"{x.name}_turned"), x)
        _turn(graph, node, x, turned, lengths, context)
        node.inputs[X] = turned
        if is_used(graph, y):
            back = new_tensor(context.fresh(f"{y.name}_turned"), y)
            node.outputs[Y] = back
            if lengths is None:
                _turn(graph, node, back, y, None, context)
            else:
                _turn_rows(graph, node, back, y, lengths, context)
        del node.attrs["direction"]
        return REWRITTEN


def _lengths(graph: Graph, node: Node, context: Context) -> Tensor | None:
    """Those of the rows in int64, as ReverseSequence takes them; None where there are none."""
    given = input_at(node, LENS)
    values = constant(given)
    if given is None or values is not None:
        wide = None if values is None else values.astype(np.int64)
        return None if wide is None else context.table(f"{node.name}.lengths", wide)
    lengths = new_tensor(context.fresh(f"{given.name}_wide"), given, np.int64)
    name = context.fresh(f"{node.name}_lengths")
    add_node(graph, "Cast", name, [given], [lengths], attributes={"to": _INT64})
    return lengths


_INT64 = 7


def _turn(
    graph: Graph,
    node: Node,
    x: Tensor,
    turned: Tensor,
    lengths: Tensor | None,
    context: Context,
) -> None:
    """Let ``turned`` be ``x``, its steps from the last to the first."""
    name = context.fresh(f"{node.name}_turn")
    if lengths is not None:
        axes = {"time_axis": 0, "batch_axis": 1}
        add_node(graph, "ReverseSequence", name, [x, lengths], [turned], attributes=axes)
        return
    axis, last = context.table("steps", np.array([0])), context.table("last", np.array([-1]))
    end = context.table("before_all", np.array([np.iinfo(np.int64).min]))
    add_node(graph, "Slice", name, [x, last, end, axis, last], [turned])


def _turn_rows(
    graph: Graph, node: Node, x: Tensor, turned: Tensor, lengths: Tensor, context: Context
) -> None:
    """The same of [steps, 1, rows, size]: ReverseSequence has the rows behind the steps."""
    axes = context.table("directions", np.array([1]))
    plain, back = (new_tensor(context.fresh(f"{x.name}_{what}"), x) for what in ("in", "out"))
    for each in (plain, back):
        each.shape = None if x.shape is None else [x.shape[0], *x.shape[2:]]
    add_node(graph, "Squeeze", context.fresh(f"{node.name}_in"), [x, axes], [plain])
    _turn(graph, node, plain, back, lengths, context)
    add_node(graph, "Unsqueeze", context.fresh(f"{node.name}_out"), [back, axes], [turned])
