"""Deriving an integer graph again from its float original, and comparing the two."""

import reprlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import onnx

from opsets.errors import VerificationError
from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from qpasses.choosing import choose_bodies
from qpasses.emit.provenance import PREFIX
from qpasses.graph import Graph, Node, constant, is_graph
from qpasses.macs import measure
from qpasses.passes import integerizing
from qpasses.passes.base import Context, run_passes
from qpasses.placement import place_parameters
from qpasses.planning import plan
from qpasses.prepare import prepare
from qpasses.record import NodeRecord, Quantization, Record
from qpasses.runtime import Arrays


@dataclass(frozen=True)
class Derived:
    """The integer graph that the float model and the recorded activation scales give."""

    graph: Graph
    record: Record


def derive(
    original: onnx.ModelProto, sample: Arrays, recorded: Record, context: Context
) -> Derived:
    """Prepare, place and integerize ``original`` with the activation scales of ``recorded``.

    ``context`` is new, with the recorded settings. Nothing else is taken: weights,
    biases, multipliers, shifts, tables, clamps and the structure follow from the float model.
    Raises VerificationError if a scale is missing, or a zero point is none of the codes.
    """
    graph = prepare(original, sample, context)
    context.record.sizes = recorded.sizes
    try:
        measure(graph, context)
    except (AttributeError, TypeError, ValueError) as error:
        raise VerificationError(
            "the record has no sizes that fit the float model's inputs"
        ) from error
    chosen = plan(graph, context)
    missing = [
        name for name, stored in chosen.stored.items() if stored not in recorded.tensors
    ]
    if missing:
        raise VerificationError(
            f"the record has no scale for {missing[0]!r} of the float model: "
            "it was made for another model, or changed"
        )
    scales = {
        name: _stored(stored, recorded, context) for name, stored in chosen.stored.items()
    }
    place_parameters(graph, chosen, scales, context)
    run_passes(integerizing(context.settings), graph, context)
    choose_bodies(graph, context)
    return Derived(graph, context.record)


def _stored(name: str, recorded: Record, context: Context) -> Quantization:
    """The recorded scale and zero point of a tensor, its codes those of the settings."""
    found = recorded.tensors[name]
    try:
        return context.settings.quantization(found.scale, found.zero_point, found.dtype)
    except ValueError as error:
        raise VerificationError(
            f"the record of {name!r} is unlike the recorded settings: {error}"
        ) from error


def proto_differences(found: onnx.ModelProto, expected: onnx.ModelProto) -> Iterator[str]:
    """Where two emitted models differ in anything but the order of their parts.

    The last word: it names less than ``differences``, but passes over nothing, subgraphs and
    what they read from outside included.
    """
    for part in PARTS:
        ours, theirs = (_by_name(getattr(m.graph, part)) for m in (found, expected))
        for name in sorted(ours.keys() | theirs.keys()):
            if name not in ours or name not in theirs:
                yield f"{part} {name!r} stands on one side only"
            elif ours[name] != theirs[name]:
                yield f"{part} {name!r} is not what is derived"
    imports = (
        sorted((o.domain, o.version) for o in m.opset_import) for m in (found, expected)
    )
    if len({tuple(each) for each in imports}) > 1:
        yield "the imported operator sets are not those derived"
    about = ({e.key: e.value for e in m.metadata_props} for m in (found, expected))
    ours_about, theirs_about = about
    for key in sorted(ours_about.keys() | theirs_about.keys()):
        if key.startswith(PREFIX) and ours_about.get(key) != theirs_about.get(key):
            yield f"the model's metadata {key!r} are not what is derived"
    if _rest(found) != _rest(expected):
        yield "the IR version or other parts of the model are not what is derived"


PARTS = ("node", "initializer", "value_info", "input", "output")
"""What of a graph is compared one by one."""


def _by_name(parts: Iterable[Any]) -> dict[str, list[Any]]:
    """All parts of each name: none may hide another."""
    found: dict[str, list[Any]] = {}
    for part in parts:
        found.setdefault(_called(part), []).append(part)
    return found


def _rest(model: onnx.ModelProto) -> onnx.ModelProto:
    """What is compared by nothing else, texts and functions apart."""
    rest = onnx.ModelProto()
    rest.CopyFrom(model)
    for part in PARTS:
        rest.graph.ClearField(part)
    for part in ("functions", "metadata_props", "opset_import", *TEXTS):
        rest.ClearField(part)
    return rest


