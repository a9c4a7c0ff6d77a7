"""The certificate: what is known of an integer model, node by node, to keep beside it."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from opsets.qpasses_v1 import OPS
from qpasses.emit.provenance import Provenance
from qpasses.evidence.bodies import body_of
from qpasses.evidence.body_reasons import why_body
from qpasses.evidence.node_evidence import NodeEvidence
from qpasses.ir.graph import Graph, Node, constant, type_name
from qpasses.ir.record import Record
from qpasses.ir.settings import Settings
from qpasses.load.reading import digest

SCHEMA = "qpasses.evidence/1"

_SORTED = json.JSONEncoder(sort_keys=True)

Certificate = dict[str, Any]
"""What docs/evidence.md describes, ready for JSON."""


def certificate(
    integer: onnx.ModelProto,
    origin: Provenance,
    graph: Graph,
    record: Record,
    evidence: Sequence[NodeEvidence],
    settings: Settings,
    summary: dict[str, Any],
) -> Certificate:
    """The certificate of ``integer``, whose graph, record and evidence are given.

    ``origin`` says what it was made from, ``summary`` is that of its report.
    """
    nodes = {node.name: node for node in graph.nodes}
    computing = [each for each in evidence if each.kind != "structural"]
    moving = [each for each in evidence if each.kind == "structural"]
    content = {
        "schema": SCHEMA,
        "tool": {"name": "qpasses", "version": origin.version},
        "float_model": {"sha256": origin.float_sha256},
        "integer_model": {"sha256": digest(integer), "emit": settings.emit},
        "target": settings.target.rules(),
        "verdict": summary["verdict"],
        "because": summary["because"],
        "totals": _totals(computing, moving, summary),
        "nodes": [_computed(nodes[each.name], each, record, settings) for each in computing],
        "moved": [_moved(nodes[each.name], each, record) for each in moving],
        "float_nodes": summary["float_nodes"],
    }
    return dict(json.loads(json.dumps(content)))  # tuples are lists, as in the file


_OF_SUMMARY = (
    *("integer_only", "integer_node_share", "integer_mac_share", "fast_mac_share"),
    *("portable_nodes", "macs", "macs_not_counted", "undefined_codes"),
    "raised_weight_scales",
)


def _totals(
    computing: Sequence[NodeEvidence], moving: Sequence[NodeEvidence], summary: dict[str, Any]
) -> dict[str, Any]:
    return {
        "nodes": len(computing),
        "moved": len(moving),
        "float_nodes": len(summary["float_nodes"]),
        "proved": sum(each.proved for each in (*computing, *moving)),
        "domain": sum(each.domain for each in computing),
        "mismatches": sum(each.mismatches for each in computing),
        "reference_moved": sum(each.reference_moved for each in computing),
        "reference_max_lsb": max((each.reference_max_lsb for each in computing), default=0),
    } | {name: summary[name] for name in _OF_SUMMARY}


def _computed(
    node: Node, found: NodeEvidence, record: Record, settings: Settings
) -> dict[str, Any]:
    """A node of domain qpasses: its evidence, and what that is about."""
    entry = found.as_json() | {"costs_ns": dict(sorted(found.costs_ns.items()))}
    return entry | {
        "meaning": OPS[node.op].doc,
        "target": settings.target.name,
        "flavour": body_of(node, record).flavour,
        "why": why_body(node, record, settings),
        "sha256": node_digest(node, record),
    }


def _moved(node: Node, found: NodeEvidence, record: Record) -> dict[str, Any]:
    """A standard op that moves stored integers: there is nothing to count."""
    kept = "name", "op", "kind", "body", "problem"
    entry = found.as_json()
    return {name: entry[name] for name in kept} | {"sha256": node_digest(node, record)}


def node_digest(node: Node, record: Record) -> str:
    """SHA-256 of the op, its attributes and constants, and what the tensors around it mean.

    Names do not enter, so that renamed constants change nothing.
    """
    content = {
        "op": [node.domain or "", node.op],
        "attributes": {name: _plain(value) for name, value in node.attrs.items()},
        "inputs": [_tensor(tensor, record) for tensor in node.inputs],
        "outputs": [_tensor(tensor, record) for tensor in node.outputs],
    }
    text = _SORTED.encode(content)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    """An attribute as JSON: the same in a graph that was made and in one that was read."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return np.asarray(value).tolist()


def _tensor(tensor: Any, record: Record) -> Any:
    """Type, sizes and values of a constant; of others what they store, None if nothing."""
    values = constant(tensor)
    if values is not None:
        content = hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()
        return [type_name(values.dtype), list(values.shape), content]
    stored = record.tensors.get(tensor.name)
    return None if stored is None else stored.as_json()
