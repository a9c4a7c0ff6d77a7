"""The integer model: bodies as overloads of functions, and the record in its metadata."""

import json
from collections.abc import Container, Iterable
from dataclasses import asdict
from typing import Any

import onnx

from opsets.errors import ModelError
from opsets.op import DOMAIN, Flavour
from opsets.qpasses_v1 import OPS
from qpasses.emit.provenance import PREFIX, Provenance, note, sign
from qpasses.graph import Graph, export_graph
from qpasses.record import NodeRecord, Quantization, Record
from qpasses.runtime import IR_VERSION, opset_imports


def emit_integer(graph: Graph, record: Record, provenance: Provenance) -> onnx.ModelProto:
    """The integer model: nodes call their overloads, metadata holds the record.

    Only the overloads in use are attached; ``with_bodies`` switches to another flavour.
    """
    model = export_graph(graph)
    opset = next(o.version for o in model.opset_import if o.domain == "")
    model.ir_version = IR_VERSION
    used: dict[str, set[str]] = {}
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
        if node.domain == DOMAIN:
            node.overload = entry.overload
            used.setdefault(node.op_type, set()).add(entry.overload)
    for value in [*model.graph.value_info, *model.graph.output, *model.graph.input]:
        if value.name in record.tensors:
            note(value.metadata_props, **asdict(record.tensors[value.name]))
    for tensor in model.graph.initializer:
        if tensor.name in record.tensors:
            note(tensor.metadata_props, **asdict(record.tensors[tensor.name]))
    model.functions.extend(_functions(used, opset))
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
    values = {tensor.name: tensor for tensor in copy.graph.initializer}
    used: dict[str, set[str]] = {}
    for node in copy.graph.node:
        if node.domain != DOMAIN:
            continue
        op = OPS[node.op_type]
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        if "rounding" in attributes:
            attributes["rounding"] = attributes["rounding"].decode()
        constants = {
            name: onnx.numpy_helper.to_array(values[given])
            for name, given in zip(op.inputs, node.input, strict=True)
            if given in values
        }
        if only is None or node.name in only:
            node.overload = op.body(flavour, constants, attributes).overload
        used.setdefault(node.op_type, set()).add(node.overload)
    del copy.functions[:]
    opset = next(o.version for o in copy.opset_import if o.domain == "")
    copy.functions.extend(_functions(used, opset))
    return copy


def changed_bodies(model: onnx.ModelProto) -> list[str]:
    """Functions of an emitted model that are not the declared bodies, and those missing."""
    opset = next(o.version for o in model.opset_import if o.domain == "")
    given = {(f.domain, f.name, f.overload): f for f in model.functions}
    used = {(n.domain, n.op_type, n.overload) for n in model.graph.node if n.domain == DOMAIN}
    problems = []
    for key in sorted(used | given.keys()):
        domain, name, overload = key
        bodies = OPS[name].bodies if domain == DOMAIN and name in OPS else []
        declared = next((body for body in bodies if body.overload == overload), None)
        if declared is None or key not in given:
            problems.append(f"function {domain}.{name}:{overload} is missing or not declared")
        elif given[key] != OPS[name].function(declared, opset):
            problems.append(f"function {domain}.{name}:{overload} is not the declared body")
    return problems


def read_record(model: onnx.ModelProto) -> tuple[Record, dict[str, Any]]:
    """The record of an emitted model, and the model's own entries (digest, version, ...)."""
    record = Record()
    graph = model.graph
    try:
        for value in [*graph.value_info, *graph.output, *graph.input, *graph.initializer]:
            if entries := _read(value.metadata_props):
                record.tensors[value.name] = Quantization(**entries)
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


def edge_entries(
    values: Iterable[onnx.ValueInfoProto], record: Record
) -> dict[str, dict[str, Any] | None]:
    """What stored inputs or outputs mean, None for others: runtimes show this metadata."""
    return {
        value.name: asdict(record.tensors[value.name])
        if value.name in record.tensors
        else None
        for value in values
    }


def _functions(used: dict[str, set[str]], opset: int) -> Iterable[onnx.FunctionProto]:
    for name in sorted(used):
        for body in OPS[name].bodies:
            if body.overload in used[name]:
                yield OPS[name].function(body, opset)


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
