"""The integer model: bodies as overloads of functions, and the record in its metadata."""

import json
from collections.abc import Container, Iterable
from typing import Any

import onnx

from opsets.errors import ModelError
from opsets.op import DOMAIN, Body, Flavour
from opsets.qpasses_v1 import OPS
from qpasses.bodies import body_of, constants_of
from qpasses.emit.provenance import PREFIX, Provenance, note, sign
from qpasses.graph import Graph, export_graph, import_graph
from qpasses.record import IN_GRAPHS, NodeRecord, Quantization, Record
from qpasses.runtime import IR_VERSION, opset_imports

Bodies = dict[str, tuple[str, Body]]
"""By the name of a qpasses node: its op, and the body it calls."""


def bodies_of(graph: Graph, record: Record) -> Bodies:
    """The body of each qpasses node that ``record`` knows."""
    return {
        node.name: (node.op, body_of(node, record))
        for node in graph.nodes
        if node.domain == DOMAIN and node.name in record.nodes
    }


def emit_integer(graph: Graph, record: Record, provenance: Provenance) -> onnx.ModelProto:
    """The integer model: nodes call their overloads, metadata holds the record.

    Only the overloads in use are attached; ``with_bodies`` switches to another flavour.
    """
    model = export_graph(graph)
    opset = next(o.version for o in model.opset_import if o.domain == "")
    model.ir_version = IR_VERSION
    for node in model.graph.node:
        entry = record.nodes.get(node.name)
        if entry is None:
            continue
        note(
            node.metadata_props,
            source=list(entry.source),
            rule=entry.rule,
            scales=entry.scales,
            cells=entry.cells,
            macs=entry.macs,
            bounds=list(entry.bounds),
        )
        if entry.function:
            note(node.metadata_props, function=entry.function, undefined=list(entry.undefined))
        if entry.costs:
            note(node.metadata_props, costs=entry.costs)
        if node.domain == DOMAIN:
            node.overload = entry.overload
    for value in [*model.graph.value_info, *model.graph.output, *model.graph.input]:
        if value.name in record.tensors:
            note(value.metadata_props, **record.tensors[value.name].as_json())
    for tensor in model.graph.initializer:
        if tensor.name in record.tensors:
            note(tensor.metadata_props, **record.tensors[tensor.name].as_json())
    model.functions.extend(_functions(bodies_of(graph, record), opset))
    _set_imports(model, opset)
    note(
        model.metadata_props,
        raised_weight_scales=record.raised_weight_scales,
        declined=record.declined,
        sizes=record.sizes,
        inputs=edge_entries(model.graph.input, record),
        outputs=edge_entries(model.graph.output, record),
    )
    sign(model, provenance)
    return model


def with_bodies(
    model: onnx.ModelProto, flavour: Flavour, only: Container[str] | None = None
) -> onnx.ModelProto:
    """A copy of an integer model whose nodes use bodies of ``flavour`` where they can.

    ``only`` names the nodes to switch; None stands for all. A fast body is right only where
    the proof accepts it: ``verification`` asks before it switches.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph, record = import_graph(model), read_record(model)[0]
    bodies = bodies_of(graph, record)
    for node in graph.nodes:
        wanted = only is None or node.name in only
        if node.name in bodies and wanted and bodies[node.name][1].flavour != flavour:
            body = OPS[node.op].body(flavour, constants_of(node), node.attrs)
            bodies[node.name] = node.op, body
    for proto in copy.graph.node:
        if proto.name in bodies:
            proto.overload = bodies[proto.name][1].overload
    del copy.functions[:]
    opset = next(o.version for o in copy.opset_import if o.domain == "")
    copy.functions.extend(_functions(bodies, opset))
    return copy


def changed_bodies(model: onnx.ModelProto, graph: Graph, record: Record) -> list[str]:
    """Functions of an emitted model that are not the bodies of its nodes, and those missing.

    ``graph`` and ``record`` are those of ``model``.
    """
    opset = next(o.version for o in model.opset_import if o.domain == "")
    given = {(f.domain, f.name, f.overload): f for f in model.functions}
    wanted = {
        (f.domain, f.name, f.overload): f for f in _functions(bodies_of(graph, record), opset)
    }
    problems = []
    for key in sorted(wanted.keys() | given.keys()):
        domain, name, overload = key
        if key not in wanted or key not in given:
            problems.append(f"function {domain}.{name}:{overload} is missing or not declared")
        elif given[key] != wanted[key]:
            problems.append(f"function {domain}.{name}:{overload} is not the declared body")
    return problems


def read_record(model: onnx.ModelProto) -> tuple[Record, dict[str, Any]]:
    """The record of an emitted model, and the model's own entries (digest, version, ...)."""
    record = Record()
    graph = model.graph
    try:
        for value in [*graph.value_info, *graph.output, *graph.input, *graph.initializer]:
            if entries := _read(value.metadata_props):
                record.tensors[value.name] = _in_graphs(Quantization(**entries))
        for node in graph.node:
            if entries := _read(node.metadata_props):
                record.nodes[node.name] = NodeRecord(overload=node.overload, **entries)
    except (TypeError, ValueError) as error:  # an entry is missing, unknown or impossible
        raise ModelError(f"the record in the model's metadata is damaged: {error}") from error
    about = _read(model.metadata_props)
    if not isinstance(about.get("configuration", {}), dict):
        raise ModelError("the record in the model's metadata is damaged: its configuration")
    record.declined = about.get("declined", {})
    record.sizes = about.get("sizes", {})
    record.raised_weight_scales = about.get("raised_weight_scales", {})
    return record, about


def _in_graphs(stored: Quantization) -> Quantization:
    if stored.dtype not in IN_GRAPHS:
        raise ValueError(f"stored type {stored.dtype!r}")
    return stored


def edge_entries(
    values: Iterable[onnx.ValueInfoProto], record: Record
) -> dict[str, dict[str, Any] | None]:
    """What stored inputs or outputs mean, None for others: runtimes show this metadata."""
    return {
        value.name: record.tensors[value.name].as_json()
        if value.name in record.tensors
        else None
        for value in values
    }


def _functions(bodies: Bodies, opset: int) -> Iterable[onnx.FunctionProto]:
    """One function for each body in use, those of an op in the order of its declaration."""
    used = {(name, body.overload): body for name, body in bodies.values()}
    order = {op.name: [body.overload for body in op.bodies] for op in OPS.values()}

    def place(key: tuple[str, str]) -> tuple[str, int, str]:
        name, overload = key
        declared = order[name]
        made = overload not in declared
        return name, len(declared) if made else declared.index(overload), overload

    for key in sorted(used, key=place):
        yield OPS[key[0]].function(used[key], opset)


def _set_imports(model: onnx.ModelProto, opset: int) -> None:
    others = [
        o
        for o in model.opset_import
        if o.domain not in ("", "ai.onnx", DOMAIN, "com.microsoft")
    ]
    del model.opset_import[:]
    model.opset_import.extend([*opset_imports(opset), *others])


def _read(entries: Any) -> dict[str, Any]:
    try:
        return {
            entry.key.removeprefix(PREFIX): json.loads(entry.value)
            for entry in entries
            if entry.key.startswith(PREFIX)
        }
    except json.JSONDecodeError as error:
        raise ModelError(f"the record in the model's metadata is damaged: {error}") from error
