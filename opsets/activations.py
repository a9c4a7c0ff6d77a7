"""Activations of recurrent nets: the functions that ONNX names, of float64."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_FUNCTIONS: Mapping[str, Callable[[Floats, float, float], Floats]] = {
    "Affine": lambda x, a, b: a * x + b,
    "Elu": lambda x, a, _b: np.where(x < 0, a * np.expm1(np.minimum(x, 0)), x),
    "HardSigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "LeakyRelu": lambda x, a, _b: np.where(x < 0, a * x, x),
    "Relu": lambda x, _a, _b: np.maximum(x, 0),
    "ScaledTanh": lambda x, a, b: a * np.tanh(b * x),
    "Sigmoid": lambda x, _a, _b: 1 / (1 + np.exp(-x)),
    "Softplus": lambda x, _a, _b: np.logaddexp(0, x),
    "Softsign": lambda x, _a, _b: x / (1 + np.abs(x)),
    "Tanh": lambda x, _a, _b: np.tanh(x),
    "ThresholdedRelu": lambda x, a, _b: np.where(x > a, x, 0),
}
"""Source: ONNX, LSTM, "Activation functions"."""

KNOWN = frozenset(_FUNCTIONS)


@dataclass(frozen=True)
class Activation:
    """A function with its numbers, of arguments that are cut off at ``clip`` on both sides."""

    name: str
    alpha: float = 0.0
    beta: float = 0.0
    clip: float = np.inf

    def __call__(self, x: Floats) -> Floats:
        """The function of each number."""
        return np.asarray(
            _FUNCTIONS[self.name](np.clip(x, -self.clip, self.clip), self.alpha, self.beta)
        )


def settle(functions: Sequence[Activation]) -> bool:
    """Whether beyond -16 and 16 they are as there, to 12 bits behind the point."""
    ends, far = np.array([-16.0, 16.0]), np.array([[-32.0, 32], [-64, 64], [-512, 512]])
    return all(bool((np.abs(each(far) - each(ends)) <= 2.0**-12).all()) for each in functions)


def said(functions: Sequence[Activation]) -> str:
    """What a record says of the activations of a node: name, alpha, beta, clip of each."""
    return "; ".join(f"{f.name} {f.alpha!r} {f.beta!r} {f.clip!r}" for f in functions)


def read(text: str) -> list[Activation]:
    """What ``said`` wrote. Raises ValueError."""
    found = []
    for part in text.split("; "):
        name, *numbers = part.split(" ")
        if name not in KNOWN or len(numbers) != 3:
            raise ValueError(f"no activations: {text!r}")
        found.append(Activation(name, *map(float, numbers)))
    return found
