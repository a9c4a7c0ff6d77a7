"""A model whose tensors are looked at as they are written.

onnxruntime optimizes the model once, with the wanted tensors as outputs. What it makes of it
runs with all its fusions. Where C counts, a node of its own behind each wanted tensor counts
it while it is in the cache, and nothing else is an output; where numpy counts, the tensors are
outputs. Those in the blocked layout of onnxruntime's convolutions are taken as they are: their
values only stand in another order, those of a block of channels in turns.
"""

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import onnx
from onnx import TensorProto, ValueInfoProto, helper

from calibration.accumulator import Accumulator
from calibration.counting import CompiledCounter, Counter, Values
from calibration.held_weights import names_held, weight_bytes
from calibration.inputs import Feed, tensors
from calibration.large_weights import names_read, no_room
from calibration.memory import give_back
from calibration.session import Session, takes_layouts
from calibration.silent import ort

_LARGEST_BLOCK = 16
"""onnxruntime's blocks hold 4, 8 or 16 channels: multiples of this need no padding."""

_WRITING = {
    "session.optimized_model_external_initializers_file_name": "weights",
    "session.optimized_model_external_initializers_min_size_in_bytes": "1024",
}
"""The optimized model's weights lie in a file that is mapped into memory."""

_NOT_PACKED = {"session.disable_prepacking": "1"}
"""What only writes a model runs nothing: it need not pack weights where they are many. To say
so costs onnxruntime a time that is quadratic in their number: 35 s for 20,000 Convs."""

_DOMAIN = "qpasses"
_DESK = "the tally's desk"
_DONE = "(all is observed)"


class ObservedModel(ABC):
    """A model loaded to run on one thread, some of its tensors observed; a context manager.

    May be run by several threads at once.
    """

    def __init__(self, model: onnx.ModelProto, tensors: Sequence[str]) -> None:
        self.tensors = tensors
        self._folder = tempfile.TemporaryDirectory(prefix="qpasses-")
        folder = Path(self._folder.name)
        try:
            self._session = self._load(model, folder) if tensors else None
        except BaseException as error:
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
        self._session = None
        self._folder.cleanup()

    def _load(self, model: onnx.ModelProto, folder: Path) -> Session:
        optimized = _optimized(model, self.tensors, folder)
        graph = optimized.graph
        blocked = _blocked(graph)
        self._blocks = {n: _block() if n in blocked else 1 for n in self.tensors}
        places = _taken(optimized, self.tensors, blocked)
        del graph.output[:]
        operators = self._look_at(optimized, places)
        path = folder / "observed.onnx"
        path.write_bytes(optimized.SerializeToString())
        give_back(weight_bytes(model))
        return Session(path, optimize=False, threads=1, arena=True, operators=operators)

    @abstractmethod
    def _look_at(self, model: onnx.ModelProto, places: Mapping[str, str]) -> Path | None:
        """Give ``model`` outputs, and nodes if they need a library of operators: its path."""

    @abstractmethod
    def observe(self, feed: Feed, into: Accumulator, sample: str = "") -> None:
        """Run on one feed. Raises ModelError."""


