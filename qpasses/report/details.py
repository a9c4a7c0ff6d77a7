"""What --verbose shows besides: evidence by kind, tables at joins, tensors that are tied."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from qpasses.report.wording import Name, counted

_WIDE = 110
"""Columns from which on the evidence table says how it is known."""

_JOINS_SHOWN = 500
"""To lay out a row takes longer than to decide what it says."""

_TIED_SHOWN = 20
"""Tensors tied for the sake of tables, the costliest first; the JSON report lists them all."""

_DIGEST = re.compile("_[0-9a-f]{12}$")
"""What names of made bodies end in."""


def print_details(console: Console, report: Mapping[str, Any]) -> None:
    """All that a terminal shows of nodes and tensors."""
    _print_evidence(console, report["evidence"]["nodes"])
    _print_joins(console, report.get("joins", []))
    _print_tied(console, report.get("sharing"))


def _print_evidence(console: Console, nodes: Sequence[Mapping[str, Any]]) -> None:
    """A row for each op, kind of evidence and body."""
    if not nodes:
        console.print("No node is integer, so there is no evidence.\n")
        return
    wide = console.width >= _WIDE
    table = Table(title="Evidence", title_justify="left", box=None, pad_edge=False)
    for name in ("op", "evidence", "body") if wide else ("op", "body"):
        table.add_column(name)
    for name in ("nodes", "inputs covered", "body!=meaning", "meaning!=real", "LSB"):
        shown = name if wide else re.sub(" |(?=!=)", "\n", name)
        table.add_column(shown, justify="right", no_wrap=True)
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for node in nodes:
        body = _DIGEST.sub("", node["body"])
        groups.setdefault((node["op"], node["kind"], body), []).append(node)
    for (op, kind, body), alike in groups.items():
        covered = sum(node["domain"] for node in alike)
        names = [op, kind, body] if wide else [op, body]
        table.add_row(
            *map(Name, names),
            f"{len(alike):,}",
            f"{covered:,}" if covered else "all",
            f"{sum(node['mismatches'] for node in alike):,}",
            f"{sum(node['reference_moved'] for node in alike):,}",
            str(max(node["reference_max_lsb"] for node in alike)),
        )
    console.print(table)
    console.print("node by node: qpasses inspect, or --json\n", highlight=False)


def _print_joins(console: Console, joins: Sequence[Mapping[str, Any]]) -> None:
    """The tables at inputs of Concat and Where, and what one scale would lose instead."""
    tables = [each for each in joins if each["table"]]
    if not tables:
        return
    console.print(
        f"Tables at joins: {len(tables)} of {counted(len(joins), 'input')}, losses predicted "
        f"from {tables[0]['energies']}",
        style="italic",
        highlight=False,
    )
    table = Table(box=None, pad_edge=False)
    for name in ("tensor", "read by"):
        table.add_column(name)
    for name in ("range", "joined range", "loss tied", "by a table"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in tables[:_JOINS_SHOWN]:
        ends = (
            f"{low:.5g} .. {high:.5g}" for low, high in (each["range"], each["joined_range"])
        )
        losses = (f"{each[key]:.2e}" for key in ("tied_loss", "table_loss"))
        table.add_row(Name(each["tensor"]), Name(each["node"]), *ends, *losses)
    console.print(table)
    if len(tables) > _JOINS_SHOWN:
        console.print(f"and {len(tables) - _JOINS_SHOWN:,} more: --json lists them all")
    console.print()


def _print_tied(console: Console, sharing: Mapping[str, Any] | None) -> None:
    """What sharing tables costs, if it was asked for."""
    if sharing is None:
        return
    tied = sorted(sharing["tensors"], key=lambda each: -each["loss_db"])
    if not tied:
        limit = f"{sharing['limit_db']:g} dB"
        console.print(f"No tensors could be tied within {limit} to share tables.\n")
        return
    console.print(
        f"Tied to share tables: {counted(len(tied), 'tensor')}, predicted to lose at most "
        f"{sharing['largest_loss_db']:.2f} dB, {sharing['mean_loss_db']:.2f} dB on average",
        style="italic",
        highlight=False,
    )
    table = Table(box=None, pad_edge=False)
    table.add_column("tensor")
    for name in ("range", "shared range", "loss dB"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in tied[:_TIED_SHOWN]:
        ends = (
            f"{low:.5g} .. {high:.5g}" for low, high in (each["range"], each["shared_range"])
        )
        table.add_row(Name(each["name"]), *ends, f"{each['loss_db']:.2f}")
    console.print(table)
    if len(tied) > _TIED_SHOWN:
        console.print(f"and {len(tied) - _TIED_SHOWN} more: --json lists them all")
    console.print()
