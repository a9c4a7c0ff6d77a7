"""The integer graph, looked into: all its stored tensors, by themselves and on given codes."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from calibration import Session
from calibration.inputs import Feed
from calibration.pieces import Parts
from qpasses.analysis.kept import Kept
from qpasses.analysis.piece import Piece
from qpasses.analysis.regions import Region, regions_of
from qpasses.checking.simulated import given_name, read_given
from qpasses.ir.edges import Edges
from qpasses.load.integer_model import IntegerModel

Codes = dict[str, NDArray[Any]]
"""By stored tensor, its integers, in the order of axes that ONNX has."""


class Inside:
    """An integer graph that gives the codes of the stored tensors ``names``.

    In ``run`` as it is; ``apart`` each node reads the codes that it is given, so that what it
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
        pairs, stored = _apart(read.model, self.names), {*self.names}
        self._pieces = {name: pair for pair in pairs for name in pair[0].writes}
        # what others read in float
        self._between = [pair for pair in pairs if not stored.issuperset(pair[0].writes)]

    def run(self, feed: Feed, sample: str) -> tuple[Codes, list[Any]]:
        """On ``feed`` of the float model; and its outputs in real numbers."""
        wanted = [*self._outputs, *self.names]
        found = self._whole.run(wanted, self._edges.feed(feed), sample)
        count = len(self._outputs)
        return self._as_onnx(found[count:]), self._edges.real(found[:count])

    @contextmanager
    def apart(
        self, feed: Feed, codes: Callable[[str], NDArray[Any]]
    ) -> Iterator[Callable[[str], NDArray[Any]]]:
        """What the node that writes a tensor makes of the ``codes`` of what is stored."""
        with closing(Kept()) as others:
            others.update(self._edges.feed(feed))

            def run(region: Region, piece: Piece) -> list[Any]:
                given = self._given
                return piece.run(
                    {
                        name: self._as_in_file(given[name], codes(given[name]))
                        if name in given
                        else others[name]
                        for name in region.reads
                    }
                )

            def written(name: str) -> NDArray[Any]:
                region, piece = self._pieces[name]
                found = run(region, piece)[piece.writes.index(name)]
                return self._record.as_onnx(name, found)

            for region, piece in self._between:
                others.update(zip(region.writes, run(region, piece), strict=True))
            yield written

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


def _apart(model: onnx.ModelProto, names: Collection[str]) -> list[tuple[Region, Piece]]:
    """The nodes between stored tensors, which they are given, in an order to run them in."""
    cut, graph = {name: given_name(name) for name in names}, onnx.GraphProto()
    graph.node.extend(model.graph.node)
    for node in graph.node:
        read_given(node, cut)
    given = {value.name for value in model.graph.input} | {*cut.values()}
    parts, found = Parts(model), []
    for region in regions_of(graph, {*names}, given):
        nodes = [graph.node[place] for place in region.places]
        found.append((region, Piece(parts, nodes, region.writes, optimize=False)))
    return found
