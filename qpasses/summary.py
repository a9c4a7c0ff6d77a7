"""What a run came to: shares, float nodes with their reasons, accuracy, the verdict."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration import Samples, Session
from opsets.errors import ModelError
from opsets.op import DOMAIN
from qpasses.edges import RealSession
from qpasses.evidence.certificate import PROVED, NodeEvidence
from qpasses.graph import Graph, Node, is_float, producer
from qpasses.macs import COUNTED, MULTIPLYING
from qpasses.record import Record
from qpasses.settings import Settings
from qpasses.stages import CLAMPING, MOVING, Kind, kind

SQNR_CAP_DB = 200.0

SLOW_SHARE = 0.1
"""More multiply-accumulates in portable bodies than this are worth a warning."""

LOW_SQNR_DB = 10.0
"""Below this an output is a tenth noise: worth a warning."""


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
        "macs": macs,
        "macs_not_counted": sorted({node.op for node in floats} & MULTIPLYING - COUNTED),
        "nodes": dict(sorted(by_op.items())),
        "float_nodes": [
            {"name": node.name, "op_type": node.op, "reason": reason(node, record, unfinished)}
            for node in floats
        ],
        "raised_weight_scales": record.raised_weight_scales,
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
    if node.op in MOVING | CLAMPING:
        return f"{node.op} with no integer node next to it: it would only be rounded"
    return f"{node.op} has no integer form in this version"


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
    """Float nodes whose results are quantized again: float before or between integers."""
    waiting = [node for node in graph.nodes if node.op == "QuantizeLinear"]
    seen = {id(node) for node in waiting}
    islands = []
    while waiting:
        for tensor in waiting.pop().inputs:
            before = producer(tensor)
            if before is None or id(before) in seen or before.domain == DOMAIN:
                continue
            seen.add(id(before))
            waiting.append(before)
            if kind(before) is Kind.FLOAT:
                islands.append(before)
    return islands


def data_warnings(
    samples: Samples, calibrated_on_random: bool, compared_on_random: bool
) -> list[str]:
    """What to know of samples: doubtful preprocessing, sizes, made-up numbers."""
    found = []
    if samples.preprocessing is not None:
        doubts = samples.preprocessing.doubts()
        found += [f"{doubt}: is the scale right (--scale)?" for doubt in doubts]
        if samples.preprocessing.size is None:
            found.append(
                "the model leaves height and width free: each picture has its own size "
                "(--size gives all the same)"
            )
    if calibrated_on_random:
        found.append("calibrated on random numbers: its ranges are not those of real data")
    if compared_on_random:
        found.append("compared on random numbers: the accuracy is not that on real data")
    return found


def code_warnings(few_codes: Mapping[str, int]) -> list[str]:
    """Which tensors lose bits to a wider one that they are tied to."""
    return [
        f"tensor {name!r} uses {codes} of 256 codes: it shares the scale of a wider one"
        for name, codes in few_codes.items()
    ]


def graph_warnings(
    graph: Graph,
    settings: Settings,
    summary: Mapping[str, Any],
    accuracy: Sequence[Mapping[str, Any]],
) -> list[str]:
    """What to know of a graph: slow bodies, float where integers were wanted, low accuracy."""
    found = []
    slow = summary["integer_mac_share"] - summary["fast_mac_share"]
    if settings.bodies == "onnxruntime" and slow > SLOW_SHARE:
        found.append(
            f"{slow:.0%} of the multiply-accumulates are in portable bodies, because no "
            "kernel computes them exactly: slow in onnxruntime"
        )
    if settings.integer_io:
        for what, tensors in (("input", graph.inputs), ("output", graph.outputs)):
            found += [
                f"{what} {tensor.name!r} stays float: it is not stored on integers"
                for tensor in tensors
                if is_float(tensor)
            ]
    for output in accuracy:
        sqnr = output["sqnr_db"]
        if sqnr is not None and sqnr < LOW_SQNR_DB:
            found.append(f"output {output['name']!r} is only {sqnr:.1f} dB from float")
    return found


class Accuracy:
    """Float and integer outputs side by side, pooled over samples without keeping them."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._sums = np.zeros((len(names), 4))  # ref^2, error^2, ref*found, found^2
        self._largest = np.zeros(len(names))

    def update(self, expected: Sequence[NDArray[Any]], found: Sequence[NDArray[Any]]) -> None:
        """Take in the outputs of one sample; raises ModelError if they are not of one shape.

        Outputs that are no numbers (strings, sequences) are passed over.
        """
        for i, (reference, other) in enumerate(zip(expected, found, strict=True)):
            if isinstance(reference, list):
                continue  # a sequence
            if np.shape(reference) != np.shape(other):
                raise ModelError(
                    f"output {self._names[i]!r} has shape {list(np.shape(other))}, "
                    f"{list(np.shape(reference))} in the float model"
                )
            if getattr(reference, "dtype", np.dtype(object)).kind not in "fiub":
                continue
            r, o = np.asarray(reference, np.float64), np.asarray(other, np.float64)
            with np.errstate(invalid="ignore", over="ignore"):  # infinite outputs end as null
                e = r - o
                self._sums[i] += (r * r).sum(), (e * e).sum(), (r * o).sum(), (o * o).sum()
                self._largest[i] = np.maximum(self._largest[i], np.abs(e).max(initial=0.0))

    def as_json(self) -> list[dict[str, Any]]:
        """``accuracy.outputs`` of a report: SQNR at most 200 dB, null where not finite."""
        rows = []
        for i, name in enumerate(self._names):
            signal, noise, product, other = self._sums[i].tolist()
            finite = np.isfinite(self._sums[i]).all() and signal * other > 0
            cosine = product / (signal * other) ** 0.5 if finite else None
            rows.append(
                {
                    "name": name,
                    "sqnr_db": _sqnr(signal, noise),
                    "cosine": _finite(cosine),
                    "max_abs_error": _finite(self._largest[i]),
                }
            )
        return rows


def compare(reference: Session, other: Session | RealSession, samples: Samples) -> Accuracy:
    """Run two models on ``samples`` and compare their outputs, named as the reference's."""
    accuracy = Accuracy(reference.outputs)
    for _, feed in samples:
        accuracy.update(reference.run(None, feed), other.run(None, feed))
    return accuracy


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and np.isfinite(value) else None


def _sqnr(signal: float, noise: float) -> float | None:
    if signal == 0 or not np.isfinite(signal + noise):
        return None
    if noise <= signal * 10 ** (-SQNR_CAP_DB / 10):
        return SQNR_CAP_DB
    return float(10 * np.log10(signal / noise))


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
