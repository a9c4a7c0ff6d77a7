"""Recurrent nodes: gates, states, and the activations of each direction."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpasses.ir.graph import Node, Tensor, absent, varies

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
"""Blocks of rows that W and R have: i, o, f, c of an LSTM, z, r, h of a GRU."""

X, W, R, B, LENS, INITIAL_H, INITIAL_C, P = range(8)
"""Places of inputs; the last two an LSTM alone has."""

Y, Y_H, Y_C = range(3)
"""Places of outputs."""

DEFAULTS = {
    "LSTM": ("Sigmoid", "Tanh", "Tanh"),
    "GRU": ("Sigmoid", "Tanh"),
    "RNN": ("Tanh",),
}
"""The activations of a direction that names none."""

ALPHAS = {
    "Affine": 0.0,
    "Elu": 1.0,
    "HardSigmoid": 0.2,
    "LeakyRelu": 0.01,
    "ScaledTanh": 0.0,
    "ThresholdedRelu": 0.0,
}
"""The activations that take an alpha, with what onnxruntime takes where none is left."""

BETAS = {"Affine": 0.0, "HardSigmoid": 0.5, "ScaledTanh": 0.0}
"""The activations that take a beta, with what onnxruntime takes where none is left."""

_SPELLED = {
    name.lower(): name for name in (*ALPHAS, "Relu", "Sigmoid", "Softplus", "Softsign", "Tanh")
}


@dataclass(frozen=True)
class Activations:
    """The functions of one direction, with a number for each that takes one."""

    names: Sequence[str]
    alphas: Sequence[float]
    betas: Sequence[float]

    def attributes(self, op: str) -> dict[str, Any]:
        """Those of a node of ``op``, of one direction; what is usual is not said."""
        is_usual = tuple(self.names) == DEFAULTS[op]
        given = {
            "activations": [] if is_usual else [*self.names],
            "activation_alpha": [*self.alphas],
            "activation_beta": [*self.betas],
        }
        return {name: values for name, values in given.items() if values}


OF_ACTIVATIONS = frozenset({"activations", "activation_alpha", "activation_beta"})
"""The attributes that say them."""


def direction_of(node: Node) -> str:
    """Forward, reverse or bidirectional."""
    return str(node.attrs.get("direction", "forward"))


def activations_of(node: Node) -> list[Activations]:
    """Those of each direction.

    Each that takes an alpha takes the next of ``activation_alpha``, over all directions; so
    for beta. Where the list is at its end it has the default of onnxruntime.
    """
    count = 2 if direction_of(node) == "bidirectional" else 1
    per = len(DEFAULTS[node.op])
    given = node.attrs.get("activations") or DEFAULTS[node.op] * count
    names = [_SPELLED.get(name.lower(), name) for name in given]
    alphas = iter(node.attrs.get("activation_alpha", ()))
    betas = iter(node.attrs.get("activation_beta", ()))
    found = []
    for start in range(0, per * count, per):
        own = names[start : start + per]
        found.append(
            Activations(
                own,
                [next(alphas, ALPHAS[name]) for name in own if name in ALPHAS],
                [next(betas, BETAS[name]) for name in own if name in BETAS],
            )
        )
    return found


def given_inputs(node: Node) -> list[Tensor]:
    """All inputs that ``node`` can have, absent ones empty."""
    count = P + 1 if node.op == "LSTM" else INITIAL_H + 1
    return [*node.inputs, *(absent() for _ in range(count - len(node.inputs)))]


def given_outputs(node: Node) -> list[Tensor]:
    """All outputs that ``node`` can have, absent ones empty."""
    count = Y_C + 1 if node.op == "LSTM" else Y_H + 1
    return [*node.outputs, *(absent() for _ in range(count - len(node.outputs)))]


def states_of(node: Node) -> list[tuple[str, str]]:
    """Pairs of tensors that hold the same state, by name: before the first step, of all steps,
    behind the last. What a GRU gives of all steps is a copy of its state.
    """
    inputs, outputs = given_inputs(node), given_outputs(node)
    hidden = [outputs[Y_H], inputs[INITIAL_H]]
    groups = [hidden if node.op == "GRU" else [outputs[Y], *hidden]]
    if node.op == "LSTM":
        groups.append([outputs[Y_C], inputs[INITIAL_C]])
    named = [[each.name for each in group if varies(each)] for group in groups]
    return [(first, other) for first, *others in filter(None, named) for other in others]


def trimmed(tensors: Sequence[Tensor]) -> list[Tensor]:
    """``tensors`` without the empty ones at the end."""
    count = max((k for k, each in enumerate(tensors, 1) if not each.is_empty()), default=0)
    return list(tensors[:count])


def biases_of(op: str, values: NDArray[Any] | None, rows: int, last: bool) -> list[Any]:
    """Of the sums of inputs and of those of states, [rows] each, from a bias [1, 2 * rows].

    They are added up with the sums of inputs, but for the last gate of a GRU that resets its
    sums (``last``: linear_before_reset).
    """
    both = np.zeros((2, rows)) if values is None else values.reshape(2, rows)
    of_x, of_h = both.astype(np.float64)
    apart = (
        np.arange(rows) >= rows - rows // 3 if op == "GRU" and last else np.zeros(rows, bool)
    )
    return [of_x + np.where(apart, 0, of_h), np.where(apart, of_h, 0)]
