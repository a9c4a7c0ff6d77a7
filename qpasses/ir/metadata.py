"""The record as entries of a model's metadata: writing them and reading them."""

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import onnx

from opsets.either_layout import split
from opsets.errors import ModelError
from qpasses.ir.record import (
    AnyQuantization,
    ChannelQuantization,
    NodeRecord,
    Quantization,
    Record,
    are_counts,
)

PREFIX = "qpasses."
"""What the keys of all entries begin with; the values are JSON."""


_SORTED = json.JSONEncoder(sort_keys=True)
"""``json.dumps`` makes one for each value that it is to sort."""

_OF_NODES = {"source", "scales", "cells", "macs", "bounds"}
"""What the record of every node says; of tables there is more."""


def note(target: Any, **entries: Any) -> None:
    """Add ``entries`` to the metadata of a model, node or tensor, sorted by key."""
    for key, value in sorted(entries.items()):
        target.add(key=PREFIX + key, value=_SORTED.encode(value))


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


def read_record(model: onnx.ModelProto) -> tuple[Record, dict[str, Any]]:
    """The record of an emitted model, and the model's own entries (digest, version, ...)."""
    record = Record()
    graph = model.graph
    try:
        for value in [*graph.value_info, *graph.output, *graph.input, *graph.initializer]:
            if entries := _read(value.metadata_props):
                record.tensors[value.name] = _quantization(entries)
        for node in graph.node:
            if entries := _read(node.metadata_props):
                wanted = _OF_NODES | ({"undefined"} if "function" in entries else set())
                if missing := wanted - entries.keys():
                    raise ValueError(f"a node without {', '.join(sorted(missing))}")
                overload, layout = split(node.overload)
                record.nodes[node.name] = NodeRecord(
                    overload=overload, layout=layout, **entries
                )
        about = _read(model.metadata_props)
    except (TypeError, ValueError, RecursionError) as error:  # missing, unknown or impossible
        raise ModelError(f"the record in the model's metadata is damaged: {error}") from error
    if not isinstance(about.get("configuration", {}), dict):
        raise ModelError("the record in the model's metadata is damaged: its configuration")
    if not are_counts(about.get("float_macs", {})):
        raise ModelError("the record in the model's metadata is damaged: float_macs")
    record.declined = about.get("declined", {})
    record.sizes = about.get("sizes", {})
    record.macs = about.get("float_macs", {})
    record.kept = about.get("kept", [])
    record.states = about.get("states", [])
    record.orders = _orders(about.get("orders", {}))
    record.raised_weight_scales = about.get("raised_weight_scales", {})
    return record, about


def orders_entry(record: Record) -> dict[str, list[str]]:
    """By order, its axes with spaces between them, the tensors that lie in it."""
    found: dict[str, list[str]] = {}
    for name, order in record.orders.items():
        found.setdefault(" ".join(map(str, order)), []).append(name)
    return found


def _orders(entries: Any) -> dict[str, tuple[int, ...]]:
    """What was written of orders. Raises ModelError for what is none."""
    try:
        return {
            name: tuple(int(axis) for axis in text.split())
            for text, names in entries.items()
            for name in names
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise ModelError("the record in the model's metadata is damaged: orders") from error


_FLOAT32 = np.finfo(np.float32)


def _quantization(entries: dict[str, Any]) -> AnyQuantization:
    by_channel = "scales" in entries
    stored = ChannelQuantization(**entries) if by_channel else Quantization(**entries)
    scales = np.asarray(stored.factors(1))
    if not ((scales >= _FLOAT32.tiny) & (scales <= _FLOAT32.max)).all():
        raise ValueError(f"scale {scales.tolist()!r}")
    return stored


def _read(entries: Any) -> dict[str, Any]:
    return {
        entry.key.removeprefix(PREFIX): json.loads(
            entry.value, object_pairs_hook=_unique, parse_constant=_no_number
        )
        for entry in entries
        if entry.key.startswith(PREFIX)
    }


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError("a name stands twice")
    return found


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number of JSON")
