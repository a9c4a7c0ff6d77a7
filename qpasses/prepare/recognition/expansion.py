"""Expansion: standard nodes in place of a fused one, named after it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpasses.ir.graph import Graph, Node, Tensor, add_node, input_at, is_used, new_tensor
from qpasses.ir.rewriting import Context

MICROSOFT = "com.microsoft"
"""The domain of the ops that onnxruntime's transformer optimizer writes."""


class Expansion:
    """Writes the nodes that compute what ``node`` did, which then is gone.

    ``inputs``: those it read, None where one is absent; ``y``: its first result.
    """

    def __init__(self, graph: Graph, node: Node, context: Context) -> None:
        """Take inputs and results over from ``node``."""
        self._graph, self._name, self._context = graph, node.name, context
        self.inputs = [input_at(node, index) for index in range(len(node.inputs))]
        self.outputs = list(node.outputs)
        self.y: Tensor = self.outputs[0]
        node.inputs.clear()
        node.outputs.clear()

    def given(self, index: int) -> Tensor | None:
        """Input ``index``, or None where it is absent."""
        return self.inputs[index] if index < len(self.inputs) else None

    def needed(self, index: int) -> Tensor:
        """Input ``index``, which is never absent."""
        tensor = self.inputs[index]
        assert tensor is not None, self._name
        return tensor

    def add(
        self,
        op: str,
        what: str,
        inputs: Sequence[Tensor],
        y: Tensor | None = None,
        *,
        dtype: type[np.generic] = np.float32,
        **attributes: Any,
    ) -> Tensor:
        """What a new node called after ``what`` makes: a new tensor of ``dtype``, or ``y``."""
        name = self._name if y is self.y else self._context.fresh(f"{self._name}_{what}")
        if y is None:
            y = new_tensor(self._context.fresh(f"{self.y.name}_{what}"), self.y, dtype)
            y.shape = None
        add_node(self._graph, op, name, inputs, [y], attributes=attributes)
        return y

    def constant(self, what: str, values: NDArray[Any]) -> Tensor:
        """A new constant of the node."""
        return self._context.constant(f"{self._name}.{what}", values)

    def number(self, what: str, value: float) -> Tensor:
        """A new constant of one number."""
        return self.constant(what, np.array(value, np.float32))


def is_fused(node: Node) -> bool:
    """Whether it is of onnxruntime's own domain, and in float32."""
    return bool(node.domain == MICROSOFT and node.outputs[0].dtype == np.float32)


def are_read(graph: Graph, outputs: Sequence[Tensor]) -> bool:
    """Whether anything reads one of these results."""
    return any(tensor.name and is_used(graph, tensor) for tensor in outputs)
