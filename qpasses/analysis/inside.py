"""The integer graph, looked into: all its stored tensors, by themselves and on given codes."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from calibration import Session
from calibration.inputs import Feed
from qpasses.checking.simulated import given_name
from qpasses.ir.edges import Edges
from qpasses.load.integer_model import IntegerModel

Codes = dict[str, NDArray[Any]]
"""By stored tensor, its integers, in the order of axes that ONNX has."""


class Inside:
    """An integer graph that gives the codes of the stored tensors ``names``.

    In ``run`` as it is; in ``run_apart`` each node reads the codes that it is given, so that
    what it writes is its own doing.
    """

    def __init__(self, read: IntegerModel, edges: Edges, names: Collection[str]) -> None:
        self._record, self._edges = read.record, edges
        known = {value.name: value for value in read.model.graph.value_info}
        written = {name for node in read.model.graph.node for name in node.output}
        self.names = [name for name in names if name in written]
        self._outputs = [value.name for value in read.model.graph.output]
        self._whole = Session(_giving(read.model, self.names, known), optimize=False)
        self._apart = Session(_cut(read.model, self.names, known), optimize=False)

    def run(self, feed: Feed, sample: str) -> tuple[Codes, list[Any]]:
        """On ``feed`` of the float model; and its outputs in real numbers."""
        wanted = [*self._outputs, *self.names]
        found = self._whole.run(wanted, self._edges.feed(feed), sample)
        count = len(self._outputs)
        return self._as_onnx(found[count:]), self._edges.real(found[:count])

    def run_apart(self, feed: Feed, codes: Mapping[str, NDArray[Any]], sample: str) -> Codes:
        """Of each node alone, on ``codes`` of all that is stored."""
        given = {given_name(n): self._as_in_file(n, codes[n]) for n in self.names}
        found = self._apart.run(self.names, {**self._edges.feed(feed), **given}, sample)
        return self._as_onnx(found)

    def _as_onnx(self, found: list[NDArray[Any]]) -> Codes:
        pairs = zip(self.names, found, strict=True)
        return {name: self._record.as_onnx(name, values) for name, values in pairs}

    def _as_in_file(self, name: str, codes: NDArray[Any]) -> NDArray[Any]:
        order = self._record.orders.get(name)
        return codes if order is None else np.ascontiguousarray(np.transpose(codes, order))


def _giving(
    model: onnx.ModelProto, names: Collection[str], known: Mapping[str, onnx.ValueInfoProto]
) -> onnx.ModelProto:
    """``model`` with these tensors as outputs too."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    own = {value.name for value in made.graph.output}
    made.graph.output.extend(known[name] for name in names if name not in own)
    return made


def _cut(
    model: onnx.ModelProto, names: Collection[str], known: Mapping[str, onnx.ValueInfoProto]
) -> onnx.ModelProto:
    """``model`` whose nodes read these tensors from inputs, of any sizes."""
    made = _giving(model, names, known)
    types = {value.name: value.type for value in made.graph.output}
    cut = {name: given_name(name) for name in names}
    for node in made.graph.node:
        node.input[:] = [cut.get(name, name) for name in node.input]
    made.graph.input.extend(
        onnx.ValueInfoProto(name=given, type=types[name]) for name, given in cut.items()
    )
    for value in made.graph.input[len(model.graph.input) :]:
        for size in value.type.tensor_type.shape.dim:
            size.Clear()
    return made
