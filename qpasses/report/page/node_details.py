"""What a page shows of the node that is chosen in its drawing."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from qpasses.report.page.shown_values import (
    MISSING,
    cosine,
    decibels,
    gain,
    number,
    numbers,
    percent,
)

Row = tuple[str, str]
"""A label and a value."""

_CHANNELS_DRAWN = 256
"""Of more, neighbours are drawn as one: the largest value, the least SQNR."""


def details(analysis: dict[str, Any]) -> list[dict[str, Any]]:
    """An entry per node of the graph: name, op, kind, texts in rows, and its tensors."""
    of_node = defaultdict(list)
    for tensor in analysis["tensors"]:
        of_node[tensor["node"]].append(_tensor(tensor))
    return [
        {
            "name": node["name"],
            "op": node["op"],
            "kind": node["kind"],
            "rows": _given(("Formula", node["formula"]), ("Why it is float", node["reason"])),
            "integers": _integers(node),
            "tensors": sorted(of_node[node["name"]], key=lambda tensor: tensor["kind"]),
        }
        for node in analysis["graph"]
    ]


def _given(*rows: tuple[str, Any]) -> list[Row]:
    """Those that are known."""
    return [(label, text) for label, text in rows if text and text != MISSING]


def _integers(node: dict[str, Any]) -> list[Row]:
    """Its multipliers, and how it is known to compute what it says."""
    return [
        *_given(
            ("Multiplier", node["multiplier"] and numbers(node["multiplier"])),
            ("Right shift", node["shift"] and numbers(node["shift"])),
        ),
        *_evidence(node["evidence"] or {}),
    ]


def _evidence(evidence: dict[str, Any]) -> list[Row]:
    if not evidence:
        return []
    domain, bound = evidence.get("domain"), evidence.get("bound")
    sums, bits = evidence.get("accumulator"), evidence.get("headroom_bits")
    return _given(
        ("Known by", evidence.get("kind")),
        ("Inputs covered", "all" if domain == 0 else number(domain)),
        ("Body", evidence.get("body")),
        ("Body unlike meaning", number(evidence.get("mismatches"))),
        ("Meaning unlike real numbers", _moved(evidence)),
        ("Bound", bound is not None and f"{number(bound)} steps of the output"),
        ("Sums reach", sums and f"{number(sums[0])} to {number(sums[1])}"),
        ("Bits of int32 left", bits is not None and number(bits)),
        ("Problem", evidence.get("problem")),
    )


def _moved(evidence: dict[str, Any]) -> str:
    moved = evidence.get("reference_moved")
    by = f", by {number(evidence.get('reference_max_lsb'))} LSB at most" if moved else ""
    return number(moved) + by


def _tensor(tensor: dict[str, Any]) -> dict[str, Any]:
    """A tensor's numbers in rows, and what charts are drawn of."""
    limits = tensor.get("range")
    return {
        "name": tensor["tensor"],
        "kind": tensor["kind"],
        "depth": tensor.get("depth"),
        "sqnr_db": _short(tensor.get("sqnr_db")),
        "local_sqnr_db": _short(tensor.get("local_sqnr_db")),
        "rows": _tensor_rows(tensor, limits),
        "thresholds": limits,
        "histogram": _histogram(tensor.get("histogram")),
        "channels": _channels(tensor.get("channels")),
        "split": _split(tensor.get("split")),
    }


def _tensor_rows(tensor: dict[str, Any], limits: list[float] | None) -> list[Row]:
    """Its numbers, those of the cost if that was measured."""
    cost = tensor.get("cost") or {}
    return _given(
        ("SQNR, with all before", _db(tensor.get("sqnr_db"))),
        ("Cosine, with all before", cosine(tensor.get("cosine"))),
        ("SQNR, this node alone", _db(tensor.get("local_sqnr_db"))),
        ("Cosine, this node alone", cosine(tensor.get("local_cosine"))),
        ("Share of the outputs' noise", cost and percent(cost.get("share"))),
        ("Outputs, if only this is stored", cost and _db(cost.get("alone_db"))),
        ("Outputs, if this stays float", cost and f"{gain(cost.get('gain_db'))} dB"),
        ("Cost measured on", cost and f"{number(cost.get('samples'))} samples"),
        ("In the float model", tensor.get("real")),
        ("Shape", " x ".join(map(number, tensor["shape"])) or "a number"),
        ("Type", tensor.get("type")),
        ("Scale", numbers(tensor.get("scale"))),
        ("Zero point", numbers(tensor.get("zero_point"))),
        ("Axis of scales", tensor.get("axis") is not None and number(tensor["axis"])),
        ("Stored range", limits and f"{number(limits[0])} to {number(limits[1])}"),
        ("Seen in float", _extremes(tensor)),
        ("Beyond the range", percent(tensor.get("clipped"))),
    )


def _db(value: float | None) -> str:
    return MISSING if value is None else f"{decibels(value)} dB"


def _extremes(tensor: dict[str, Any]) -> str:
    least, largest = number(tensor.get("smallest")), number(tensor.get("largest"))
    return MISSING if least == largest == MISSING else f"{least} to {largest}"


def _split(split: dict[str, Any] | None) -> dict[str, float | None] | None:
    """The shares that are known."""
    known = {cause: share for cause, share in (split or {}).items() if share is not None}
    return known or None


def _histogram(histogram: dict[str, Any] | None) -> list[list[Any]] | None:
    """Of each bin its ends and its count."""
    if not histogram or not histogram["counts"]:
        return None
    edges = [_short(edge) for edge in histogram["edges"]]
    bins = zip(edges, edges[1:], histogram["counts"], strict=False)
    return [list(each) for each in bins if None not in each] or None


def _channels(channels: dict[str, Any] | None) -> list[list[Any]] | None:
    """Of each channel, or some side by side: first, end, largest value, SQNR."""
    if not channels or not channels["largest"]:
        return None
    largest, sqnr = channels["largest"], channels["sqnr_db"]
    step = -(-len(largest) // _CHANNELS_DRAWN)
    drawn = [
        [first, first + step, _one(max, largest, first, step), _one(min, sqnr, first, step)]
        for first in range(0, len(largest), step)
    ]
    return drawn if any(each[2:] != [None, None] for each in drawn) else None


def _one(
    choose: Callable[[list[float]], float], values: list[Any], first: int, step: int
) -> float | None:
    known = [each for each in values[first : first + step] if each is not None]
    return _short(choose(known)) if known else None


def _short(value: float | None) -> float | None:
    """With the digits that a chart shows."""
    return None if value is None else float(f"{value:.4g}")
