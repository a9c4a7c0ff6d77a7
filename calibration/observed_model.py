"""A model taken apart so that its tensors can be looked at while they are in the cache.

onnxruntime optimizes the model once, with the wanted tensors as outputs, and what it makes of
it is cut into segments that run one after the other. So all its fusions stay, a tensor is
counted right after it was written and freed before the next segment, and memory stays that of
plain inference. Tensors in the blocked layout of its convolutions are taken as they are:
their values only stand in another order.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import TensorProto, ValueInfoProto, helper

from calibration.counting import Values
from calibration.memory import give_back
from calibration.session import Session
from calibration.weights import no_room, save_apart, weight_bytes

SEGMENT_BYTES = 2 << 20
"""Of wanted tensors in one segment: 2 to 8 MiB take about the same time."""

_BLOCK = 16
"""onnxruntime's blocks hold 4, 8 or 16 channels: multiples of this need no padding."""

_GRAPHS = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)

_SHARED = {"session.use_env_allocators": "1"}
"""All segments take memory from one arena, so that it is the same memory again and again."""

_WEIGHTS = {
    "session.optimized_model_external_initializers_file_name": "weights",
    "session.optimized_model_external_initializers_min_size_in_bytes": "1024",
}
"""The optimized model's weights lie in a file that all segments map into memory."""

Take = Callable[[Sequence[str], Sequence[Values]], None]
"""Called with names of wanted tensors and what they hold; it must not keep the memory."""


@dataclass(frozen=True)
class _Segment:
    """Nodes that run together.

    ``wanted`` are pairs of a tensor's name and where its values are; ``dead`` is what nothing
    behind this segment reads.
    """

    session: Session
    inputs: Sequence[str]
    outputs: Sequence[str]
    wanted: Sequence[tuple[str, str]]
    dead: Sequence[str]

    def run(self, alive: dict[str, ort.OrtValue], sample: str) -> None:
        """Put the outputs beside the inputs in ``alive``."""
        given = {name: alive[name] for name in self.inputs}
        found = self.session.run_in_place(self.outputs, given, sample)
        alive.update(zip(self.outputs, found, strict=True))


class ObservedModel:
    """``model`` loaded to run on one thread, ``tensors`` of it looked at; a context manager.

    May be run by several threads at once. ``tensors`` are float tensors that nodes of the main
    graph write. Raises ModelError if onnxruntime cannot load the model.
    """

    def __init__(self, model: onnx.ModelProto, tensors: Sequence[str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="qpasses-")
        try:
            self._segments = _segments(model, tensors, Path(self._folder.name))
        except BaseException as error:
            folder = Path(self._folder.name)
            self._folder.cleanup()
            if isinstance(error, OSError):
                raise no_room(folder, error) from error
            raise
        if os.name == "posix":  # what is mapped stays: nothing is left even by a killed run
            self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._segments = []
        self._folder.cleanup()

    def run(self, feed: Mapping[str, NDArray[Any]], take: Take, sample: str = "") -> None:
        """Run on one feed; ``take`` is called after each segment. Raises ModelError."""
        alive = {
            name: ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))
            for name, array in feed.items()
        }
        for each in self._segments:
            each.run(alive, sample)
            if each.wanted:
                take(
                    [name for name, _ in each.wanted],
                    [_values(alive[place]) for _, place in each.wanted],
                )
            for name in each.dead:
                del alive[name]


