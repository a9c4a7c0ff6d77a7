"""Models of thousands of function calls, in pieces: onnxruntime loads one in quadratic time.

It writes each function out, and looks for each constant that this leaves behind among all
others. Pieces compute what the whole does: they are its nodes, in its order, with its
functions and weights, and hand tensors on.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias

import onnx
from numpy.typing import NDArray

from calibration.inputs import Feed
from calibration.large_weights import GRAPHS, names_read
from calibration.session import Session

FEW = 16_384
"""A model whose functions have no more nodes than that is loaded whole, in a second or two."""

PIECE = 1024
"""Of about so many nodes is a piece: 150 convolutions with fast bodies, 12 with portable."""

_Key: TypeAlias = tuple[str, str, str]
"""Of a function: domain, name, overload."""


def loaded(model: onnx.ModelProto, **options: Any) -> "Session | Pieces":
    """``model`` in onnxruntime, whole or in pieces; ``options`` are those of ``Session``.

    Whole too where the type of a tensor that pieces would hand on is not known. Raises
    ModelError if onnxruntime cannot load it.
    """
    drafts = drafted(model, _cuts(model))
    return Pieces(model, drafts, options) if drafts else Session(model, **options)


@dataclass(frozen=True)
class Draft:
    """Nodes of a piece: what it reads of others, and what it hands on or gives.

    ``ended``: what it reads and no later piece does.
    """

    nodes: Sequence[onnx.NodeProto]
    read: Sequence[str]
    handed_on: Sequence[str]
    given: Sequence[str]
    ended: Sequence[str]


class Pieces:
    """A model that runs as ``Session`` does, piece after piece, each on one thread."""

    def __init__(
        self, model: onnx.ModelProto, drafts: Sequence[Draft], options: Mapping[str, Any]
    ) -> None:
        """Load what is drafted of ``model``. Raises ModelError."""
        self.outputs = [value.name for value in model.graph.output]
        parts = Parts(model)

        def load(draft: Draft) -> Session:
            return Session(parts.of(draft), **{**options, "threads": 1})

        with ThreadPoolExecutor(os.cpu_count()) as threads:
            self._pieces = list(zip(drafts, threads.map(load, drafts), strict=True))

    def run(
        self, outputs: Sequence[str] | None, feed: Feed, sample: str = ""
    ) -> list[NDArray[Any]]:
        """As ``Session.run``. Raises ModelError."""
        wanted = self.outputs if outputs is None else outputs
        asked = set(wanted)
        values: dict[str, Any] = dict(feed)
        for draft, session in self._pieces:
            names = [*draft.handed_on, *(name for name in draft.given if name in asked)]
            feed = {name: values[name] for name in draft.read}
            if names:
                values.update(zip(names, session.run(names, feed, sample), strict=True))
            for name in draft.ended:
                if name not in asked:
                    del values[name]
        return [values[name] for name in wanted]


def drafted(model: onnx.ModelProto, cuts: Sequence[range]) -> list[Draft]:
    """The pieces of a model, by the places of their nodes; none where that cannot be."""
    graph = model.graph
    weights = {tensor.name for tensor in graph.initializer}
    there = {value.name for value in graph.input}
    if not cuts or weights & there or graph.sparse_initializer:
        return []
    typed = {v.name for v in _values(graph) if v.HasField("type")}
    ends = {value.name for value in graph.output}
    reads = [names_read(graph.node[each.start : each.stop]) for each in cuts]
    last = {name: place for place, names in enumerate(reads) for name in names}
    drafts = []
    for place, (cut, names) in enumerate(zip(cuts, reads, strict=True)):
        nodes = graph.node[cut.start : cut.stop]
        read = [name for name in names if name in there]
        if not typed.issuperset(read):
            return []
        written = [name for node in nodes for name in node.output if name]
        handed_on = [name for name in written if last.get(name, place) > place]
        given = [name for name in written if name in ends and name not in set(handed_on)]
        ended = [name for name in read if last[name] == place]
        drafts.append(Draft(nodes, read, handed_on, given, ended))
        there.update(written)
    return drafts


def _cuts(model: onnx.ModelProto) -> list[range]:
    """The places of the nodes of each piece; none where there are few."""
    sizes = {(f.domain, f.name, f.overload): len(f.node) for f in model.functions}
    counts = [
        sizes.get((node.domain, node.op_type, node.overload), 1) for node in model.graph.node
    ]
    if sum(counts) <= FEW or not model.functions:
        return []
    begins, size = [0], 0
    for place, count in enumerate(counts):
        if size and size + count > PIECE:
            begins.append(place)
            size = 0
        size += count
    return [range(*ends) for ends in zip(begins, [*begins[1:], len(counts)], strict=True)]


class Parts:
    """Parts of ``model``, as models."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._model = model
        self._weights = {tensor.name: tensor for tensor in model.graph.initializer}
        self._known = {value.name: value for value in _values(model.graph)}
        self._functions = {(f.domain, f.name, f.overload): f for f in model.functions}

    def of(self, draft: Draft) -> onnx.ModelProto:
        """What is drafted."""
        known = self._known
        ends = dict.fromkeys([*draft.handed_on, *draft.given])
        inputs = [known[name] for name in draft.read]
        made = self.model_of(draft.nodes, inputs, [known.get(n, _named(n)) for n in ends])
        inner = (name for node in draft.nodes for name in node.output if name not in ends)
        made.graph.value_info.extend(known[name] for name in inner if name in known)
        return made

    def model_of(
        self,
        nodes: Sequence[onnx.NodeProto],
        inputs: Iterable[onnx.ValueInfoProto],
        outputs: Iterable[onnx.ValueInfoProto],
    ) -> onnx.ModelProto:
        """These nodes, with the weights that they read and the functions that they call."""
        made = onnx.ModelProto(ir_version=self._model.ir_version)
        made.opset_import.extend(self._model.opset_import)
        made.functions.extend(_called(nodes, self._functions))
        graph, weights = made.graph, self._weights
        graph.name = self._model.graph.name
        graph.node.extend(nodes)
        graph.initializer.extend(weights[n] for n in names_read(nodes) if n in weights)
        graph.input.extend(inputs)
        graph.output.extend(outputs)
        return made


def _named(name: str) -> onnx.ValueInfoProto:
    return onnx.ValueInfoProto(name=name)


def _called(
    nodes: Iterable[onnx.NodeProto], functions: Mapping[_Key, onnx.FunctionProto]
) -> Iterable[onnx.FunctionProto]:
    """Those of ``functions`` that ``nodes`` call, their subgraphs, or what is called so."""
    found, waiting = dict[_Key, onnx.FunctionProto](), list(nodes)
    while waiting:
        node = waiting.pop()
        for attribute in node.attribute:
            if attribute.type in GRAPHS:
                for graph in [attribute.g, *attribute.graphs]:
                    waiting += graph.node
        key = node.domain, node.op_type, node.overload
        if key in functions and key not in found:
            found[key] = functions[key]
            waiting += functions[key].node
    return found.values()


def _values(graph: onnx.GraphProto) -> Iterator[onnx.ValueInfoProto]:
    """All that ``graph`` says of its tensors."""
    yield from graph.value_info
    yield from graph.input
    yield from graph.output
