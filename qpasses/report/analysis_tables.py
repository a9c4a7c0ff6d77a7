"""An analysis as tables in a terminal: what costs most, what was found, what to try."""

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from qpasses.report.fitted_tables import Column, print_fitted
from qpasses.report.terminal import print_samples, print_verdict, print_warnings


def print_analysis(console: Console, report: dict[str, Any], tensors: int) -> None:
    """The costliest ``tensors`` and the findings."""
    print_samples(console, report)
    found = report["analysis"]
    rows = [row for row in found["tensors"] if row["cost"] and row["cost"]["samples"]]
    rows.sort(key=lambda row: -(row["cost"]["share"] or 0.0))
    _print_costs(console, rows[:tensors])
    _print_measured(console, found)
    _print_findings(console, found["findings"])
    _print_tried(console, found)
    print_warnings(console, report)
    print_verdict(console, report)


def _print_costs(console: Console, rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    numbers = [Column(name, right=True) for name in ("share", "alone dB", "gain dB")]
    others = [Column(name, rank=1, right=True) for name in ("local dB", "dB")]
    columns = [
        Column("tensor", folds=True),
        Column("op"),
        *numbers,
        *others,
        Column("made by"),
    ]
    cells = [
        [
            row["real"],
            "weights" if row["kind"] == "weights" else row["op"],
            "" if row["cost"]["share"] is None else f"{row['cost']['share']:.1%}",
            *(_number(row["cost"][key]) for key in ("alone_db", "gain_db")),
            *(_number(row[key]) for key in ("local_sqnr_db", "sqnr_db")),
            _made_by(row),
        ]
        for row in rows
    ]
    print_fitted(console, columns, cells, "What costs most at the outputs")
    console.print()


def _made_by(row: dict[str, Any]) -> str:
    """What most of a node's own error is."""
    if row["kind"] == "weights":
        return "weights"
    if not row["split"]:
        return ""
    part, share = max(row["split"].items(), key=lambda each: each[1])
    return f"{part} {share:.0%}"


def _print_measured(console: Console, found: dict[str, Any]) -> None:
    """On how many samples, and what was left out."""
    samples, left = found["samples"], len(found["left_out"])
    is_some = any(row["cost"] and row["cost"]["samples"] for row in found["tensors"])
    some = samples["costed"] or ("a part of one" if is_some else 0)
    text = f"costs measured on {some} of {samples['walked']} samples"
    if left:
        text += f", those of {left} tensors not at all: --seconds gives more time"
    console.print(f"{text}\n", highlight=False)


def _print_findings(console: Console, findings: list[dict[str, Any]]) -> None:
    for each in findings:
        console.print(
            f"[bold]{each['kind']}[/]: {escape(each['text'])}", highlight=False, soft_wrap=True
        )
        if each["option"]:
            console.print(f"  try: {escape(each['option'])}", highlight=False, soft_wrap=True)
    if findings:
        console.print()


def _print_tried(console: Console, found: dict[str, Any]) -> None:
    """What was tried, and the options that are left."""
    if not found.get("tried"):
        return
    on = found["tried_on"]
    title = f"Tried on {on['samples']} samples that are held back, from {on['sqnr_db']:.1f} dB"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("option", overflow="fold")
    table.add_column("gain dB", justify="right", no_wrap=True)
    table.add_column("on", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("price", overflow="fold")
    for each in found["tried"]:
        kept = "[green]kept[/]" if each["kept"] else ""
        gain = _number(each["gain_db"])
        on = str(each["samples"] or "")
        table.add_row(escape(each["option"]), gain, on, kept, escape(each["price"]))
    console.print(table)
    console.print()
    if not any(each["kept"] for each in found["tried"]):
        console.print("nothing was kept: these options are those of the model")
    console.print(escape(found["configuration"]), highlight=False)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
