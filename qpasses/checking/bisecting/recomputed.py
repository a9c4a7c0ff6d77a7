"""Recomputing: every node of an integer model, from tensors that are given to it.

Branches are taken, and loops turn, as in the exact run, whose conditions are given too.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from calibration.inputs import Feed
from calibration.large_weights import names_read
from calibration.pieces import loaded
from qpasses.checking.bisecting.given_tensors import MADE, read_given
from qpasses.checking.bisecting.stored_tensors import StoredTensors
from qpasses.emit.overloads import with_bodies

Stored = Mapping[str, NDArray[Any]]
"""Stored integers by tensor, their axes as ONNX has them."""


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
        self._types = {name: stored.element_type(name) for name in {*given, *wanted}}
        model = with_bodies(read.model, "portable", (read.graph, read.record))
        self._names = [f"{name}{MADE}" if name in given else name for name in wanted]
        inputs = read_given(model, {name: self._types[name] for name in given})
        _give(model, dict(zip(self._names, wanted, strict=True)), self._types)
        left = {*_prune(model)}
        self._given = {name: each for name, each in inputs.items() if each.name in left}
        self.needed = left - {each.name for each in inputs.values()} | self._given.keys()
        self._session = loaded(model, optimize=False) if wanted else None

    def run(self, feed: Feed, given: Stored, sample: str) -> Stored:
        """What the ``wanted`` tensors become. Raises ModelError."""
        if self._session is None:
            return {}
        inputs: dict[str, Any] = {n: each for n, each in feed.items() if n in self.needed}
        for name, each in self._given.items():
            values = self._record.as_stored(name, given[name])
            inputs[each.name] = np.ascontiguousarray(
                values.ravel() if each.is_flat else values
            )
        found = self._session.run(self._names, inputs, sample)
        return {
            name: self._record.as_onnx(name, values)
            for name, values in zip(self._wanted, found, strict=True)
        }


def _give(model: onnx.ModelProto, names: Mapping[str, str], types: Mapping[str, int]) -> None:
    del model.graph.output[:]
    model.graph.output.extend(
        helper.make_tensor_value_info(name, types[tensor], None)
        for name, tensor in names.items()
    )


def _prune(model: onnx.ModelProto) -> Collection[str]:
    """Leave out the nodes and inputs that no output needs; the inputs that are left."""
    graph, kept = model.graph, []
    wanted = {value.name for value in graph.output}
    for node in reversed(graph.node):
        if wanted.intersection(_written(node)):
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


def _written(node: onnx.NodeProto) -> Iterator[str]:
    """What ``node`` writes, in its bodies too."""
    yield from node.output
    for body in (each.g for each in node.attribute if each.HasField("g")):
        yield from (value.name for value in body.input)
        for inner in body.node:
            yield from _written(inner)
