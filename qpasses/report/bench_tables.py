"""Latencies as tables in a terminal."""

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from qpasses.report.terminal import print_problems, print_samples, print_warnings
from qpasses.report.wording import Name


def print_latencies(console: Console, report: dict[str, Any]) -> None:
    """How long each model takes, in how many threads, and the slowest nodes."""
    print_samples(console, report)
    found = report["benchmark"]
    first = found["latencies"][0]["graph"]
    table = Table(box=None, pad_edge=False)
    table.add_column("model", no_wrap=True)
    for name in ("threads", "median ms", "quartiles", "least", f"/ {first}", "runs"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in found["latencies"]:
        table.add_row(
            row["graph"],
            str(row["threads"]),
            f"{row['median_ms']:.3f}",
            f"{row['low_ms']:.3f} to {row['high_ms']:.3f}",
            f"{row['least_ms']:.3f}",
            f"{row['ratio']:.3f}",
            f"{row['runs']:,}",
        )
    console.print(table)
    console.print()
    _print_slowest(console, found)
    print_warnings(console, report)
    print_problems(console, report)


def _print_slowest(console: Console, found: dict[str, Any]) -> None:
    if not found["slowest"]:
        return
    of = found["latencies"][-1]["graph"]
    table = Table(
        title=f"Slowest nodes, in onnxruntime's profile: {of}",
        title_justify="left",
        box=None,
        pad_edge=False,
    )
    table.add_column("node")
    table.add_column("op", no_wrap=True)
    for name in ("ms a run", "share"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in found["slowest"]:
        cells = f"{each['milliseconds']:.3f}", f"{100 * each['share']:.1f}%"
        table.add_row(Name(each["name"]), escape(each["op"]), *cells)
    console.print(table)