def _values(value: ort.OrtValue) -> Values:
    if value.data_type() != "tensor(float)":
        return Values.of(np.ascontiguousarray(value.numpy(), np.float32))
    return Values(value.data_ptr(), value.tensor_size_in_bytes() // 4, value)


def _segments(model: onnx.ModelProto, tensors: Sequence[str], folder: Path) -> list[_Segment]:
    if not tensors:
        return []
    _share_memory()
    optimized = _optimized(model, tensors, folder)
    places = _unblocked(optimized, tensors)
    graph = optimized.graph
    wanted = set(places.values())
    types = {value.name: value for value in [*graph.input, *graph.value_info, *graph.output]}
    for name, place in places.items():
        types.setdefault(place, _like(types.get(name), place))
    pieces = list(_cut(graph, wanted, types))
    kept = {tensor.name: tensor for tensor in graph.initializer}
    last = {name: i for i, nodes in enumerate(pieces) for name in _read(nodes)}
    given = {value.name for value in graph.input}
    segments = []
    for i, nodes in enumerate(pieces):
        written = [name for node in nodes for name in node.output if name]
        read = [name for name in _read(nodes) if name not in set(written)]
        inputs = [name for name in read if name in types and name not in kept]
        outputs = [t for t in written if t in wanted or last.get(t, -1) > i]
        piece = onnx.ModelProto()
        piece.ir_version = optimized.ir_version
        piece.opset_import.extend(optimized.opset_import)
        piece.functions.extend(optimized.functions)
        piece.graph.name = f"segment_{i}"
        piece.graph.node.extend(nodes)
        piece.graph.initializer.extend(kept[name] for name in read if name in kept)
        piece.graph.input.extend(types[name] for name in inputs)
        piece.graph.output.extend(types[name] for name in outputs)
        path = folder / f"segment_{i}.onnx"
        path.write_bytes(piece.SerializeToString())
        here = set(outputs)
        segments.append(
            _Segment(
                Session(path, optimize=False, threads=1, config=_SHARED),
                inputs,
                outputs,
                [(name, place) for name, place in places.items() if place in here],
                [
                    name
                    for name in {*inputs, *outputs}
                    if last.get(name, i) <= i and name not in given
                ],
            )
        )
    return segments


def _share_memory() -> None:
    """Make the arena that all segments use; it grows by what is asked for, not by doubling."""
    where = ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR
    memory = ort.OrtMemoryInfo("Cpu", where, 0, ort.OrtMemType.DEFAULT)
    ort.create_and_register_allocator(memory, ort.OrtArenaCfg({"arena_extend_strategy": 1}))


def _optimized(
    model: onnx.ModelProto, tensors: Sequence[str], folder: Path
) -> onnx.ModelProto:
    """What onnxruntime makes of ``model`` with ``tensors`` as its outputs."""
    known = {value.name: value for value in [*model.graph.value_info, *model.graph.output]}
    outputs = [known.get(name, ValueInfoProto(name=name)) for name in tensors]
    given = save_apart(model, folder, outputs)
    path = folder / "optimized.onnx"
    Session(given, threads=1, config=_SHARED | _WEIGHTS, optimized=path)
    (folder / "model.weights").unlink()
    give_back(weight_bytes(model))
    return onnx.load(path, load_external_data=False)


def _unblocked(model: onnx.ModelProto, tensors: Sequence[str]) -> dict[str, str]:
    """For each tensor the one that holds its values: before it is reordered if possible.

    What only reorders is taken out of ``model``, and all else that no tensor depends on. What
    was found to be constant is written by a node again.
    """
    graph = model.graph
    reordered = {
        node.output[0]: node.input[0]
        for node in graph.node
        if node.op_type == "ReorderOutput"
        and helper.get_node_attr_value(node, "channels") % _BLOCK == 0
    }
    places = {name: reordered.get(name, name) for name in tensors}
    for constant in {tensor.name for tensor in graph.initializer} & places.keys():
        places[constant] = f"{constant} as it is"
        graph.node.append(helper.make_node("Identity", [constant], [places[constant]]))
    used, kept = {*places.values()}, []
    for node in reversed(graph.node):
        if used & {*node.output}:
            kept.append(node)
            used.update(_read([node]))
    del graph.node[:]
    graph.node.extend(reversed(kept))
    return places


def _cut(
    graph: onnx.GraphProto, wanted: set[str], types: Mapping[str, ValueInfoProto]
) -> Iterator[list[onnx.NodeProto]]:
    """The nodes in order, cut where enough was written and all that lives on has a type."""
    last = {name: i for i, node in enumerate(graph.node) for name in _read([node])}
    untyped: set[str] = set()
    piece: list[onnx.NodeProto] = []
    size = 0
    for i, node in enumerate(graph.node):
        piece.append(node)
        size += sum(_bytes(types[name]) for name in node.output if name in wanted)
        untyped.update(t for t in node.output if t not in types and last.get(t, -1) > i)
        untyped = {name for name in untyped if last[name] > i}
        if size >= SEGMENT_BYTES and not untyped:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _read(nodes: Sequence[onnx.NodeProto]) -> list[str]:
    """What nodes and their subgraphs read, each once; some of it may be a subgraph's own."""
    names: dict[str, None] = {}
    for node in nodes:
        names.update(dict.fromkeys(name for name in node.input if name))
        for attribute in node.attribute:
            if attribute.type not in _GRAPHS:
                continue
            for graph in [attribute.g, *attribute.graphs]:
                names.update(dict.fromkeys(_read(graph.node)))
                names.update(dict.fromkeys(value.name for value in graph.output))
    return list(names)


def _like(value: ValueInfoProto | None, name: str) -> ValueInfoProto:
    """``name`` with the type of ``value``; float of any shape for None."""
    if value is None:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
    return helper.make_value_info(name, value.type)


def _bytes(value: ValueInfoProto) -> int:
    """4 for each element; free dimensions count as one, no shape as 64 Ki elements."""
    if not value.type.tensor_type.HasField("shape"):
        return 1 << 18
    sizes = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
    return 4 * int(np.prod(sizes))
