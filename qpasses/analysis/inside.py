"""The integer graph, looked into: all its stored tensors, by themselves and on given codes."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from calibration import Session
from calibration.inputs import Feed
from qpasses.analysis.piece import Piece
from qpasses.analysis.regions import Region, regions_of
from qpasses.checking.simulated import given_name
from qpasses.ir.edges import Edges
from qpasses.load.integer_model import IntegerModel

Codes = dict[str, NDArray[Any]]
"""By stored tensor, its integers, in the order of axes that ONNX has."""


class Inside:
    """An integer graph that gives the codes of the stored tensors ``names``.

    In ``run`` as it is; in ``alone`` a node reads the codes that it is given, so that what it
    writes is its own doing.
    """

    def __init__(self, read: IntegerModel, edges: Edges, names: Collection[str]) -> None:
        self._record, self._edges = read.record, edges
        known = {value.name: value for value in read.model.graph.value_info}
        written = {name for node in read.model.graph.node for name in node.output}
        self.names = [name for name in names if name in written]
        self._outputs = [value.name for value in read.model.graph.output]
        self._whole = Session(_giving(read.model, self.names, known), optimize=False)
        self._given = {given_name(name): name for name in self.names}
        self._apart = _apart(read.model, self.names)

    def run(self, feed: Feed, sample: str) -> tuple[Codes, list[Any]]:
        """On ``feed`` of the float model; and its outputs in real numbers."""
        wanted = [*self._outputs, *self.names]
        found = self._whole.run(wanted, self._edges.feed(feed), sample)
        count = len(self._outputs)
        return self._as_onnx(found[count:]), self._edges.real(found[:count])

    def alone(self, name: str, feed: Feed, codes: Callable[[str], NDArray[Any]]) -> Any:
        """What the node that writes ``name`` makes of the ``codes`` of what is stored."""
        return self._record.as_onnx(name, self._written(name, self._edges.feed(feed), codes))

    def _written(
        self, name: str, inputs: Feed, codes: Callable[[str], NDArray[Any]]
    ) -> NDArray[Any]:
        region, piece = self._apart[name]
        values: dict[str, Any] = {}
        for read in region.reads:
            if stored := self._given.get(read):
                values[read] = self._as_in_file(stored, codes(stored))
            else:
                known = read in inputs
                values[read] = inputs[read] if known else self._written(read, inputs, codes)
        return np.asarray(piece.run(values)[piece.writes.index(name)])

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


def _apart(model: onnx.ModelProto, names: Collection[str]) -> dict[str, tuple[Region, Piece]]:
    """By tensor, the nodes that write it from stored ones, which they are given."""
    cut, graph = {name: given_name(name) for name in names}, onnx.GraphProto()
    graph.node.extend(model.graph.node)
    for node in graph.node:
        node.input[:] = [cut.get(name, name) for name in node.input]
    given = {value.name for value in model.graph.input} | {*cut.values()}
    found = {}
    for region in regions_of(graph, {*names}, given):
        nodes = [graph.node[place] for place in region.places]
        piece = Piece(model, nodes, region.writes, optimize=False)
        found.update(dict.fromkeys(region.writes, (region, piece)))
    return found
