"""What a fault is: one thing changed in an emitted model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import onnx

Model = onnx.ModelProto
T = TypeVar("T")


@dataclass(frozen=True)
class Fault:
    """Where what was changed: ``place`` is the node, tensor or function it belongs to."""

    kind: str
    place: str
    what: str
    old: str
    new: str

    def __str__(self) -> str:
        """One line: everything but who made it."""
        return f"{self.kind} of {self.place!r}: {self.what} {self.old} -> {self.new}"


def one_of(choices: Sequence[T], rng: np.random.Generator) -> T | None:
    """One of ``choices`` at random; None if there are none."""
    return choices[int(rng.integers(len(choices)))] if choices else None
