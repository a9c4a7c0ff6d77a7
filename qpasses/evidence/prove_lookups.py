"""Tables: the body on all codes, and the entries against real arithmetic."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.collect import cores
from opsets.errors import ModelError
from opsets.fixed_point import Int64, Rounding
from opsets.op import Body, Constants
from opsets.qpasses_v1 import OPS
from qpasses.evidence.bodies import body_of, rank_of
from qpasses.evidence.node_evidence import NodeEvidence
from qpasses.evidence.problems import beyond
from qpasses.evidence.prove_pairs import half_to_even
from qpasses.evidence.prove_tables import differences, laid_out
from qpasses.evidence.table_places import Asked, asked_of
from qpasses.ir.edges import byte_codes, codes, dequantize, in_rows, quantize, rows_of
from qpasses.ir.function import Function
from qpasses.ir.graph import Node
from qpasses.ir.record import (
    AnyQuantization,
    ChannelQuantization,
    Quantization,
    Record,
    of_channel,
)
from qpasses.ir.runtime import run_op


def lookup(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """All codes, of every channel: the body against the table, the table against real."""
    table = given["tables" if node.op == "LutPerChannel" else "table"]
    expected = _real_entries(node, record)
    if expected.shape != table.shape:
        raise ModelError(f"node {node.name!r}: its recorded function has other channels")
    return _looked_up(node, record, table, expected)


def lookup_interpolated(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """All 65,536 codes: the body against the meaning, the meaning against real arithmetic."""
    body, expected = body_of(node, record), _real_entries(node, record)
    attributes = {"rounding": node.attrs["rounding"]}
    x = codes(record.tensors[node.inputs[0].name])
    meaning = OPS[node.op].reference(x, **given, **attributes)
    inputs = [{**given, "x": x}[name] for name in OPS[node.op].inputs]
    problem = beyond(node, record, int(given["y_min"]), int(given["y_max"]))
    if not body.accepts(given, node.attrs):
        problem = f"body {body.overload!r} does not compute such a node"
    runs = [
        run_op(node.op, body, inputs, attributes, optimize=each)
        for each in ((False, True) if not problem else ())
    ]
    gaps = np.abs(meaning.astype(np.int64) - expected)
    return NodeEvidence(
        name=node.name,
        op=node.op,
        kind="exhaustive",
        domain=len(x),
        mismatches=int(np.any([found != meaning for found in runs], axis=0).sum()),
        body=body.overload,
        reference_moved=int((gaps > 0).sum()),
        reference_max_lsb=int(gaps.max()),
        problem=problem,
    )


def lookup_interpolated_by_channel(
    node: Node, given: Constants, record: Record
) -> NodeEvidence:
    """The same of every channel, some of them at a time."""
    body, entry = body_of(node, record), record.nodes[node.name]
    x, y = (record.tensors[tensor.name] for tensor in (node.inputs[0], node.outputs[0]))
    function, tables = Function.from_text(entry.function), given["tables"]
    channels, axis = len(tables), int(node.attrs["axis"])
    if {function.channels, rows_of(x, y)} - {0} != {channels}:
        raise ModelError(f"node {node.name!r}: its recorded function has other channels")
    rank = max(rank_of(node) or 0, axis + 1, 2)
    problem = beyond(node, record, int(given["y_min"]), int(given["y_max"]))
    if not body.accepts(given, node.attrs):
        problem = f"body {body.overload!r} does not compute such a node"
    shown, laid, numbers = None if problem else body, (axis, rank), _numbers(given)
    meaning, rounding = OPS[node.op].reference, node.attrs["rounding"]
    found = _compared(meaning, shown, numbers, laid, rounding, entry.function, x, y)
    return NodeEvidence(
        name=node.name,
        op=node.op,
        kind="exhaustive",
        domain=channels * codes(x).size,
        mismatches=found.wrong,
        body=body.overload,
        reference_moved=found.apart,
        reference_max_lsb=found.largest,
        channels=channels,
        problem=problem,
    )


_BY_CHANNEL = "LutInterpolatedPerChannel"


_Numbers = tuple[tuple[str, str, tuple[int, ...], bytes], ...]
"""Constants by name, type, shape and content: what can be remembered by."""


def _numbers(given: Constants) -> _Numbers:
    return tuple(
        (name, each.dtype.str, each.shape, each.tobytes())
        for name in OPS[_BY_CHANNEL].constants
        for each in (given[name],)
    )


def _constants(numbers: _Numbers) -> dict[str, NDArray[Any]]:
    return {
        name: np.frombuffer(content, dtype).reshape(shape)
        for name, dtype, shape, content in numbers
    }


@dataclass(frozen=True)
class _Compared:
    """Codes that a body gets wrong; those that are not as in real arithmetic, by how much."""

    wrong: int
    apart: int
    largest: int


@lru_cache(maxsize=1024)  # models with other widths have most of their tables in common
def _compared(
    reference: Callable[..., NDArray[Any]],
    body: Body | None,
    numbers: _Numbers,
    laid: tuple[int, int],
    rounding: Rounding,
    text: str,
    x: AnyQuantization,
    y: AnyQuantization,
) -> _Compared:
    """All codes of all channels, a few at a time; ``body``: that is run, if any is.

    ``laid``: along which axis of how many channels lie.
    """
    op, function, (axis, rank) = OPS[_BY_CHANNEL], Function.from_text(text), laid
    given = _constants(numbers)
    stored, tables = codes(x), given["tables"]

    def compared(start: int) -> _Compared:
        some = range(start, min(start + _AT_ONCE, len(tables)))
        rows = np.tile(stored, (len(some), 1))
        own = {**given, "tables": tables[some.start : some.stop], "x": rows}
        meaning = reference(**own, axis=0, rounding=rounding)
        own["x"] = laid_out(rows[:, None], axis, rank)
        inputs = [own[name] for name in op.inputs]
        expected = laid_out(meaning[:, None], axis, rank)
        attributes = {"axis": axis, "rounding": rounding}
        is_wrong = np.zeros(expected.shape, bool)
        if body is not None:
            for each in (False, True):
                ours = run_op(op.name, body, inputs, attributes, optimize=each)
                is_wrong |= ours != expected
        apart, largest = 0, 0
        for channel, row in zip(some, meaning, strict=True):
            ends = of_channel(x, channel), of_channel(y, channel)
            real = real_function(function.of_channel(channel), *ends, stored)
            gaps = np.abs(row.astype(np.int64) - real)
            apart, largest = apart + int((gaps > 0).sum()), max(largest, int(gaps.max()))
        return _Compared(int(is_wrong.sum()), apart, largest)

    with ThreadPoolExecutor(cores()) as threads:
        found = [*threads.map(compared, range(0, len(tables), _AT_ONCE))]
    return _Compared(
        sum(each.wrong for each in found),
        sum(each.apart for each in found),
        max(each.largest for each in found),
    )


_AT_ONCE = 4
"""So many channels are run together."""


def _real_entries(node: Node, record: Record) -> Int64:
    """What is stored for each code, [N] or [channels, N], in real arithmetic."""
    entry = record.nodes[node.name]
    x, y = (record.tensors[tensor.name] for tensor in (node.inputs[0], node.outputs[0]))
    if entry.function:
        return real_function(Function.from_text(entry.function), x, y, codes(x))
    if isinstance(x, ChannelQuantization) or isinstance(y, ChannelQuantization):
        raise ModelError(f"node {node.name!r}: channels are stored anew without a function")
    low, high = entry.bounds
    expected = real_rescaling(x, y, codes(x))
    expected = np.maximum(expected, y.limits[0] if low is None else y.store(low))
    return np.minimum(expected, y.limits[1] if high is None else y.store(high))


def lookup_pair(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """All 65,536 pairs of codes: the body against the table, the table against real."""
    entry, table = record.nodes[node.name], given["table"]
    a, b, y = (record.tensors[t.name] for t in (*node.inputs[:2], node.outputs[0]))
    column, row = (byte_codes(each) for each in (a, b))
    pair = column[:, None], row[None, :]
    real = Function.from_text(entry.function).real(
        *np.broadcast_arrays(*(_real(each, q) for each, q in zip(pair, (a, b), strict=True)))
    )
    levels = quantize(np.where(np.isnan(real), 0, real), y, floats=np.float64)
    expected = levels.reshape(-1).astype(np.int64)
    return _looked_up(node, record, table, expected)


def _real(stored: NDArray[Any], meaning: AnyQuantization) -> NDArray[np.float64]:
    """What stored integers mean, in float64."""
    return dequantize(stored, meaning, np.float64)


def asked_about(node: Node, record: Record, table: NDArray[Any]) -> Asked:
    """Whether the body of ``node`` gives ``table``."""
    types = [record.tensors[tensor.name].dtype for tensor in node.inputs[:-1]]
    attributes = {name: node.attrs[name] for name in OPS[node.op].attributes}
    body = body_of(node, record)
    return asked_of(node.op, body, table, types, attributes, rank_of(node) or 0)


def _looked_up(
    node: Node, record: Record, table: NDArray[Any], expected: Int64
) -> NodeEvidence:
    """The body on all codes against ``table``, and the table against real arithmetic."""
    asked = asked_about(node, record, table)
    wrong = differences(asked)
    gaps = np.abs(table.astype(np.int64) - expected)
    return NodeEvidence(
        name=node.name,
        op=node.op,
        kind="exhaustive",
        domain=table.size,
        mismatches=int(wrong.sum()),
        body=asked.body.overload,
        reference_moved=int((gaps > 0).sum()),
        reference_max_lsb=int(gaps.max()),
        channels=len(table) if table.ndim > 1 else 0,
        costs_ns=record.nodes[node.name].costs,
        problem=beyond(node, record, int(table.min()), int(table.max())),
    )


def real_rescaling(x: Quantization, y: Quantization, stored: NDArray[Any]) -> Int64:
    """The stored y of each stored x in real arithmetic, rounded half to even."""
    ratio = Fraction(x.scale) / Fraction(y.scale)
    total = (stored.astype(object) - x.zero_point) * ratio.numerator
    levels = half_to_even(total, ratio.denominator)
    return np.asarray(np.clip(levels + y.zero_point, *y.limits), np.int64)


def real_function(
    function: Function, x: AnyQuantization, y: AnyQuantization, given: NDArray[Any]
) -> Int64:
    """The stored y of each stored x, [N] or [channels, N], the function in float64.

    ``given`` [N] are all of x. Where it is not defined, that of the nearest stored x for which
    it is, the smaller of two.
    """
    stored = function.inputs(given, rows_of(x, y))
    real = function.real(_real(stored, in_rows(x)))
    if np.isnan(real).any():
        real = _spread_in_order(real, np.argsort(given))
    if np.isnan(real).any():
        raise ModelError(f"{', '.join(function.ops)}: not defined for any code of its input")
    return quantize(real, in_rows(y), floats=np.float64).astype(np.int64)


def _spread_in_order(real: NDArray[np.float64], order: NDArray[Any]) -> NDArray[np.float64]:
    """``_spread`` of each row, whose numbers come in such an ``order``."""
    known = np.empty_like(real)
    rows = (each.reshape(-1, order.size) for each in (real, known))
    for row, own in zip(*rows, strict=True):
        own[order] = _spread(row[order])
    return known


def _spread(row: NDArray[np.float64]) -> NDArray[np.float64]:
    """``row`` with each NaN replaced by the nearest number, the earlier of two."""
    places = np.arange(row.size)
    missing = np.isnan(row)
    before = np.maximum.accumulate(np.where(missing, -2 * row.size, places))
    behind = np.minimum.accumulate(np.where(missing, 3 * row.size, places)[::-1])[::-1]
    nearest = np.where(places - before <= behind - places, before, behind)
    return np.asarray(row[nearest.clip(0, row.size - 1)], np.float64)
