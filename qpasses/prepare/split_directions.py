"""SplitDirections: a bidirectional recurrent net is one forward and one backward."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from qpasses.ir.graph import (
    Graph,
    Node,
    Tensor,
    absent,
    add_node,
    constant,
    is_used,
    new_tensor,
)
from qpasses.ir.recurrent_nodes import (
    GATES,
    LENS,
    OF_ACTIVATIONS,
    Y_H,
    X,
    Y,
    activations_of,
    direction_of,
    given_inputs,
    given_outputs,
    trimmed,
)
from qpasses.ir.rewriting import REWRITTEN, Context, Outcome, Pass

_WAYS = "forward", "reverse"


class SplitDirections(Pass):
    """Replace a bidirectional LSTM, GRU or RNN by one of each direction, and Concat.

    before: ``y, h = GRU <direction = "bidirectional"> (x, w, r, b)``
    after:  ``y0, h0 = GRU <direction = "forward"> (x, w[:1], r[:1], b[:1]);
            y1, h1 = GRU <direction = "reverse"> (x, w[1:], r[1:], b[1:]);
            y = Concat <axis = 1> (y0, y1); h = Concat <axis = 0> (h0, h1)``
    Each has its activations, and the alphas and betas that these take of the lists.
    **Exact:** the directions share nothing but x and the lengths.
    """

    op_types: ClassVar = frozenset(GATES)

    def takes(self, node: Node) -> bool:
        """Whether it has two directions."""
        return super().takes(node) and direction_of(node) == "bidirectional"

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite: constants are cut, what is computed goes through Split."""
        activations, joined = activations_of(node), given_outputs(node)
        name, apart = node.name, OF_ACTIVATIONS | {"direction"}
        attributes = {key: value for key, value in node.attrs.items() if key not in apart}
        read = [
            (each, each)
            if place in (X, LENS) or each.is_empty()
            else _halves(graph, each, name, context)
            for place, each in enumerate(given_inputs(node))
        ]
        written = [_results(graph, each, place, context) for place, each in enumerate(joined)]
        node.inputs.clear()
        node.outputs.clear()
        for side, way in enumerate(_WAYS):
            own = trimmed([pair[side] for pair in read]), trimmed([p[side] for p in written])
            named = context.fresh(f"{name}_{way}")
            made = {"direction": way, **attributes, **activations[side].attributes(node.op)}
            add_node(graph, node.op, named, *own, attributes=made)
        for place, (whole, parts) in enumerate(zip(joined, written, strict=True)):
            if not parts[0].is_empty():
                named = name if place == Y else context.fresh(f"{name}_joined")
                axis = {"axis": _axis(place)}
                add_node(graph, "Concat", named, parts, [whole], attributes=axis)
        return REWRITTEN


def _axis(place: int) -> int:
    """That of the directions in an output: behind the steps in Y, else the first."""
    return 0 if place >= Y_H else 1


def _halves(graph: Graph, tensor: Tensor, name: str, context: Context) -> Sequence[Tensor]:
    """The parts of ``tensor`` of both directions, which are its first axis."""
    values = constant(tensor)
    names = [context.fresh(f"{tensor.name}_{way}") for way in _WAYS]
    if values is not None:
        return [
            context.constant(*each) for each in zip(names, np.split(values, 2), strict=True)
        ]
    parts = [_part(tensor, 0, each) for each in names]
    sizes = context.table("one_and_one", np.array([1, 1]))
    split = context.fresh(f"{name}_split")
    add_node(graph, "Split", split, [tensor, sizes], parts, attributes={"axis": 0})
    return parts


def _results(graph: Graph, whole: Tensor, place: int, context: Context) -> Sequence[Tensor]:
    """What both directions write of an output; nothing where nobody reads it."""
    if whole.is_empty() or not is_used(graph, whole):
        return absent(), absent()
    names = [context.fresh(f"{whole.name}_{way}") for way in _WAYS]
    return [_part(whole, _axis(place), each) for each in names]


def _part(whole: Tensor, axis: int, name: str) -> Tensor:
    """A new tensor of one direction of ``whole``."""
    part = new_tensor(name, whole)
    if whole.shape is not None:
        part.shape = [1 if k == axis else size for k, size in enumerate(whole.shape)]
    return part
