"""Difference: two models of one float model, node by node."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.printer
from numpy.typing import NDArray

from opsets.errors import UsageError
from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from qpasses.evidence.bodies import form
from qpasses.ir.graph import Graph, Node, Tensor, constant, is_graph, producer
from qpasses.ir.interchange import export_graph, import_graph
from qpasses.ir.record import AnyQuantization, Record
from qpasses.ir.stages import LOOKUPS, QUANTIZING
from qpasses.load.arguments import source_of
from qpasses.load.external_data import file_bytes
from qpasses.load.integer_model import claims_integers, read_integer_model

SIDES = "one", "other"
"""How the two models are called, in this order."""


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


@dataclass(frozen=True)
class Unlike:
    """What differs: as each model has it; of ``size`` numbers so many ``differ``, if several.

    None stands for what a model has not.
    """

    what: str
    one: Any
    other: Any
    size: int = 1
    differ: int = 1


@dataclass(frozen=True)
class UnlikeNode:
    """A node that both models have, by its name in each, and what differs."""

    one: str
    other: str
    unlike: Sequence[Unlike]


@dataclass(frozen=True)
class Alone:
    """A node that the model ``side`` alone has; ``within``: what computes it in the other."""

    side: str
    name: str
    op: str
    within: str = ""


@dataclass(frozen=True)
class Difference:
    """Two models beside one another. ``same_float_model`` is None where neither says it."""

    one: Compared
    other: Compared
    same_float_model: bool | None
    ends: Sequence[Unlike]
    nodes: Sequence[UnlikeNode]
    alone: Sequence[Alone]

    def __repr__(self) -> str:
        return f"Difference(same={self.is_same}, {len(self.nodes)} nodes differ)"

    @property
    def is_same(self) -> bool:
        """Whether both compute the same, node by node: files may differ nevertheless."""
        return not (self.ends or self.nodes or self.alone)

    def as_json(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {"same": self.is_same} | asdict(self)


@dataclass(frozen=True)
class _Entry:
    """A node: what it stands for, what it says, its numbers, who writes what it reads."""

    name: str
    op: str
    source: Sequence[str]
    facts: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]
    reads: Sequence[str]


@dataclass(frozen=True)
class _Side:
    """A model that was read: what is shown of it, its ends, its nodes by name."""

    compared: Compared
    float_sha256: str
    ends: Mapping[str, Any]
    entries: Mapping[str, _Entry]


def difference(
    one: tuple[onnx.ModelProto, Path], other: tuple[onnx.ModelProto, Path]
) -> Difference:
    """Where two models, each with its path, differ: integer models of this tool, or float.

    Nodes belong together by name, else by the float nodes that both stand for. Raises
    UsageError if none do, ModelError for a model that cannot be read.
    """
    sides = _read(*one), _read(*other)
    entries = sides[0].entries, sides[1].entries
    pairs = _pairs(*entries)
    if all(entries[0][name].op in QUANTIZING for name in pairs):
        raise UsageError(
            f"{one[1]} and {other[1]} have no node in common, neither by name nor by the "
            "float nodes that they stand for: give two models of one float model"
        )
    return Difference(
        sides[0].compared,
        sides[1].compared,
        same_float_model=_same_float_model(*sides),
        ends=list(_unlike_facts(sides[0].ends, sides[1].ends, is_whole=True)),
        nodes=[each for each in _nodes(*sides, pairs) if each.unlike],
        alone=[
            *_alone(SIDES[0], *entries, pairs.keys()),
            *_alone(SIDES[1], *entries[::-1], pairs.values()),
        ],
    )


def _read(model: onnx.ModelProto, path: Path) -> _Side:
    is_integer = claims_integers(model)
    if is_integer:
        read = read_integer_model(model, str(path))
        graph, record, sha256 = read.graph, read.record, read.about["float_sha256"]
    else:
        source = source_of(model, path)
        graph, record, sha256 = import_graph(source.model), Record(), source.sha256
    sizes = file_bytes(model, path), *_constant_bytes(graph)
    return _Side(
        Compared(str(path), is_integer, len(graph.nodes), *sizes),
        sha256,
        dict(_ends(graph, record)),
        {node.name: _entry(node, record) for node in graph.nodes},
    )


def _constant_bytes(graph: Graph) -> tuple[int, int]:
    """Of weights and of tables, each counted once."""
    lookups = [node.inputs[-1] for node in graph.nodes if node.op in LOOKUPS]
    tables = {id(tensor) for tensor in lookups if constant(tensor) is not None}
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


def _entry(node: Node, record: Record) -> _Entry:
    known, is_op = record.nodes.get(node.name), node.domain == DOMAIN
    inputs = OPS[node.op].inputs if is_op else map("input {}".format, range(len(node.inputs)))
    outputs = (
        OPS[node.op].outputs if is_op else map("output {}".format, range(len(node.outputs)))
    )
    facts, arrays = dict[str, Any](), dict[str, NDArray[Any]]()
    for name, value in sorted(node.attrs.items()):
        if (held := constant(value)) is not None:
            arrays[name] = held
        else:
            facts[name] = _plain(value)
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
    source = [node.name] if known is None else [node.name, *known.source]
    reads = [_writer(tensor) for tensor in node.inputs if constant(tensor) is None]
    return _Entry(node.name, node.op, source, facts, arrays, reads)


def _is_said(name: str, arrays: Mapping[str, Any]) -> bool:
    """Whether it is the zero point of a tensor, of which the record says the same."""
    return name.endswith("_zero") and f"zero point of {name.removesuffix('_zero')}" in arrays


def _meaning(name: str, stored: AnyQuantization) -> dict[str, NDArray[Any]]:
    return {
        f"scale of {name}": np.ravel(stored.factors(1)),
        f"zero point of {name}": np.ravel(stored.zero),
        f"ends of {name}": np.array(stored.limits),
    }


def _writer(tensor: Tensor) -> str:
    """The node that writes a tensor; an input of the graph stands for itself."""
    before = producer(tensor)
    return str(tensor.name if before is None else before.name)


def _plain(value: Any) -> Any:
    """An attribute or a number as JSON has it; as text what that does not know, bodies too."""
    if is_graph(value):
        return onnx.printer.to_text(export_graph(value).graph)
    if isinstance(value, list | tuple):
        return list(map(_plain, value))
    is_known = isinstance(value, int | str) or (isinstance(value, float) and isfinite(value))
    return value if is_known else str(value)


def _pairs(one: Mapping[str, _Entry], other: Mapping[str, _Entry]) -> dict[str, str]:
    """By name in the one, the name in the other."""
    left = {
        source: name
        for name, entry in other.items()
        if name not in one
        for source in entry.source
    }
    pairs, taken = dict[str, str](), set[str]()
    for name, entry in one.items():
        by_source = (left[each] for each in entry.source if each in left)
        found = name if name in other else next((n for n in by_source if n not in taken), None)
        if found is not None:
            pairs[name] = found
            taken.add(found)
    return pairs


def _same_float_model(one: _Side, other: _Side) -> bool | None:
    if not (one.compared.is_integer or other.compared.is_integer):
        return None
    return one.float_sha256 == other.float_sha256


def _nodes(one: _Side, other: _Side, pairs: Mapping[str, str]) -> Iterator[UnlikeNode]:
    is_whole = one.compared.is_integer == other.compared.is_integer
    for name, its in pairs.items():
        a, b = one.entries[name], other.entries[its]
        unlike = [] if a.op == b.op else [Unlike("op", a.op, b.op)]
        is_same_op = is_whole and not unlike
        unlike += _unlike_facts(a.facts, b.facts, is_same_op)
        unlike += _unlike_arrays(a.arrays, b.arrays, is_same_op)
        if is_same_op and _are_rewired(one, other, pairs, a, b):
            unlike.append(Unlike("reads", list(a.reads), list(b.reads)))
        yield UnlikeNode(name, its, unlike)


def _are_rewired(
    one: _Side, other: _Side, pairs: Mapping[str, str], a: _Entry, b: _Entry
) -> bool:
    """Whether two nodes read other nodes, so far as both models have these."""
    ours = [pairs.get(each) if each in one.entries else each for each in a.reads]
    alone = other.entries.keys() - pairs.values()
    return None not in ours and alone.isdisjoint(b.reads) and ours != list(b.reads)


def _unlike_facts(
    one: Mapping[str, Any], other: Mapping[str, Any], is_whole: bool
) -> Iterator[Unlike]:
    """Facts that differ; those that one side alone has only if both should have the same."""
    for key in dict.fromkeys([*one, *other]):
        is_compared = is_whole or (key in one and key in other)
        if is_compared and one.get(key) != other.get(key):
            yield Unlike(key, one.get(key), other.get(key))


def _unlike_arrays(
    one: Mapping[str, NDArray[Any]], other: Mapping[str, NDArray[Any]], is_whole: bool
) -> Iterator[Unlike]:
    for key in dict.fromkeys([*one, *other]):
        a, b = one.get(key), other.get(key)
        if a is None or b is None:
            if is_whole:
                one_has, other_has = (None if v is None else _shown(v) for v in (a, b))
                yield Unlike(key, one_has, other_has)
            continue
        is_alike = a.shape == b.shape and a.dtype == b.dtype
        differ = int((_bits(a) != _bits(b)).sum()) if is_alike else max(a.size, b.size)
        if differ:
            yield Unlike(key, _shown(a), _shown(b), max(a.size, b.size), differ)


def _bits(values: NDArray[Any]) -> NDArray[Any]:
    """Numbers as they are compared: NaN is like itself, and 0 unlike -0."""
    whole = np.ascontiguousarray(values)
    return whole.view(f"u{values.dtype.itemsize}") if values.dtype.kind == "f" else whole


def _shown(values: NDArray[Any]) -> Any:
    """A number as it is, of more than one the type and the shape."""
    return _plain(values.item()) if values.size == 1 else f"{values.dtype}{list(values.shape)}"


def _alone(
    side: str,
    entries: Mapping[str, _Entry],
    others: Mapping[str, _Entry],
    paired: Collection[str],
) -> Iterator[Alone]:
    """The nodes of a side that have none on the other."""
    computing = {source: name for name, each in others.items() for source in each.source}
    for name, entry in entries.items():
        if name not in paired:
            within = next((computing[each] for each in entry.source if each in computing), "")
            yield Alone(side, name, entry.op, within)