TEXTS = ("doc_string", "producer_name", "producer_version")
"""What a model says to people."""


def _called(entry: Any) -> str:
    """The name of a part of a graph; that of what it writes where a node has none."""
    return str(entry.name or entry.output[0])


def differences(graph: Graph, record: Record, derived: Derived) -> list[str]:
    """Where ``graph`` differs from the derived one: node, input, found and expected."""
    problems = list(_compare_nodes(graph, derived.graph))
    for kind in ("inputs", "outputs"):
        ours, theirs = ([t.name for t in getattr(g, kind)] for g in (graph, derived.graph))
        if ours != theirs:
            problems.append(f"graph {kind} are {ours}, derived {theirs}")
    problems += _compare_records(record, derived.record)
    return problems


def _compare_nodes(graph: Graph, derived: Graph) -> Iterator[str]:
    found = {node.name: node for node in graph.nodes}
    expected = {node.name: node for node in derived.nodes}
    for name in sorted(expected.keys() - found.keys()):
        yield f"node {name!r} is missing"
    for name in sorted(found.keys() - expected.keys()):
        yield f"node {name!r} is not derived from the float model"
    for name, node in expected.items():
        if name in found:
            yield from _compare(found[name], node)


def _compare(found: Node, expected: Node) -> Iterator[str]:
    where = f"node {found.name!r} ({found.op})"
    if (found.op, found.domain or "") != (expected.op, expected.domain or ""):
        yield f"{where}: the op should be {expected.op}"
        return
    for key in sorted(found.attrs.keys() | expected.attrs.keys()):
        ours, theirs = (node.attrs.get(key) for node in (found, expected))
        if is_graph(ours) and is_graph(theirs):
            yield from _compare_nodes(ours, theirs)
            continue
        ours, theirs = (getattr(each, "values", each) for each in (ours, theirs))
        if not np.array_equal(np.asarray(ours), np.asarray(theirs)):
            yield f"{where}: attribute {key} is {ours}, derived {theirs}"
    for kind in ("inputs", "outputs"):
        ours, theirs = getattr(found, kind), getattr(expected, kind)
        if len(ours) != len(theirs):
            yield f"{where}: has {len(ours)} {kind}, derived {len(theirs)}"
            continue
        names = list(OPS[found.op].inputs) if found.domain == DOMAIN else []
        for index, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            label = names[index] if kind == "inputs" and names else f"{kind[:-1]} {index}"
            yield from _compare_tensors(f"{where}: {label}", mine, other)


def _compare_tensors(where: str, found: Any, expected: Any) -> Iterator[str]:
    ours, theirs = constant(found), constant(expected)
    if ours is None or theirs is None:
        if (ours is None) != (theirs is None) or found.name != expected.name:
            yield f"{where} is {found.name!r}, derived {expected.name!r}"
        return
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        yield (
            f"{where} is {ours.dtype}{list(ours.shape)}, derived "
            f"{theirs.dtype}{list(theirs.shape)}"
        )
        return
    wrong = np.argwhere(~((ours == theirs) | ((ours != ours) & (theirs != theirs))))
    if len(wrong):
        first = tuple(wrong[0].tolist())
        place = f"[{', '.join(map(str, first))}]" if first else ""
        yield (
            f"{where}{place} is {ours[first]}, derived {theirs[first]}"
            + (f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else "")
        )


def _as_json(value: Any) -> Any:
    """Sequences are lists once they were written."""
    return list(value) if isinstance(value, tuple) else value


def _compare_records(found: Record, expected: Record) -> Iterator[str]:
    for name in sorted(found.tensors.keys() ^ expected.tensors.keys()):
        yield f"the record of tensor {name!r} stands on one side only"
    for name, entry in expected.nodes.items():
        other = found.nodes.get(name)
        for key in (field.name for field in fields(NodeRecord)):
            ours, theirs = getattr(other, key, None), getattr(entry, key)
            if _as_json(ours) != _as_json(theirs):
                shown = reprlib.repr(ours), reprlib.repr(theirs)
                yield f"node {name!r}: its record has {key} {shown[0]}, derived {shown[1]}"
