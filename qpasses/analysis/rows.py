"""``analysis`` of a report: the numbers of an Analysis, tensor by tensor (docs/report.md)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opsets.qpasses_v1 import OPS
from qpasses.analysis.noise import Cost
from qpasses.analysis.observed import Observed
from qpasses.analysis.walking import Analysis
from qpasses.checking.meaning import is_integer
from qpasses.ir.flow import FLOW
from qpasses.ir.function import Function
from qpasses.ir.graph import Node
from qpasses.ir.record import AnyQuantization
from qpasses.ir.stages import LOOKUPS, RECURRENT

_MOST_CHANNELS = 4096
"""Of more channels no list is written."""

Row = dict[str, Any]


def rows_of(found: Analysis) -> list[Row]:
    """One for each stored tensor, activations and weights, in the order of the graph."""
    total = sum(cost.alone.ratio or 0.0 for cost in found.costs.values())
    nodes = {t.name: node for node in found.pair.integer.nodes for t in node.outputs}
    places = {node.name: k for k, node in enumerate(found.pair.integer.nodes)}
    by_source = _by_source(found)
    rows = []
    for place, step in enumerate(found.worlds.steps):
        cost = found.costs.get(place)
        if step.stored in found.observed:
            row = _of_activation(found, step.stored, nodes[step.stored])
        elif place in found.constants:
            row = _of_weights(found, place, by_source)
        else:
            continue
        row["depth"] = places[row["node"]]
        row["cost"] = None if cost is None else _cost(cost, total)
        rows.append(row)
    return sorted(rows, key=lambda row: row["depth"])


def left_out(rows: Sequence[Row]) -> list[dict[str, str]]:
    """Tensors whose cost there was no time to measure."""
    return [
        {"tensor": row["tensor"], "reason": "there was no time: --seconds gives more"}
        for row in rows
        if row["cost"] is not None and not row["cost"]["samples"]
    ]


def _by_source(found: Analysis) -> dict[str, Node]:
    """By float node, the node of the integer graph that has constants of it.

    By one with bodies, what gives one of its results.
    """
    record, nodes = found.pair.record, found.pair.integer.nodes
    by_source = {node.name: node for node in nodes}
    by_source |= {node.attrs["of"]: node for node in nodes if node.domain == FLOW}
    for node in reversed(nodes):
        entry = record.nodes.get(node.name)
        by_source |= dict.fromkeys(entry.source if entry and is_integer(node) else (), node)
    return by_source


def _of_weights(found: Analysis, place: int, by_source: Mapping[str, Node]) -> Row:
    step, lost = found.worlds.steps[place], found.constants[place]
    known = [name for name in step.nodes if name in by_source]
    source = next((name for name in known if by_source[name].domain == FLOW), known[0])
    node = by_source[source]
    op = OPS.get(node.op) if is_integer(node) else None
    inputs = dict(zip(op.inputs if op else (), node.inputs, strict=bool(op)))
    weights, entry = inputs.get("w"), found.pair.record.nodes.get(node.name)
    return {
        "tensor": _called(node, source) if weights is None else weights.name,
        "real": source,
        "kind": "weights",
        "node": node.name,
        "op": node.op,
        "function": [],
        "shape": [] if weights is None else list(weights.shape),
        "type": "int8",
        "scale": _plain(entry.scales.get("w") if entry else None),
        "zero_point": 0,
        "axis": None,
        "sqnr_db": None,
        "cosine": None,
        "local_sqnr_db": lost.sqnr_db,
        "local_cosine": lost.cosine,
        "split": None,
        "clipped": None,
        "smallest": None,
        "largest": None,
        "range": None,
        "histogram": None,
        "channels": None,
        "free_channels": False,
        "around": [source],
        "reads": [],
        "read_by": [],
        "range_of": None,
    }


def _called(node: Node, source: str) -> str:
    """What stands for the constants of a node, and of the bodies of one for all they hold."""
    return f"{source}.bodies" if node.domain == FLOW else f"{node.name}.constants"


def _of_activation(found: Analysis, stored: str, node: Node) -> Row:
    seen, entry = found.observed[stored], found.pair.record.nodes.get(node.name)
    low, high = _ends(seen)
    is_said = entry is not None and entry.function and node.op not in RECURRENT
    function = Function.from_text(entry.function).ops if entry and is_said else []
    return {
        "tensor": stored,
        "real": found.pair.meanings[stored].real,
        "kind": "activation",
        "node": node.name,
        "op": node.op,
        "function": function,
        "shape": seen.shape,
        "type": seen.how.dtype,
        "scale": _scale(seen.how),
        "zero_point": seen.how.zero.tolist(),
        "axis": getattr(seen.how, "axis", None),
        "sqnr_db": seen.cumulative.sqnr_db,
        "cosine": seen.cumulative.cosine,
        "local_sqnr_db": seen.local.sqnr_db,
        "local_cosine": seen.local.cosine,
        "split": seen.split,
        "clipped": seen.clipped / seen.seen if seen.seen else None,
        "smallest": low,
        "largest": high,
        "range": list(seen.range),
        "histogram": {"edges": seen.edges, "counts": seen.counts.tolist()},
        "channels": _channels(seen),
        "free_channels": _has_free_channels(found, stored),
        "around": _around(found, stored, node),
        "reads": _reads(found, node),
        "read_by": _read_by(found, stored),
        "range_of": _range_of(found, stored),
    }


def _around(found: Analysis, stored: str, node: Node) -> list[str]:
    """The float nodes of those that write and read it."""
    record, names = found.pair.record, list[str]()
    for each in (node, *_readers(found, stored)):
        entry = record.nodes.get(each.name)
        names += [each.name] if entry is None else entry.source
    return [name for name in dict.fromkeys(names) if name in found.pair.float_nodes]


def _reads(found: Analysis, node: Node) -> list[str]:
    """The float tensors of the stored ones that it reads."""
    names = [tensor.name for tensor in node.inputs if tensor.name in found.observed]
    return [*dict.fromkeys(found.pair.meanings[name].real for name in names)]


def _read_by(found: Analysis, stored: str) -> list[str]:
    """The ops that read it, those of float in place of tables."""
    record, names = found.pair.record, list[str]()
    for node in _readers(found, stored):
        entry = record.nodes.get(node.name)
        is_table = entry is not None and entry.function and node.op not in RECURRENT
        names += Function.from_text(entry.function).ops if entry and is_table else [node.op]
    return [*dict.fromkeys(names)]


def _range_of(found: Analysis, stored: str) -> str | None:
    """The float tensor whose range it has: where it is but moved about, what others read.

    None where several have.
    """
    meanings = found.pair.meanings
    while (readers := _readers(found, stored)) and not any(map(is_integer, readers)):
        behind = [tensor.name for node in readers for tensor in node.outputs]
        behind = [name for name in behind if name in meanings and meanings[name].stored]
        if len(behind) != 1 or behind[0] not in found.tensors or len(readers) != 1:
            return None if behind else meanings[stored].real
        (stored,) = behind
    return meanings[stored].real


def _readers(found: Analysis, stored: str) -> list[Node]:
    return [*found.tensors[stored].outputs]


def _has_free_channels(found: Analysis, stored: str) -> bool:
    """Whether nothing that reads a tensor sums its channels: they could have own scales."""
    readers, shape = _readers(found, stored), found.observed[stored].shape
    (writer,) = found.tensors[stored].inputs
    return (
        len(shape) > 1
        and writer.op != "QuantizeLinear"  # an input has one scale
        and bool(readers)
        and all(
            node.op in LOOKUPS
            or (node.op == "IntConv" and node.attrs.get("group", 1) == shape[1])
            for node in readers
        )
    )


def _ends(seen: Observed) -> tuple[float | None, float | None]:
    if not seen.extremes:
        return None, None
    lows, highs = zip(*seen.extremes, strict=True)
    return min(lows), max(highs)


def _channels(seen: Observed) -> dict[str, Any] | None:
    channels = seen.channels
    if channels is None or not 1 < channels.count <= _MOST_CHANNELS:
        return None
    return {
        "axis": seen.axis,
        "low": channels.low.tolist(),
        "high": channels.high.tolist(),
        "largest": np.maximum(-channels.low, channels.high).tolist(),
        "sqnr_db": channels.sqnr_db,
    }


def _scale(how: AnyQuantization) -> float | list[float]:
    factors = np.asarray(how.factors(how.zero.ndim))
    return _plain(factors.reshape(-1).tolist()) if factors.ndim else float(factors)


def _plain(values: Sequence[float] | None) -> Any:
    """One number as itself."""
    return values if values is None or len(values) != 1 else float(values[0])


def _cost(cost: Cost, total: float) -> Row:
    ratio = cost.alone.ratio
    return {
        "alone_db": cost.alone.sqnr_db,
        "share": None if ratio is None or not total else ratio / total,
        "gain_db": cost.gain_db,
        "samples": cost.alone.samples,
    }
