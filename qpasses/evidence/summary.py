"""What a run came to: shares, float nodes with their reasons, accuracy, the verdict."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from calibration.draws import DRAWN
from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from qpasses.evidence.bodies import form
from qpasses.evidence.node_evidence import PROVED, NodeEvidence
from qpasses.ir.elementwise import ELEMENTWISE
from qpasses.ir.graph import Graph, Node, constant, is_graph, producer
from qpasses.ir.macs import MULTIPLYING
from qpasses.ir.moving import MOVING, moves
from qpasses.ir.record import Record
from qpasses.ir.stages import CLAMPING, COMPARING, LOCATING, TABULATED, Kind, kind
from qpasses.ir.whole_numbers import casts_whole_numbers


def summarize(
    graph: Graph, record: Record, evidence: Sequence[NodeEvidence], unfinished: str = ""
) -> dict[str, Any]:
    """The ``summary`` of a report (docs/report.md) for an integer graph.

    ``unfinished`` says why a graph on the way there has float nodes, or nothing.
    """
    by_op: dict[str, int] = {}
    for node in graph.nodes:
        label = node.op if kind(node) is not Kind.FLOAT else f"{node.op} (float)"
        by_op[label] = by_op.get(label, 0) + 1
    floats = [node for node in graph.nodes if kind(node) is Kind.FLOAT]
    products = [node for node in graph.nodes if node.op in _PRODUCTS]
    macs = sum(record.macs.values())
    known = [each for each in evidence if each.name in record.nodes]
    in_fast = [each for each in known if each.body.startswith("onnxruntime")]
    integer_macs, fast_macs = (
        sum(record.nodes[each.name].macs for each in some) for some in (known, in_fast)
    )
    mac_share = _share(integer_macs, macs) if macs else float(bool(evidence))
    fast = sum(each.body.startswith(("onnxruntime", "standard")) for each in evidence)
    integer_only = bool(evidence) and mac_share == 1.0 and not float_islands(graph)
    integer_only = integer_only and not any(node.op in MULTIPLYING for node in floats)
    judged = verdict(evidence, integer_only)
    incomplete = judged == "incomplete"
    return {
        "verdict": judged,
        "because": unproved(graph, record, evidence, unfinished) if incomplete else [],
        "integer_only": integer_only,
        "integer_node_share": _share(len(evidence), len(evidence) + len(floats)),
        "integer_mac_share": mac_share,
        "fast_mac_share": _share(fast_macs, macs) if macs else _share(fast, len(evidence)),
        "portable_nodes": [e.name for e in evidence if e.body.startswith("portable")],
        "macs": macs,
        "macs_not_counted": sorted(
            {n.op for n in floats if n.op in MULTIPLYING and n.name not in record.macs}
            | {node.op for node in products if not record.nodes[node.name].macs}
        ),
        "nodes": dict(sorted(by_op.items())),
        "channels": sum(each.channels for each in evidence),
        "channels_moved": sum(len(each.moved_channels) for each in evidence),
        "float_nodes": float_nodes(graph, record, unfinished),
        "tables": _tables(graph, record),
        "undefined_codes": {
            name: list(entry.undefined)
            for name, entry in record.nodes.items()
            if entry.undefined
        },
        "raised_weight_scales": record.raised_weight_scales,
    }


_PRODUCTS = frozenset({"IntConv", "IntConvPerChannel", "IntGemm", "IntMatMul"})
"""Ops of domain qpasses that hold multiply-accumulates."""


def float_nodes(graph: Graph, record: Record, unfinished: str = "") -> list[dict[str, str]]:
    """Name, op type and reason of each node that stays in float."""
    return [
        {"name": node.name, "op_type": node.op, "reason": reason(node, record, unfinished)}
        for node in graph.nodes
        if kind(node) is Kind.FLOAT
    ]


def _tables(graph: Graph, record: Record) -> dict[str, Any]:
    """How many lookups there are, how many tables, and their bytes; shared and not shared."""
    lookups = [n for n in graph.nodes if n.op in TABULATED and n.name in record.nodes]
    used = [node.inputs[len(OPS[node.op].data)] for node in lookups]
    stored = {id(tensor): tensor for tensor in used}
    return {
        "lookups": len(used),
        "stored": len(stored),
        "bytes": sum(tensor.values.nbytes for tensor in stored.values()),
        "bytes_unshared": sum(tensor.values.nbytes for tensor in used),
        "bodies": dict(Counter(sorted(form(record.nodes[n.name].overload) for n in lookups))),
    }


def verdict(evidence: Sequence[NodeEvidence], integer_only: bool) -> str:
    """The verdict by the evidence.

    ``failed``: a node is wrong. ``incomplete``: a node is not proved, or float work lies
    before or between the integers (or is all there is). ``ok``: neither.
    """
    if any(each.mismatches or each.problem for each in evidence):
        return "failed"
    if not integer_only or any(each.kind not in PROVED for each in evidence):
        return "incomplete"
    return "ok"


def reason(node: Node, record: Record, unfinished: str = "") -> str:
    """Why a node stayed in float."""
    if unfinished or node.name in record.declined:
        return record.declined.get(node.name, unfinished)
    if any(map(is_graph, node.attrs.values())):
        why = (
            "draws random numbers"
            if _draws(node)
            else "is inside of a Scan, or has sparse ones"
        )
        return f"{node.op} whose body {why}: it is left whole"
    alone = CLAMPING | ELEMENTWISE | LOCATING | COMPARING
    if moves(node) or node.op in alone or casts_whole_numbers(node):
        return f"{node.op} with no integer node next to it: it would only be rounded"
    which = " that computes" if node.op in MOVING else ""
    return f"{node.op}{which} has no integer form in this version"


def _draws(node: Node) -> bool:
    """Whether it draws random numbers, or a node of its bodies."""
    bodies = [each for each in node.attrs.values() if is_graph(each)]
    return node.op in DRAWN or any(_draws(each) for body in bodies for each in body.nodes)


def unproved(
    graph: Graph, record: Record, evidence: Sequence[NodeEvidence], unfinished: str
) -> list[str]:
    """What keeps a verdict from ``ok``, one phrase each."""
    if unfinished:
        return [unfinished]
    missing = sum(each.kind not in PROVED for each in evidence)
    found = [f"{missing} nodes are not proved"] if missing else []
    if not evidence:
        found.append("nothing became integer")
    floats = [node for node in graph.nodes if kind(node) is Kind.FLOAT]
    inside = {id(node) for node in float_islands(graph)}
    inside |= {id(node) for node in floats if node.op in MULTIPLYING}
    counts = Counter(node.op for node in floats if id(node) in inside)
    found += [f"{count} {op} in float" for op, count in sorted(counts.items())]
    return found


def float_islands(graph: Graph) -> list[Node]:
    """Float nodes whose results are quantized again, or told in whole numbers that are stored:
    float before or between integers.
    """
    storing = [node for node in graph.nodes if node.op in ("IntCast", "QuantizeLinear")]
    waiting = [node for node in storing if kind(node) is not Kind.FLOAT]
    seen = {id(node) for node in waiting}
    islands = []
    while waiting:
        for tensor in waiting.pop().inputs:
            before = producer(tensor)
            if before is None or id(before) in seen or before.domain == DOMAIN:
                continue
            seen.add(id(before))
            waiting.append(before)
            if kind(before) is Kind.FLOAT and not _reads_an_edge(before):
                islands.append(before)
    return islands


def _reads_an_edge(node: Node) -> bool:
    """Whether it says an input of float64 in float32, or asks something of inputs: an edge, as
    what quantizes these is.
    """
    told = node.op in COMPARING | LOCATING
    if not told and (node.op != "Cast" or node.inputs[0].dtype != np.float64):
        return False
    varying = [tensor for tensor in node.inputs if constant(tensor) is None]
    return bool(varying) and all(producer(tensor) is None for tensor in varying)


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
