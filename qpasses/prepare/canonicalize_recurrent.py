"""CanonicalizeRecurrent: forward LSTM, GRU and RNN say what they compute in one way."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpasses.ir.graph import (
    Graph,
    Node,
    Tensor,
    absent,
    constant,
    is_used,
    new_tensor,
    producer,
)
from qpasses.ir.moving import moved
from qpasses.ir.recurrent_nodes import (
    GATES,
    INITIAL_C,
    INITIAL_H,
    LENS,
    OF_ACTIVATIONS,
    Y_H,
    Activations,
    B,
    P,
    R,
    W,
    X,
    Y,
    activations_of,
    direction_of,
    given_inputs,
    given_outputs,
    trimmed,
)
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Outcome, Pass


class CanonicalizeRecurrent(Pass):
    """Leave away what a forward LSTM, GRU or RNN need not say, and couple no gates.

    before: ``y, h, c = LSTM <direction = "forward", layout = 0, activations = ["Sigmoid",
            "Tanh", "Tanh"], input_forget = 1> (x, w, r, b, full, zeros, zeros, p)``
    after:  ``y = LSTM (x, of_f (w), of_f (r), of_f (b), "", "", "", of_f (p))``
    Initial states and peepholes of zeros, lengths that are all the steps, and results that
    nobody reads are left out, Y apart; activations that take an alpha or beta say it. With
    coupled gates f is 1 - i: the rows of f become those of i, negated.
    **Exact:** what is absent is zero, or all; 1 - Sigmoid (v) is Sigmoid (-v), and so for
    HardSigmoid with a beta of 0.5.
    """

    op_types: ClassVar = frozenset(GATES)

    def takes(self, node: Node) -> bool:
        """Whether it runs forward alone."""
        return super().takes(node) and direction_of(node) == "forward"

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite what is said otherwise."""
        (activations,) = activations_of(node)
        attributes = {**_kept(node), **activations.attributes(node.op)}
        inputs = [
            absent() if _is_implied(node, place, each) else each
            for place, each in enumerate(given_inputs(node))
        ]
        if attributes.get("input_forget") and _complements(activations):
            matrices = [constant(each) for each in inputs]
            places = [p for p in (W, R, B, P) if not inputs[p].is_empty()]
            if all(matrices[place] is not None for place in places):
                del attributes["input_forget"]
                for place in places:
                    values = _uncoupled(np.asarray(matrices[place]), place)
                    inputs[place] = context.constant(f"{inputs[place].name}_apart", values)
        outputs = [
            each if place < Y_H or is_used(graph, each) else absent()
            for place, each in enumerate(given_outputs(node))
        ]
        if outputs[Y].is_empty():
            outputs[Y] = _row_of_states(node, outputs[Y_H:], context)
        ends = (inputs, node.inputs), (outputs, node.outputs)
        if attributes == dict(node.attrs) and all(_ids(a) == _ids(b) for a, b in ends):
            return NOT_MINE
        node.attrs.clear()
        node.attrs.update(attributes)
        node.inputs, node.outputs = trimmed(inputs), trimmed(outputs)
        return REWRITTEN


def _kept(node: Node) -> dict[str, Any]:
    """The attributes that change what it computes, activations apart."""
    apart = OF_ACTIVATIONS | {"direction"}
    usual = {"layout": 0, "input_forget": 0, "linear_before_reset": 0}
    return {
        name: value
        for name, value in node.attrs.items()
        if name not in apart and value != usual.get(name)
    }


def _is_implied(node: Node, place: int, tensor: Tensor) -> bool:
    """Whether input ``place`` says what its absence does."""
    if place in (INITIAL_H, INITIAL_C, P):
        return _is_zero(tensor)
    steps, lengths = (node.inputs[X].shape or [None])[0], constant(tensor)
    is_lengths = place == LENS and lengths is not None and isinstance(steps, int)
    return is_lengths and bool(np.all(lengths == steps))


_SPREADING = frozenset(
    {
        "Concat",
        "Expand",
        "Flatten",
        "Gather",
        "Reshape",
        "Slice",
        "Split",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
    }
)
"""Ops that give nothing but numbers that they read."""


def _is_zero(tensor: Tensor) -> bool:
    """Whether it holds zeros alone, in a size that need not be known."""
    waiting = [tensor]
    while waiting:
        each = waiting.pop()
        values, node = constant(each), producer(each)
        if values is not None:
            if values.any():
                return False
        elif node is None:
            return False
        elif node.op == "ConstantOfShape":
            given = constant(node.attrs.get("value"))
            if given is not None and given.any():
                return False
        elif node.op in ("Cast", "Identity"):
            waiting += node.inputs[:1]
        elif node.op in _SPREADING and not node.domain:
            waiting += moved(node)
        else:
            return False
    return True


def _complements(activations: Activations) -> bool:
    """Whether 1 - f (v) is f (-v)."""
    first = activations.names[0]
    return first == "Sigmoid" or (first == "HardSigmoid" and activations.betas[0] == _HALF)


_HALF = 0.5


def _uncoupled(values: NDArray[Any], place: int) -> NDArray[Any]:
    """W, R, B or P, of gates i, o, f (and c), whose f is the complement of i."""
    halves = [values] if place != B else np.split(values, 2, axis=1)
    count = 3 if place == P else GATES["LSTM"]
    made = []
    for each in halves:
        i, o, _, *rest = np.split(each, count, axis=1)
        made += [i, o, -i, *rest]
    return np.concatenate(made, axis=1)


def _row_of_states(node: Node, states: Sequence[Tensor], context: Context) -> Tensor:
    """Y, which was left out, as a tensor that nobody reads."""
    like = next(each for each in states if not each.is_empty())
    y = new_tensor(context.fresh(f"{node.name}_y"), like)
    if like.shape is not None and node.inputs[X].shape is not None:
        y.shape = [node.inputs[X].shape[0], *like.shape]
    return y


def _ids(tensors: Sequence[Tensor]) -> list[int]:
    """What tells ``tensors`` from others: an empty one is as absent as another."""
    return [0 if each.is_empty() else id(each) for each in trimmed(tensors)]
