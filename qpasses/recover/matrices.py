"""The matrices of a Q/DQ graph: nodes that multiply stored weights, and what they store."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.row_blocks import blocks
from qpasses.ir.graph import Graph, Node, Tensor, constant, new_constant, producer
from qpasses.recover.second_moments import Moments, Windows, matrix_rows

Codes = NDArray[Any]
"""Stored weights, int8 or uint8, as the node has them."""


@dataclass(frozen=True)
class Matrix:
    """A node with the real weights that it stores; ``place`` tells it from the others.

    ``stored``: the constant tensor, ``scale``: of all weights, or of each output channel.
    """

    place: int
    node: Node
    real: NDArray[Any]
    stored: Tensor
    scale: NDArray[np.floating[Any]]

    @cached_property
    def windows(self) -> Windows | None:
        """What a Conv multiplies with its weights; None for a matrix [inputs, channels]."""
        return Windows.of(self.node, self.real.shape[2:]) if self.node.op == "Conv" else None

    @property
    def groups(self) -> int:
        """Channels of different groups read different numbers."""
        return self.windows.groups if self.windows else 1

    @property
    def size(self) -> int:
        """How many weights an output channel has."""
        return prod(self.real.shape[1:]) if self.windows else self.real.shape[0]

    @property
    def moment_bytes(self) -> int:
        """Those of its second moments."""
        return 8 * self.groups * self.size**2

    @property
    def ends(self) -> tuple[int, int]:
        """The smallest and the largest code."""
        limits = np.iinfo(self.stored.values.dtype)
        return limits.min, limits.max

    @property
    def codes(self) -> Codes:
        """What is stored now."""
        return np.asarray(self.stored.values)

    def store(self, codes: Codes) -> None:
        """Store others."""
        self.stored.values = codes

    def by_channel(self, weights: NDArray[Any]) -> NDArray[Any]:
        """What is as the weights are as [channels, inputs, ...], or the other way round."""
        return weights if self.windows else weights.T

    def quotients(self, channels: slice) -> NDArray[np.float64]:
        """Real weights over their scales, of some channels, in the shape of ``by_channel``."""
        real = self.by_channel(self.real)
        scale = np.broadcast_to(self.scale.astype(np.float64).reshape(-1), len(real))[channels]
        column = [-1] + [1] * (real.ndim - 1)
        return np.asarray(real[channels].astype(np.float64) / scale.reshape(column))

    def parts(self) -> Iterator[slice]:
        """The channels, so many at a time that they take little memory."""
        return blocks(self.by_channel(self.real))

    def as_stored(self, codes: NDArray[Any]) -> Codes:
        """``codes``, in the order of ``by_channel``, as the node stores them."""
        shaped = codes.reshape(self.by_channel(self.real).shape)
        return np.ascontiguousarray(self.by_channel(shaped).astype(self.codes.dtype))

    def observe(self, x: NDArray[Any], sample: int, into: Moments) -> None:
        """Add what its sums read of ``x`` at some places, drawn for this ``sample``.

        What a body reads in several iterations is stacked, and flat where it is of several
        sizes, of which a Conv shows nothing.
        """
        rng = np.random.default_rng([self.place, sample])
        if not x.size:
            return
        if self.windows is None:
            into.add(matrix_rows(x.reshape(-1, self.size), rng))
        elif x.ndim > 1:
            sizes = x.shape[-len(self.windows.kernel) - 1 :]
            into.add(self.windows.rows(x.reshape(-1, *sizes), rng))


def matrices_of(graph: Graph, weights: Mapping[str, NDArray[Any]]) -> list[Matrix]:
    """Those of ``graph`` that store the real ``weights``, given by node."""
    found = []
    for place, node in enumerate(graph.nodes):
        real = weights.get(node.name)
        dequantize = None if real is None else producer(node.inputs[1])
        if real is not None and dequantize is not None and dequantize.op == "DequantizeLinear":
            stored, scale = dequantize.inputs[:2]
            found.append(Matrix(place, node, real, stored, np.asarray(constant(scale))))
    return found


@contextmanager
def in_float(matrices: Sequence[Matrix]) -> Iterator[None]:
    """Within, the nodes multiply with the real weights."""
    rounded = [each.node.inputs[1] for each in matrices]
    for each in matrices:
        name = f"{each.stored.name}::{each.node.name}"
        _read(each.node, new_constant(name, each.real))
    try:
        yield
    finally:
        for each, tensor in zip(matrices, rounded, strict=True):
            _read(each.node, tensor)


def _read(node: Node, weights: Tensor) -> None:
    node.inputs = [node.inputs[0], weights, *node.inputs[2:]]
