"""The report of ``calibrate`` as a table in a terminal."""

from typing import Any

from rich.console import Console
from rich.table import Table

from qpasses.report.terminal import print_samples, print_skipped, print_warnings
from qpasses.report.wording import Name, counted

_WIDE = 100
"""Columns from which on the table shows everything."""

_LEFT_OUT = "min", "max"


def print_calibration(console: Console, report: dict[str, Any]) -> None:
    """Samples, what was seen of each tensor, and the range that the method chooses."""
    samples, tensors = report["samples"], report["calibration"]["tensors"]
    print_samples(console, report)
    wide = console.width >= _WIDE
    table = Table(title="Tensors", title_justify="left", box=None, pad_edge=False)
    table.add_column("tensor")
    for name in ("values", "zeros", "min", "max", "range", "method"):
        if wide or name not in _LEFT_OUT:
            table.add_column(
                name, justify="right" if name != "method" else "left", no_wrap=True
            )
    for each in tensors:
        zeros = "-" if each["zeros"] is None else f"{each['zeros'] / each['values']:.1%}"
        low, high = each["range"]
        table.add_row(
            Name(each["name"]),
            f"{each['values']:,}",
            zeros,
            *(f"{value:.5g}" for value in each["extremes"] if wide),
            f"{low:.5g} .. {high:.5g}",
            each["method"],
        )
    console.print(table)
    console.print()
    print_skipped(console, report)
    print_warnings(console, report)
    resumed = f", {samples['resumed']} of them in a run before" if samples["resumed"] else ""
    used = counted(samples["calibration"], "sample")
    console.print(f"{used}{resumed}, {counted(len(tensors), 'tensor')}", highlight=False)
