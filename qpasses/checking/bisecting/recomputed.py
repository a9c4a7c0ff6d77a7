"""Recomputing: every node of an integer model, from tensors that are given to it."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from calibration.inputs import Feed
from calibration.large_weights import names_read
from calibration.pieces import loaded
from qpasses.checking.bisecting.stored_tensors import StoredTensors
from qpasses.emit.overloads import with_bodies

Stored = Mapping[str, NDArray[Any]]
"""Stored integers by tensor, their axes as ONNX has them."""

_MADE = ".recomputed"
"""What nodes write where their tensor is given."""


class Recomputed:
    """The integer model by its portable bodies, whose nodes read ``given`` tensors.

    What is not given they read of the nodes before. ``wanted`` is what is recomputed;
    ``needed``: the inputs of the model that it takes.
    """

    def __init__(
        self, stored: StoredTensors, given: Collection[str], wanted: Sequence[str]
    ) -> None:
        read = stored.read
        self._record, self._wanted = read.record, wanted
        model = with_bodies(read.model, "portable", (read.graph, read.record))
        self._names = [f"{name}{_MADE}" if name in given else name for name in wanted]
        _read_given(model, {name: stored.meaning(name).dtype for name in given})
        _give(model, dict(zip(self._names, wanted, strict=True)), stored)
        self.needed = _prune(model)
        self._given = [name for name in given if name in self.needed]
        self._session = loaded(model, optimize=False) if wanted else None

    def run(self, feed: Feed, given: Stored, sample: str) -> Stored:
        """What the ``wanted`` tensors become. Raises ModelError."""
        if self._session is None:
            return {}
        inputs: dict[str, Any] = {n: each for n, each in feed.items() if n in self.needed}
        for name in self._given:
            order = self._record.orders.get(name)
            values = given[name] if order is None else np.transpose(given[name], order)
            inputs[name] = np.ascontiguousarray(values)
        found = self._session.run(self._names, inputs, sample)
        return {
            name: self._record.as_onnx(name, values)
            for name, values in zip(self._wanted, found, strict=True)
        }


def _read_given(model: onnx.ModelProto, types: Mapping[str, str]) -> None:
    """Let tensors come from outside; who wrote them writes another one."""
    graph = model.graph
    inputs = {value.name for value in graph.input}
    for node in graph.node:
        node.output[:] = [f"{name}{_MADE}" if name in types else name for name in node.output]
    graph.input.extend(
        helper.make_tensor_value_info(name, _element_type(dtype), None)
        for name, dtype in types.items()
        if name not in inputs
    )
    others = [value for value in graph.value_info if value.name not in types]
    del graph.value_info[:]
    graph.value_info.extend(others)


def _give(model: onnx.ModelProto, names: Mapping[str, str], stored: StoredTensors) -> None:
    del model.graph.output[:]
    model.graph.output.extend(
        helper.make_tensor_value_info(name, _element_type(stored.meaning(tensor).dtype), None)
        for name, tensor in names.items()
    )


def _element_type(dtype: str) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _prune(model: onnx.ModelProto) -> Collection[str]:
    """Leave out the nodes and inputs that no output needs; the inputs that are left."""
    graph, kept = model.graph, []
    wanted = {value.name for value in graph.output}
    for node in reversed(graph.node):
        if wanted.intersection(node.output):
            kept.append(node)
            wanted.update(names_read([node]))
    nodes = [*reversed(kept)]
    del graph.node[:]
    graph.node.extend(nodes)
    inputs = [value for value in graph.input if value.name in wanted]
    del graph.input[:]
    graph.input.extend(inputs)
    constants = {tensor.name for tensor in graph.initializer}
    return {value.name for value in inputs} - constants