class ShownModel(ObservedModel):
    """Tensors are outputs."""

    def _look_at(self, model: onnx.ModelProto, places: Mapping[str, str]) -> None:
        """See ObservedModel."""
        model.graph.output.extend(
            helper.make_tensor_value_info(places[name], TensorProto.FLOAT, None)
            for name in self.tensors
        )

    def run(self, feed: Feed, sample: str = "") -> list[Values]:
        """The values of each tensor for one feed. Raises ModelError."""
        if self._session is None:
            return []
        is_text = any(each.dtype == np.dtype(object) for each in tensors(feed).values())
        if is_text or len(tensors(feed)) < len(feed):  # onnxruntime makes none of these here
            copies = self._session.run(self._session.outputs, feed, sample)
            arrays = [np.ascontiguousarray(each, np.float32) for each in copies]
            return [
                replace(Values.of(array), block=self._blocks[name])
                for name, array in zip(self.tensors, arrays, strict=True)
            ]
        given = {
            name: ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))
            for name, array in tensors(feed).items()
        }
        found = self._session.run_in_place(self._session.outputs, given, sample)
        return [
            Values(v.data_ptr(), v.tensor_size_in_bytes() // 4, v, v.shape(), self._blocks[n])
            for n, v in zip(self.tensors, found, strict=True)
        ]

    def observe(self, feed: Feed, into: Accumulator, sample: str = "") -> None:
        """See ObservedModel."""
        into.take(self.tensors, self.run(feed, sample))


class CountingModel(ObservedModel):
    """Tensors are counted by nodes of the graph.

    ``rows``: where each tensor is in the tallies; ``library``: of the op Observe, see
    counting.py.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        tensors: Sequence[str],
        rows: Mapping[str, int],
        library: Path,
    ) -> None:
        self._rows, self._library = rows, library
        super().__init__(model, tensors)

    def _look_at(self, model: onnx.ModelProto, places: Mapping[str, str]) -> Path:
        """See ObservedModel; each node stands right behind what writes its tensor."""
        graph = model.graph
        at: dict[str, list[onnx.NodeProto]] = {}
        for name, place in places.items():
            names, done = [place, _DESK], [f"{name} is observed"]
            node = helper.make_node(
                *("Observe", names, done),
                domain=_DOMAIN,
                row=self._rows[name],
                block=self._blocks[name],
            )
            at.setdefault(place, []).append(node)
        nodes = [*graph.node]
        del graph.node[:]
        for node in nodes:
            graph.node.append(node)
            graph.node.extend(each for name in node.output for each in at.get(name, ()))
        done = [f"{name} is observed" for name in places]
        graph.node.append(helper.make_node("Concat", done, [_DONE], axis=0))
        graph.input.append(helper.make_tensor_value_info(_DESK, TensorProto.INT64, [None]))
        graph.output.append(helper.make_tensor_value_info(_DONE, TensorProto.INT64, [None]))
        model.opset_import.append(helper.make_opsetid(_DOMAIN, 1))
        return self._library

    def observe(self, feed: Feed, into: Accumulator, sample: str = "") -> None:
        """See ObservedModel."""
        if self._session is not None:
            self._session.run([_DONE], {**feed, _DESK: into.tally.desk}, sample)


def observed_model(
    model: onnx.ModelProto, tensors: Sequence[str], counter: Counter, rows: Mapping[str, int]
) -> ObservedModel:
    """``model`` loaded, ``tensors`` observed as ``counter`` can do it best.

    ``tensors`` are float32 tensors that nodes of the main graph write, ``rows`` their places
    in the tallies. Raises ModelError if onnxruntime cannot load the model, UsageError where
    temporary files cannot be written.
    """
    if isinstance(counter, CompiledCounter):
        return CountingModel(model, tensors, rows, counter.library)
    return ShownModel(model, tensors)


def _optimized(
    model: onnx.ModelProto, tensors: Sequence[str], folder: Path
) -> onnx.ModelProto:
    """What onnxruntime makes of ``model`` with ``tensors`` as its outputs."""
    known = {value.name: value for value in [*model.graph.value_info, *model.graph.output]}
    outputs = [known.get(name, ValueInfoProto(name=name)) for name in tensors]
    path = folder / "optimized.onnx"
    Session(
        model,
        threads=1,
        config=_WRITING | (_NOT_PACKED if names_held(model) else {}),
        optimized=path,
        layouts=takes_layouts(model),
        outputs=outputs,
    )
    give_back(weight_bytes(model))
    return onnx.load(path, load_external_data=False)


@cache
def _block() -> int:
    """Of how many channels onnxruntime's blocks are here: a single one is padded to one."""
    made = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        "block",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 1, 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 1, 1])],
        [helper.make_tensor("w", TensorProto.FLOAT, [1, 1, 1, 1], [1.0])],
    )
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(made, opset_imports=opset, ir_version=8)
    with tempfile.TemporaryDirectory(prefix="qpasses-") as folder:
        path = Path(folder) / "optimized.onnx"
        Session(model, threads=1, optimized=path)
        return int(onnx.load(path).graph.initializer[0].dims[0])


def _blocked(graph: onnx.GraphProto) -> dict[str, str]:
    """Tensors that are only reordered from onnxruntime's layout: those that hold their values.

    Of channels along axis 1, without padding.
    """
    return {
        node.output[0]: node.input[0]
        for node in graph.node
        if node.op_type == "ReorderOutput"
        and helper.get_node_attr_value(node, "channels") % _LARGEST_BLOCK == 0
        and not helper.get_node_attr_value(node, "channels_last")
    }


def _taken(
    model: onnx.ModelProto, tensors: Sequence[str], blocked: Mapping[str, str]
) -> dict[str, str]:
    """For each tensor the one that holds its values: before it is reordered if possible.

    What only reorders is taken out of ``model``, and all else that no tensor depends on. What
    was found to be constant is written by a node again.
    """
    graph = model.graph
    places = {name: blocked.get(name, name) for name in tensors}
    for constant in {tensor.name for tensor in graph.initializer} & places.keys():
        places[constant] = f"{constant} as it is"
        graph.node.append(helper.make_node("Identity", [constant], [places[constant]]))
    used, kept = {*places.values()}, []
    for node in reversed(graph.node):
        if used & {*node.output}:
            kept.append(node)
            used.update(names_read([node]))
    del graph.node[:]
    graph.node.extend(reversed(kept))
    return places
