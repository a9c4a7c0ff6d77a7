"""The biases of a graph: constants that are added to products, before and behind placing."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration import Samples, Session
from qpasses.ir.graph import Graph, Node, Tensor, constant, producer
from qpasses.ir.interchange import prepared_model
from qpasses.ir.progress import Progress
from qpasses.ir.stages import CLAMPING
from qpasses.recover.channel_means import add_means
from qpasses.recover.on_samples import each_of

Means = NDArray[np.float64]
"""Real: the mean of each channel of a tensor on each sample, [samples, channels]."""


@dataclass(frozen=True)
class Home:
    """Where a bias is added: the node that does, which of its inputs it is, and its product.

    ``matrix``: the node that multiplies, often the same one.
    """

    matrix: Node
    node: Node
    place: int

    @property
    def sum(self) -> Tensor:
        """What the node gives."""
        return self.node.outputs[0]

    @property
    def layout(self) -> tuple[int, int]:
        """Its rank, and the axis of its channels."""
        rank = len(self.sum.shape)
        return rank, 1 if self.node.op == "Conv" else rank - 1

    @property
    def dequantize(self) -> Node | None:
        """The node behind the stored bias, if it is stored."""
        node = producer(self.node.inputs[self.place])
        if node is None or node.op != "DequantizeLinear":
            return None
        return node if constant(node.inputs[0]) is not None else None


def homes(graph: Graph, matrices: Collection[str]) -> list[Home]:
    """Of the biases of these nodes, by name, in graph order; those of sums of known rank."""
    found = []
    for node in graph.nodes:
        if node.name in matrices:
            home = _home(node)
            if home is not None and home.sum.shape is not None:
                found.append(home)
    return found


def _home(node: Node) -> Home | None:
    if node.op != "MatMul":
        has_bias = len(node.inputs) > 2 and not node.inputs[2].is_empty()
        return Home(node, node, 2) if has_bias else None
    (product,) = node.outputs
    add = product.outputs[0] if len(product.outputs) == 1 else None
    if add is None or add.op != "Add":
        return None
    place = next(k for k, tensor in enumerate(add.inputs) if tensor is not product)
    return Home(node, add, place)


def means_of(
    graph: Graph, found: Collection[Home], samples: Samples, progress: Progress
) -> Mapping[str, Means]:
    """What the float ``graph`` gives on ``samples``, by the name of the node that adds."""
    model = prepared_model(graph)
    del model.graph.output[:]
    names = add_means(model, {each.sum.name: each.layout for each in found})
    session = Session(model, threads=1)
    advance = progress("look at sums", len(samples))

    def run(place: int) -> list[NDArray[Any]]:
        means = session.run(names, samples.read(place), samples.name(place))
        advance()
        return means

    rows = each_of(len(samples), run)
    return {
        each.node.name: np.array(column, np.float64)
        for each, column in zip(found, zip(*rows, strict=True), strict=True)
    }


@dataclass(frozen=True)
class Bias:
    """A stored bias, int32 [channels]: where it is added, the real size of its steps.

    ``y_steps``: the real step of what the sum is stored as, one or one for each channel.
    """

    home: Home
    stored: Tensor
    steps: NDArray[np.float64]
    y_steps: NDArray[np.float64]

    @classmethod
    def of(cls, home: Home) -> "Bias | None":
        """That of a Q/DQ graph; None where it, or the sum, is not stored."""
        dequantize, y_steps = home.dequantize, _steps_behind(home.sum)
        if dequantize is None or y_steps is None:
            return None
        stored, scale = dequantize.inputs[:2]
        values = np.asarray(constant(stored))
        if values.dtype != np.int32 or values.ndim != 1:
            return None
        steps = np.asarray(constant(scale), np.float64).reshape(-1)
        return cls(home, stored, np.broadcast_to(steps, values.shape), y_steps)

    @property
    def codes(self) -> NDArray[np.int32]:
        """What is stored now."""
        return np.asarray(self.stored.values)

    def store(self, codes: NDArray[np.int32]) -> None:
        """Store others."""
        self.stored.values = codes


def _steps_behind(tensor: Tensor) -> NDArray[np.float64] | None:
    """The step of the first codes of a sum, or of what only clamps it."""
    for reader in tensor.outputs:
        if reader.op == "QuantizeLinear":
            return np.asarray(constant(reader.inputs[1]), np.float64).reshape(-1)
    for reader in tensor.outputs:
        if reader.op in CLAMPING and (found := _steps_behind(reader.outputs[0])) is not None:
            return found
    return None
