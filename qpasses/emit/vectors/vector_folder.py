"""A folder of test vectors: the model, samples, all that is stored for them, and an index."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from qpasses.emit.model_file import model_files, weights_place
from qpasses.emit.vectors.c_arrays import (
    SOURCES,
    array_header,
    array_name,
    is_written,
    source,
    table_header,
)
from qpasses.emit.vectors.tensor_names import file_stems
from qpasses.emit.whole_files import Content
from qpasses.ir.graph import Node, Tensor, constant
from qpasses.ir.record import AnyQuantization
from qpasses.load.integer_model import IntegerModel

SCHEMA = "qpasses-vectors-1"

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Sample:
    """``real`` numbers as they were given, and by stored tensor its integers."""

    name: str
    real: Arrays
    stored: Arrays


@dataclass(frozen=True)
class Vectors:
    """What was written: the names of samples, how many tensors and constants."""

    samples: Sequence[str]
    tensors: int
    constants: int


@dataclass
class VectorFolder:
    """The files of a folder, made one after the other while ``samples`` are run.

    ``writers``: by stored tensor the node that writes it, None of an input, in order.
    """

    read: IntegerModel
    writers: Mapping[str, Node | None]
    samples: Iterable[Sample]
    _names: list[str] = field(default_factory=list)
    _shapes: dict[str, list[int]] = field(default_factory=dict)

    def files(self) -> Iterator[tuple[str, Content]]:
        """Each path and what is there; the index comes last."""
        model, output = self.read.model, Path("model.onnx")
        place = weights_place(model, output, apart=False)
        for path, content in model_files(model, output, place).items():
            yield str(path), content
        for name in SOURCES:
            yield f"c/{name}", [source(name)]
        stems = file_stems(list(self._constants))
        for name, values in self._constants.items():
            yield f"constants/{stems[name]}.npy", [_npy(values)]
            if is_written(values):
                identifier = array_name("constants", stems[name])
                header = array_header(identifier, name, values)
                yield f"c/constants/{stems[name]}.h", header
        for each in self.samples:
            yield from self._sample(each, f"{len(self._names):04d}")
            self._names.append(each.name)
        yield "index.json", [(json.dumps(self._index(), indent=1) + "\n").encode()]

    def done(self) -> Vectors:
        """What was written, once it is."""
        return Vectors(self._names, len(self.writers), len(self._constants))

    def _sample(self, sample: Sample, folder: str) -> Iterator[tuple[str, Content]]:
        stems = file_stems([*self.writers])
        yield f"samples/{folder}.npz", [_npz(sample.real)]
        rows = []
        for tensor, node in self.writers.items():
            values = sample.stored[tensor]
            self._shapes.setdefault(tensor, list(values.shape))
            yield f"tensors/{folder}/{stems[tensor]}.npy", [_npy(values)]
            identifier = array_name(folder, stems[tensor])
            about = f"{tensor} of sample {sample.name}"
            yield f"c/{folder}/{stems[tensor]}.h", array_header(identifier, about, values)
            rows.append((tensor, "" if node is None else node.name, stems[tensor], values))
        yield f"c/{folder}.h", table_header(f"qp_s{folder}_tensors", folder, rows)

    @property
    def _constants(self) -> Arrays:
        """All that nodes read and does not vary, their axes in ONNX's order."""
        read = (tensor for node in self.read.graph.nodes for tensor in node.inputs)
        return {t.name: held for t in read if (held := constant(t)) is not None}

    def _index(self) -> dict[str, Any]:
        stems, constants = file_stems([*self.writers]), file_stems(list(self._constants))
        return {
            "schema": SCHEMA,
            "model": "model.onnx",
            "target": self.read.settings.target.name,
            "samples": [
                {"name": name, "file": f"samples/{i:04d}.npz", "tensors": f"tensors/{i:04d}"}
                for i, name in enumerate(self._names)
            ],
            "tensors": [
                {
                    "tensor": name,
                    "node": "" if node is None else node.name,
                    "op": "" if node is None else node.op,
                    "file": f"{stems[name]}.npy",
                    "header": f"{stems[name]}.h",
                    "shape": self._shapes[name],
                    **_meaning(self.read.record.tensors[name]),
                }
                for name, node in self.writers.items()
            ],
            "nodes": [_node(node) for node in self.read.graph.nodes],
            "constants": [
                {
                    "constant": name,
                    "file": f"constants/{constants[name]}.npy",
                    "header": f"c/constants/{constants[name]}.h" if is_written(held) else None,
                    "shape": list(held.shape),
                    "type": held.dtype.name,
                }
                for name, held in self._constants.items()
            ],
        }


def _meaning(stored: AnyQuantization) -> dict[str, Any]:
    """real = (stored - zero_point) * scale; both are lists where channels have their own."""
    scale, zero = np.ravel(stored.factors(1)).tolist(), np.ravel(stored.zero).tolist()
    axis = getattr(stored, "axis", None)
    return {
        "type": stored.dtype,
        "scale": scale if axis is not None else scale[0],
        "zero_point": zero if axis is not None else zero[0],
        "axis": axis,
        "codes": list(stored.limits),
    }


def _node(node: Node) -> dict[str, Any]:
    """A node by its names, as ONNX has its axes."""
    is_op = node.domain == DOMAIN
    names = [*OPS[node.op].inputs] if is_op else map(str, range(len(node.inputs)))
    plain = {n: v for n, v in node.attrs.items() if isinstance(v, int | float | str | list)}
    return {
        "node": node.name,
        "op": node.op,
        "formula": OPS[node.op].formula if is_op else "",
        "attributes": {n: v for n, v in plain.items() if _is_json(v)},
        "inputs": [_read(name, t) for name, t in zip(names, node.inputs, strict=True)],
        "outputs": [tensor.name for tensor in node.outputs],
    }


def _is_json(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return all(isinstance(each, int | float | str) for each in values)


def _read(name: str, tensor: Tensor) -> dict[str, str]:
    kind = "tensor" if constant(tensor) is None else "constant"
    return {"input": name, kind: tensor.name}


def _npy(values: NDArray[Any]) -> bytes:
    stream = BytesIO()
    np.save(stream, np.ascontiguousarray(values).reshape(values.shape), allow_pickle=False)
    return stream.getvalue()


def _npz(arrays: Arrays) -> bytes:
    stream = BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    return stream.getvalue()
