"""An inspected integer model as tables in a terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from qpasses.checking.inspection import Inspection, Row, StoredTensor
from qpasses.ir.record import code_limits
from qpasses.report.fitted_tables import Column, folded, print_fitted

SHOWN_CHANNELS = 64
"""So many channels of a node are listed; --json has all."""


SHOWN_TABLES = 4
"""So many tables of a node with one for each channel."""

_PAIRS = 1 << 16


_LABELS = 15
"""Columns that what stands before a value takes."""


def print_inspection(console: Console, found: Inspection) -> None:
    """One line per node, and what the model says of itself."""
    about = found.about
    configuration = about["configuration"]
    made = Table(show_header=False, box=None, pad_edge=False)
    made.add_row("target", escape(str(configuration["target"]["name"])))
    made.add_row("bodies", escape(str(configuration["bodies"])))
    made.add_row("calibrated on", f"{configuration.get('samples')} samples")
    sha256 = folded(f"sha256 {about.get('float_sha256')}", console.width - _LABELS)
    made.add_row("float model", escape(sha256))
    made.add_row("made by", f"qpasses {escape(str(about.get('version')))}")
    if kept := about.get("kept"):
        made.add_row("scales kept", f"{len(kept)} tensors are stored as the model has them")
    for what in ("inputs", "outputs"):
        for name, stored in (about.get(what) or {}).items():
            made.add_row(what.removesuffix("s"), escape(f"{name}: {_edge(stored)}"))
    inputs, outputs = found.model.graph.input, found.model.graph.output
    for start, end in about.get("states") or ():
        if start < len(inputs) and end < len(outputs):
            text = f"{inputs[start].name}: next value {outputs[end].name}, stored alike"
            made.add_row("state", escape(text))
    console.print(made)
    console.print()
    if configuration.get("random_data"):
        console.print("[yellow]warning[/]: calibrated on random numbers", highlight=False)
    print_fitted(console, _COLUMNS, list(map(_cells, found.rows)))


_COLUMNS = (
    Column("node", folds=True),
    Column("from", rank=7, folds=True),
    Column("op"),
    Column("in: scale, zero", rank=6),
    Column("out: scale, zero", rank=1),
    Column("multiplier", rank=2),
    Column("shift", rank=4),
    Column("clamp", rank=5),
    Column("evidence", wraps=True),
    Column("body", rank=3, folds=True),
)


def _cells(row: Row) -> list[str]:
    """One text for each of ``_COLUMNS``."""
    return [
        row.name,
        ", ".join(row.source),
        row.op,
        "\n".join(map(_parameters, row.inputs)),
        "\n".join(map(_parameters, row.outputs)),
        _span(row.multiplier),
        _span(row.shift),
        "" if row.clamp is None else f"{row.clamp[0]}..{row.clamp[1]}",
        *_proof(row),
    ]


def print_node(console: Console, row: Row) -> None:
    """The formula of one node and the numbers in it."""
    op = f"{row.domain}.{row.op}" if row.domain else row.op
    console.print(f"[bold]{escape(row.name)}[/]  {op}  from {escape(', '.join(row.source))}")
    if row.formula:
        console.print(escape(row.formula), style="italic", highlight=False)
    facts = Table(show_header=False, box=None, pad_edge=False)
    for each in [*row.inputs, *row.outputs]:
        facts.add_row(each.input, escape(_meaning(each)))
    for key, value in _constants(row).items():
        facts.add_row(key, escape(value))
    for key, value in sorted(row.attributes.items()):
        facts.add_row(key, escape(str(value)))
    if row.rule:
        facts.add_row("rule", escape(row.rule))
    if row.reason:
        facts.add_row("float", escape(row.reason))
    facts.add_row("writes", escape(", ".join(row.writes)))
    proof = row.proof
    if proof is not None:
        facts.add_row("body", proof.body)
        if proof.costs_ns:
            facts.add_row("considered", _considered(proof.costs_ns))
        covered = f"{proof.domain:,} inputs" if proof.domain else "every input"
        facts.add_row(
            "evidence",
            f"{proof.kind}: {covered}; body differs from meaning on {proof.mismatches}, "
            f"meaning from real arithmetic on {proof.reference_moved}, by at most "
            f"{proof.reference_max_lsb} LSB",
        )
        if proof.accumulator is not None:
            low, high = proof.accumulator
            facts.add_row(
                "accumulator", f"{low:,} .. {high:,}, {proof.headroom_bits} bits of headroom"
            )
    console.print(facts)
    if row.multiplier:
        _print_channels(console, row)
    _print_tables(console, row)


def _print_tables(console: Console, row: Row) -> None:
    """The table of a lookup; of many channels the first, of pairs every 16th code."""
    name = next((name for name in ("table", "tables") if name in row.constants), None)
    if name is None:
        return
    values = row.constants[name]
    across = 16 if console.width >= _SIXTEEN else 8
    if values.size == _PAIRS:
        step, which = (16, "16th") if across == 16 else (32, "32nd")
        console.print(f"every {which} entry of the table: bytes of a down, of b across:")
        _print_rows(console, values.reshape(256, 256)[::step, ::step], step)
        return
    channels = values.reshape(-1, 256)
    for channel, table in enumerate(channels[:SHOWN_TABLES]):
        which = f"table of channel {channel}" if name == "tables" else "table"
        console.print(f"{which}, by the byte of x:")
        _print_rows(console, table.reshape(-1, across), across)
    if len(channels) > SHOWN_TABLES:
        console.print(f"and {len(channels) - SHOWN_TABLES} more: --json has all")


_SIXTEEN = 85
"""Columns that a row of sixteen entries takes."""


def _print_rows(console: Console, rows: Any, step: int) -> None:
    for start, row in enumerate(rows):
        line = " ".join(f"{value:4}" for value in row)
        console.print(f"{start * step:4}: {line}", highlight=False)


def _considered(costs: Mapping[str, int | None]) -> str:
    """Bodies with their estimated times, the cheapest first, then those that differ."""
    ranked = sorted(costs.items(), key=lambda each: (each[1] is None, each[1] or 0))
    return ", ".join(
        f"{body} gives other entries" if cost is None else f"{body} {cost / 1000:.1f} us"
        for body, cost in ranked
    )


def _print_channels(console: Console, row: Row) -> None:
    """Multiplier and shift beside the real scale they stand for, channel by channel.

    The record has none of normalizations: gamma is the float model's.
    """
    bias = None if "bias" not in row.constants else row.constants["bias"].ravel()
    names = list(map(str, range(len(row.multiplier))))
    if "a_multiplier" in row.constants:
        names = ["a", "b", "sum"][: len(names)]
    if "slope_multiplier" in row.constants:
        names = ["above zero", *(f"slope {i}" for i in range(len(names) - 1))]
    columns = [
        Column("channel", right=True),
        Column("multiplier", right=True),
        Column("shift", right=True),
        Column("multiplier / 2**shift", rank=2, right=True),
        Column("real scale", right=True),
        Column("change", rank=1, right=True),
        *([Column("bias", right=True)] if bias is not None else []),
    ]
    rows = []
    shifts = np.broadcast_to(row.shift, len(row.multiplier)).tolist()
    for i, name in enumerate(names[:SHOWN_CHANNELS]):
        value = row.multiplier[i] / 2 ** shifts[i]
        real = row.real_scale[i] if row.real_scale else None
        change = f"{value / real - 1:+.1e}" if real else "-"
        cells = [name, f"{row.multiplier[i]}", f"{shifts[i]}", f"{value:.9g}"]
        cells.append("-" if real is None else f"{real:.9g}")
        extra = [] if bias is None else [f"{bias[i]}" if len(bias) == len(names) else ""]
        rows.append([*cells, change, *extra])
    print_fitted(console, columns, rows)
    if len(names) > SHOWN_CHANNELS:
        console.print(f"and {len(names) - SHOWN_CHANNELS} more: --json has all")


def _edge(stored: dict[str, Any] | None) -> str:
    if stored is None:
        return "as in the float model"
    zero, scale = stored["zero_point"], stored["scale"]
    return f"{stored['dtype']}, real = (stored - {zero}) * {scale!r}"


def _proof(row: Row) -> tuple[str, str]:
    """The evidence in a word, and the body."""
    if row.proof is None:
        return ("float", row.reason) if row.reason else ("-", "-")
    wrong = row.proof.problem or f"{row.proof.mismatches} mismatches"
    return row.proof.kind if row.proof.proved else wrong, row.proof.body


def _constants(row: Row) -> dict[str, str]:
    """Each constant that is not shown per channel."""
    apart = (
        *("multiplier", "a_multiplier", "b_multiplier", "y_multiplier", "table", "tables"),
        *("shift", "a_shift", "b_shift", "y_shift", "slope_multiplier", "slope_shift"),
    )
    return {
        name: f"{value}" if value.ndim == 0 else _array(value)
        for name, value in row.constants.items()
        if name not in apart
    }


def _array(value: Any) -> str:
    ends = f", {value.min()} .. {value.max()}" if value.size else ""
    return f"{value.dtype}{list(value.shape)}{ends}"


def _meaning(each: StoredTensor) -> str:
    shape = "" if each.shape is None else f"[{', '.join(map(str, each.shape))}]"
    if isinstance(each.scale, float):
        real = f"real = (stored - {each.zero_point}) * {each.scale:.9g}"
    else:
        real = (
            f"{len(each.scale)} channels along axis {each.axis}, scales "
            f"{min(each.scale):.5g} .. {max(each.scale):.5g}"
        )
    low, high = each.codes
    fills = each.codes == code_limits(each.type, 8)
    codes = "" if fills else f", stored {low} .. {high}"
    origin = f", scale from the {each.origin}" if each.origin else ""
    return f"{each.tensor} {each.type}{shape}: {real}{codes}{origin}"


def _parameters(each: StoredTensor) -> str:
    origin = f" ({each.origin})" if each.origin else ""
    if isinstance(each.scale, float):
        return f"{each.scale:.5g}, {each.zero_point}{origin}"
    return (
        f"{min(each.scale):.5g} .. {max(each.scale):.5g} of {len(each.scale)} channels{origin}"
    )


def _span(values: Sequence[int]) -> str:
    """One number, or the smallest and the largest of several."""
    if not values:
        return ""
    low, high = min(values), max(values)
    return f"{low}" if low == high else f"{low}..{high}"
