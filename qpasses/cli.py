"""The command line: parse, call the API, print."""

import sys
from collections.abc import Callable
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import click

from opsets.errors import QPassesError

_FILE = click.Path(path_type=Path)

_FILE_WIDTH = 128
"""Columns of the tables where the output goes to a file or a pipe."""


_JSON = click.option(
    "--json",
    "json_file",
    type=_FILE,
    metavar="FILE",
    help="Write the report as JSON (docs/report.md).",
)

_SAMPLES = click.option(
    "--samples", type=click.IntRange(min=1), metavar="N", help="Use only the first N samples."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="qpasses")
def cli() -> None:
    """Float ONNX in, proven integer-only ONNX out."""


@cli.command()
@click.argument("model", type=_FILE)
@click.option(
    "--data",
    type=_FILE,
    required=True,
    metavar="PATH",
    help="Calibration samples: a folder of .npy/.npz feeds, or one file with samples "
    "stacked along the first axis.",
)
@click.option(
    "-o",
    "--output",
    type=_FILE,
    required=True,
    metavar="OUT",
    help="The integer model to write.",
)
@_JSON
@click.option(
    "--target",
    default="onnx",
    show_default=True,
    metavar="NAME|FILE.toml",
    help="Whose integer arithmetic to use.",
)
@click.option(
    "--bodies",
    type=click.Choice(["onnxruntime", "portable"]),
    default="onnxruntime",
    show_default=True,
    help="How runtimes compute the nodes: onnxruntime's int8 "
    "kernels, or standard integer ops only.",
)
@_SAMPLES
def quantize(model: Path, **options: Any) -> None:
    """Turn the float MODEL into an integer model, with evidence for every node."""
    from qpasses.api import quantize as run

    _run("qpasses quantize", {"model": model, **options}, run)


@cli.command()
@click.argument("integer", type=_FILE)
@click.option(
    "--against",
    type=_FILE,
    required=True,
    metavar="MODEL",
    help="The float model INTEGER was made from.",
)
@click.option(
    "--data", type=_FILE, required=True, metavar="PATH", help="Samples, as for quantize."
)
@_JSON
@_SAMPLES
def verify(integer: Path, **options: Any) -> None:
    """Check the integer model INTEGER on this machine against its float original.

    Exit code 1 if anything differs.
    """
    from qpasses.api import verify as run

    _run("qpasses verify", {"integer": integer, **options}, run)


def _run(title: str, options: dict[str, Any], command: Callable[..., Any]) -> None:
    """Echo the configuration, run ``command`` under progress bars, print its report."""
    from rich.console import Console

    from qpasses.report.terminal import print_configuration, print_report, progress_bars

    if isinstance(
        sys.stdout, TextIOWrapper
    ):  # a name no console can show is no reason to stop
        sys.stdout.reconfigure(errors="replace")
    console = Console(width=None if sys.stdout.isatty() else _FILE_WIDTH)
    shown = {name.removesuffix("_file"): value for name, value in options.items()}
    print_configuration(console, title, shown)
    with progress_bars(Console(stderr=True)) as progress:
        result = command(**options, progress=progress)
    print_report(console, result.report)
    if result.verdict == "failed":
        sys.exit(1)


def main() -> None:
    """The entry point: a user's mistake ends in one clear line and its exit code."""
    try:
        cli()
    except QPassesError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
