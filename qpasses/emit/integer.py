"""The integer model: bodies as overloads of functions, and the record in its metadata."""

import onnx

from opsets.op import DOMAIN
from qpasses.emit.lay_out import laid_out
from qpasses.emit.overloads import bodies_of, functions_of
from qpasses.emit.provenance import Provenance, sign
from qpasses.ir.cutting import cut
from qpasses.ir.graph import Graph
from qpasses.ir.interchange import export_spliced
from qpasses.ir.metadata import edge_entries, note, orders_entry
from qpasses.ir.model_nodes import nested_graphs
from qpasses.ir.record import Record
from qpasses.ir.runtime import IR_VERSION, opset_imports


def emit_integer(
    graph: Graph, record: Record, provenance: Provenance, channels_last: bool = False
) -> onnx.ModelProto:
    """The integer model: nodes call their overloads, metadata holds the record.

    Only the overloads in use are attached; ``with_bodies`` switches to another flavour. With
    ``channels_last`` the graph is laid out so.
    """
    if channels_last:
        graph = laid_out(graph, record)
    bodies = bodies_of(graph, record)
    model = export_spliced(graph)
    opset = next(o.version for o in model.opset_import if o.domain == "")
    model.ir_version = IR_VERSION
    for node in model.graph.node:
        entry = record.nodes.get(node.name)
        if entry is None:
            continue
        note(
            node.metadata_props,
            source=list(entry.source),
            scales=entry.scales,
            cells=entry.cells,
            macs=entry.macs,
            bounds=list(entry.bounds),
        )
        if entry.function:
            note(node.metadata_props, function=entry.function, undefined=list(entry.undefined))
        if entry.requantizes:
            note(node.metadata_props, requantizes=list(entry.requantizes))
        if entry.bias:
            note(node.metadata_props, bias=list(entry.bias))
        if entry.weights:
            note(node.metadata_props, weights=entry.weights)
        if entry.correction:
            note(node.metadata_props, correction=list(entry.correction))
        if entry.costs:
            note(node.metadata_props, costs=entry.costs)
        if node.domain == DOMAIN:
            node.overload = bodies[node.name][1].overload
    for value in [*model.graph.value_info, *_ends(model)]:
        if value.name in record.tensors:
            note(value.metadata_props, **record.tensors[value.name].as_json())
    for tensor in model.graph.initializer:
        if tensor.name in record.tensors:
            note(tensor.metadata_props, **record.tensors[tensor.name].as_json())
    model.functions.extend(functions_of(bodies, opset))
    _set_imports(model, opset)
    note(
        model.metadata_props,
        raised_weight_scales=record.raised_weight_scales,
        declined=record.declined,
        sizes=record.sizes,
        inputs=edge_entries(model.graph.input, record),
        outputs=edge_entries(model.graph.output, record),
    )
    left = {node.name for node in graph.nodes} - record.nodes.keys()
    if float_macs := {name: macs for name, macs in record.macs.items() if name in left}:
        note(model.metadata_props, float_macs=float_macs)
    if record.orders:
        note(model.metadata_props, orders=orders_entry(record))
    if record.states:
        note(model.metadata_props, states=record.states)
    if record.kept:
        tensors = *model.graph.value_info, *_ends(model), *model.graph.initializer
        present = {each.name for each in tensors}
        kept = [name for name in record.kept if name in present]
        note(model.metadata_props, kept=kept)
    sign(model, provenance)
    return cut(model)


def _ends(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    return [*model.graph.output, *model.graph.input]


def _set_imports(model: onnx.ModelProto, opset: int) -> None:
    """Import what is used: exporters import more."""
    used = {node.domain for graph in nested_graphs(model.graph) for node in graph.node}
    used -= {"", "ai.onnx", DOMAIN, "com.microsoft"}
    others = [each for each in model.opset_import if each.domain in used]
    del model.opset_import[:]
    model.opset_import.extend([*opset_imports(opset), *others])
