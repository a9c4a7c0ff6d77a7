"""Compared nodes: a model as what each of its nodes says, to be laid beside another."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.printer
from numpy.typing import NDArray

from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from qpasses.evidence.bodies import form
from qpasses.ir.graph import Graph, Node, Tensor, constant, is_graph, producer
from qpasses.ir.interchange import export_graph, import_graph
from qpasses.ir.record import AnyQuantization, Record
from qpasses.ir.stages import TABULATED
from qpasses.load.arguments import source_of
from qpasses.load.external_data import file_bytes
from qpasses.load.integer_model import claims_integers, read_integer_model


@dataclass(frozen=True)
class Compared:
    """One of the two models. ``file``, ``weights`` and ``tables`` are bytes.

    ``weights``: of all constants that are no tables; tables that nodes share count once.
    """

    path: str
    is_integer: bool
    nodes: int
    file: int
    weights: int
    tables: int


Place = tuple[str, int]
"""Who writes a tensor, and as which output; -1 of an input, which stands for itself."""


@dataclass(frozen=True)
class Entry:
    """A node: what it stands for, what it says, its numbers, who writes what it reads.

    ``writes``: tensors, as a float model calls them.
    """

    name: str
    op: str
    source: Sequence[str]
    facts: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]
    reads: Sequence[Place]
    writes: Sequence[str]


@dataclass(frozen=True)
class Side:
    """A model that was read: what is shown of it, its ends, its nodes by name.

    ``outputs``: who writes each.
    """

    compared: Compared
    float_sha256: str
    ends: Mapping[str, Any]
    outputs: Mapping[str, Place]
    entries: Mapping[str, Entry]


def read_side(model: onnx.ModelProto, path: Path) -> Side:
    """``model``, read leniently from ``path``; raises ModelError if it cannot be compared."""
    is_integer = claims_integers(model)
    if is_integer:
        read = read_integer_model(model, str(path))
        graph, record, sha256 = read.graph, read.record, read.about["float_sha256"]
    else:
        source = source_of(model, path)
        graph, record, sha256 = import_graph(source.model), Record(), source.sha256
    sizes = file_bytes(model, path), *_constant_bytes(graph)
    return Side(
        Compared(str(path), is_integer, len(graph.nodes), *sizes),
        sha256,
        dict(_ends(graph, record)),
        {tensor.name: _place(tensor) for tensor in graph.outputs},
        {node.name: _entry(node, record) for node in graph.nodes},
    )


def _constant_bytes(graph: Graph) -> tuple[int, int]:
    """Of weights and of tables, each counted once."""
    lookups = [node for node in graph.nodes if node.op in TABULATED]
    read = [node.inputs[len(OPS[node.op].data)] for node in lookups]
    tables = {id(tensor) for tensor in read if constant(tensor) is not None}
    sums = [0, 0]
    for tensor in graph.tensors().values():
        value = constant(tensor)
        sums[id(tensor) in tables] += 0 if value is None else value.nbytes
    return sums[0], sums[1]


def _ends(graph: Graph, record: Record) -> Iterator[tuple[str, Any]]:
    yield "opset", graph.opset
    for what, tensors in (("input", graph.inputs), ("output", graph.outputs)):
        for tensor in tensors:
            shape = "" if tensor.shape is None else f"[{', '.join(map(str, tensor.shape))}]"
            stored = record.tensors.get(tensor.name)
            meaning = "" if stored is None else f", {stored.as_json()}"
            yield f"{what} {tensor.name}", f"{tensor.dtype}{shape}{meaning}"


def _entry(node: Node, record: Record) -> Entry:
    known, is_op = record.nodes.get(node.name), node.domain == DOMAIN
    inputs = (
        [*OPS[node.op].inputs]
        if is_op
        else [f"input {place}" for place, _ in enumerate(node.inputs)]
    )
    outputs = (
        OPS[node.op].outputs if is_op else map("output {}".format, range(len(node.outputs)))
    )
    facts, arrays = dict[str, Any](), dict[str, NDArray[Any]]()
    for name, value in sorted(node.attrs.items()):
        if (held := constant(value)) is not None:
            arrays[name] = held
        else:
            facts[name] = plain(value)
    if known is not None:
        facts["body"] = ", ".join(filter(None, (form(known.overload), known.layout)))
    named = zip((*inputs, *outputs), (*node.inputs, *node.outputs), strict=True)
    for name, tensor in named:
        if (held := constant(tensor)) is not None:
            arrays[name] = held
        if (stored := record.tensors.get(tensor.name)) is not None:
            facts[f"type of {name}"] = stored.dtype
            arrays |= _meaning(name, stored)
    arrays = {name: each for name, each in arrays.items() if not _is_said(name, arrays)}
    for name, tensor in zip(inputs, node.inputs, strict=True):
        if producer(tensor) is not None:  # who writes it says what it means
            for what in _MEANINGS:
                arrays.pop(f"{what} of {name}", None)
    source = [node.name] if known is None else [node.name, *known.source]
    reads = [_place(tensor) for tensor in node.inputs if constant(tensor) is None]
    writes = [tensor.name.removesuffix("_quantized") for tensor in node.outputs]
    return Entry(node.name, node.op, source, facts, arrays, reads, writes)


def _is_said(name: str, arrays: Mapping[str, Any]) -> bool:
    """Whether it is the zero point of a tensor, of which the record says the same."""
    return name.endswith("_zero") and f"zero point of {name.removesuffix('_zero')}" in arrays


def _meaning(name: str, stored: AnyQuantization) -> dict[str, NDArray[Any]]:
    parts = np.ravel(stored.factors(1)), np.ravel(stored.zero), np.array(stored.limits)
    return {f"{what} of {name}": each for what, each in zip(_MEANINGS, parts, strict=True)}


_MEANINGS = "scale", "zero point", "ends"


def _place(tensor: Tensor) -> Place:
    before = producer(tensor)
    if before is None:
        return str(tensor.name), -1
    return before.name, next(i for i, each in enumerate(before.outputs) if each is tensor)


def plain(value: Any) -> Any:
    """An attribute or a number as JSON has it; as text what that does not know, bodies too."""
    if is_graph(value):
        return onnx.printer.to_text(export_graph(value).graph)
    if isinstance(value, list | tuple):
        return list(map(plain, value))
    is_known = isinstance(value, int | str) or (isinstance(value, float) and isfinite(value))
    return value if is_known else str(value)
