"""A model whose nodes say in words what is known of them, for viewers that show metadata."""

import onnx

from qpasses.checking.inspection import Inspection, Row, StoredTensor
from qpasses.ir.model_nodes import nodes_of
from qpasses.jobs.previewing import Preview


def annotated(found: Inspection | Preview) -> onnx.ModelProto:
    """A copy of the model that was looked at, with entries in the metadata of its nodes.

    Nodes without a name, which only a float model has, get none; nor do those in bodies of a
    float model, which may be called as others are.
    """
    made = onnx.ModelProto()
    made.CopyFrom(found.model)
    if isinstance(found, Inspection):
        known, nodes = _of_rows(found), nodes_of(made)
    else:
        known, nodes = _of_nodes(found), iter(made.graph.node)
    for node in nodes:
        entries = known.get(node.name, {}) if node.name else {}
        others = [
            onnx.StringStringEntryProto.FromString(e.SerializeToString())
            for e in node.metadata_props
        ]
        del node.metadata_props[:]
        for key, value in entries.items():
            node.metadata_props.add(key=key, value=value)
        node.metadata_props.extend(others)
    return made


def _of_rows(found: Inspection) -> dict[str, dict[str, str]]:
    return {row.name: _entries(row) for row in found.rows}


def _entries(row: Row) -> dict[str, str]:
    """Evidence, body and its estimated cost, and what the stored tensors stand for."""
    proof, entries = row.proof, dict[str, str]()
    if row.reason:
        entries["float"] = row.reason
    if proof is not None:
        covered = f"{proof.domain:,} inputs" if proof.domain else "every input"
        wrong = proof.problem or f"{proof.mismatches:,} mismatches"
        entries["evidence"] = f"{proof.kind}: {covered}, {wrong}"
        entries["body"] = proof.body
        if (cost := proof.costs_ns.get(proof.body)) is not None:
            entries["cost"] = f"{cost / 1000:.1f} us, estimated"
    entries |= {f"scale of {each.input}": _scale(each) for each in (*row.inputs, *row.outputs)}
    return entries


def _scale(each: StoredTensor) -> str:
    if isinstance(each.scale, float):
        return f"{each.type}: real = (stored - {each.zero_point}) * {each.scale:.9g}"
    ends = f"{min(each.scale):.5g} .. {max(each.scale):.5g}"
    return f"{each.type}: {ends}, of {len(each.scale)} channels"


def _of_nodes(found: Preview) -> dict[str, dict[str, str]]:
    """What each node would become, or why it would stay."""
    known: dict[str, dict[str, str]] = {}
    if found.foreseen is None:
        return known
    for node in found.foreseen.integer_nodes:
        for name in node["source"]:
            known[name] = {"becomes": f"{node['op_type']} {node['name']}"}
    for key, nodes in (
        ("stays in float", found.foreseen.float_nodes),
        ("ranges decide", found.foreseen.by_ranges),
    ):
        known |= {node["name"]: {key: node["reason"]} for node in nodes}
    return known
