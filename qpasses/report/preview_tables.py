"""A model before it is quantized, as tables in a terminal."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from qpasses.report.fitted_tables import Column, listed, print_fitted
from qpasses.report.wording import counted

_MEGABYTE = 1e6


def print_preview(console: Console, found: dict[str, Any]) -> None:
    """What a model holds, then what would become integer and what would not, and why."""
    _print_facts(console, found)
    foreseen = found["foreseen"]
    if foreseen is None:
        console.print(
            f"What would become integer is not known: {escape(found['unknown'])}",
            highlight=False,
        )
    else:
        _print_integer(console, foreseen["integer_nodes"])
        _print_left(console, "Would stay in float", foreseen["float_nodes"])
        _print_left(console, "The ranges of samples decide", foreseen["by_ranges"])
    for warning in found["warnings"]:
        console.print(f"[yellow]warning[/]: {escape(warning)}", highlight=False)


def _print_facts(console: Console, found: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None, pad_edge=False)
    what = "quantized already" if found["quantized_before"] else "float"
    opsets = ", ".join(f"{name} {number}" for name, number in found["opsets"].items())
    table.add_row(
        "model", escape(f"{found['path']}: {found['size'] / _MEGABYTE:.2f} MB, {what}")
    )
    table.add_row("opset", escape(opsets))
    for ends in ("inputs", "outputs"):
        for each in found[ends]:
            table.add_row(ends.removesuffix("s"), escape(_end(each)))
    table.add_row("parameters", f"{found['parameters']:,}")
    ops = sorted(found["ops"].items(), key=lambda each: (-each[1], each[0]))
    counts = ", ".join(f"{count} {op}" for op, count in ops)
    table.add_row("nodes", escape(f"{sum(found['ops'].values()):,}: {counts}"))
    if foreseen := found["foreseen"]:
        table.add_row("multiply-accumulates", escape(_macs(foreseen)))
        if found["quantized_before"] and (others := foreseen["scales_from_samples"]):
            table.add_row("scales from samples", escape(listed(others)))
    console.print(table)
    console.print()


def _end(end: dict[str, Any]) -> str:
    shape = "" if end["shape"] is None else f"[{', '.join(map(str, end['shape']))}]"
    return f"{end['name']}: {end['type']}{shape}"


def _macs(foreseen: dict[str, Any]) -> str:
    """How many, for which sizes, and which share would run on integers."""
    macs, whole = foreseen["macs"], foreseen["integer_macs"]
    sizes = ", ".join(f"{name} {sizes}" for name, sizes in foreseen["sizes"].items())
    share = f", {whole / macs:.1%} on integers" if macs else ""
    others = "".join(f", {op} not counted" for op in foreseen["macs_not_counted"])
    return f"{macs:,}{share}{others}; sizes {sizes}"


def _print_integer(console: Console, nodes: Sequence[dict[str, Any]]) -> None:
    if not nodes:
        console.print("Nothing would become integer.\n")
        return
    by_op: dict[str, list[str]] = {}
    for node in nodes:
        by_op.setdefault(node["op_type"], []).append(node["name"])
    columns = Column("", right=True), Column("op"), Column("nodes", wraps=True)
    rows = [[f"{len(names):,}", op, listed(names)] for op, names in by_op.items()]
    print_fitted(
        console, columns, rows, f"Would become integer: {counted(len(nodes), 'node')}"
    )
    console.print()


def _print_left(console: Console, title: str, nodes: Sequence[dict[str, str]]) -> None:
    """A row for each op and reason."""
    if not nodes:
        return
    by_reason: dict[tuple[str, str], list[str]] = {}
    for node in nodes:
        by_reason.setdefault((node["op_type"], node["reason"]), []).append(node["name"])
    columns = (
        Column("", right=True),
        Column("op"),
        Column("reason", wraps=True),
        Column("nodes", wraps=True),
    )
    rows = [
        [f"{len(names):,}", op, reason, listed(names)]
        for (op, reason), names in by_reason.items()
    ]
    print_fitted(console, columns, rows, f"{title}: {counted(len(nodes), 'node')}")
    console.print()
