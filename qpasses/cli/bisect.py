"""qpasses bisect: which node of a device differs, and by which rule."""

import sys
from pathlib import Path
from typing import Any

import click

from opsets.errors import DataError
from qpasses.cli.parameters import PATH, Command, parameters
from qpasses.cli.running import console, taken_preprocessing


@click.command(
    cls=Command,
    params=[click.Argument(["integer"], type=PATH), *parameters("bisect")],
    examples=(
        "qpasses export model.int8.onnx --to vectors --data samples/ -o vectors",
        "qpasses bisect model.int8.onnx --dump dump/ --data vectors/samples",
    ),
)
def bisect(integer: Path, **options: Any) -> None:
    """Find the node of INTEGER at which what a device stored is not what it should be.

    Every node is computed from what the device has of its inputs: those that are wrong are
    told from those that were given wrong numbers, and other rules of rounding are tried on
    the exact sums. Exit code 0 if all is equal, 1 if anything differs, 2 if some of the dump
    cannot be read.
    """
    from rich.console import Console

    from qpasses.api import bisect as bisected
    from qpasses.report.bisect_tables import print_bisection
    from qpasses.report.watching import progress_bars

    options["preprocessing"] = taken_preprocessing(options)
    with progress_bars(Console(stderr=True)) as (progress, _):
        found = bisected(integer, progress=progress, **options)
    print_bisection(console(), found)
    if found.verdict == "differs":
        sys.exit(1)
    if found.verdict == "unread":
        sys.exit(DataError.exit_code)
