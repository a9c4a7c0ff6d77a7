"""The command line: parse, call the API, print."""

import json
import sys
from collections.abc import Callable
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import click

from opsets.errors import QPassesError, UsageError
from qpasses.options import CONFIG, FILE, OUTPUT, SAMPLES, taken_preprocessing

_FILE_WIDTH = 250
"""Columns of the tables where the output goes to a file or a pipe: names stay whole."""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="qpasses")
def cli() -> None:
    """Float ONNX in, proven integer-only ONNX out."""


@cli.command()
@click.argument("model", type=FILE)
@click.option(
    "-o",
    "--output",
    type=FILE,
    required=True,
    metavar="OUT",
    help="The model to write.",
)
@SAMPLES
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
    help="How runtimes compute the nodes: onnxruntime's int8 kernels (the default), or "
    "standard integer ops only.",
)
@click.option(
    "--exact",
    is_flag=True,
    help="31-bit multipliers, nearest to real arithmetic, in portable bodies.",
)
@click.option(
    "--activation-type",
    type=click.Choice(["uint8", "int8"]),
    default="uint8",
    show_default=True,
    help="What activations are stored as.",
)
@click.option(
    "--weight-type",
    type=click.Choice(["int8"]),
    default="int8",
    show_default=True,
    help="What weights are stored as.",
)
@click.option(
    "--per-channel/--no-per-channel",
    default=True,
    show_default=True,
    help="A weight scale per output channel, or one per tensor.",
)
@click.option(
    "--symmetric", is_flag=True, help="Activation ranges symmetric about a fixed zero point."
)
@click.option(
    "--calibration-method",
    type=click.Choice(["minmax"]),
    default="minmax",
    show_default=True,
    help="How ranges follow from samples.",
)
@click.option(
    "--nodes-to-exclude",
    multiple=True,
    metavar="REGEX",
    help="Leave nodes in float whose whole name (or that of a tensor they write) matches; "
    "may be repeated.",
)
@click.option(
    "--op-types-to-quantize",
    multiple=True,
    metavar="TYPE",
    help="Make only nodes of this op type integer; several with commas, or repeated.",
)
@click.option("--integer-io", is_flag=True, help="Inputs and outputs are stored integers.")
@click.option(
    "--emit",
    type=click.Choice(["integer", "qdq", "standard"]),
    default="integer",
    show_default=True,
    help="Integer nodes with bodies; the Q/DQ model with the same scales; or everything "
    "written out in standard ops.",
)
@click.option(
    "--print-after",
    multiple=True,
    metavar="PASS",
    help="Print the graph after a pass (`qpasses passes` lists them); may be repeated.",
)
@click.option(
    "--stop-after", metavar="PASS", help="Stop after a pass and write the graph as it is."
)
@OUTPUT
def quantize(model: Path, print_after: tuple[str, ...], **options: Any) -> None:
    """Turn the float MODEL into an integer model, with evidence for every node."""
    from qpasses.api import check_pass
    from qpasses.api import quantize as run

    for name in print_after:
        check_pass(name)
    types = options["op_types_to_quantize"]
    options["op_types_to_quantize"] = tuple(t for each in types for t in each.split(","))
    shown = {"model": model, **options, "print_after": print_after}
    shown["no_per_channel"] = not options["per_channel"]
    _run("qpasses quantize", shown, options | {"model": model}, run, print_after)


@cli.command()
@click.argument("integer", type=FILE)
@click.option(
    "--against",
    type=FILE,
    required=True,
    metavar="MODEL",
    help="The float model INTEGER was made from.",
)
@SAMPLES
@OUTPUT
def verify(integer: Path, **options: Any) -> None:
    """Check the integer model INTEGER on this machine against its float original.

    Pictures are preprocessed as they were for quantize, if nothing else is said. Exit code 1
    if anything differs.
    """
    from qpasses.api import verify as run

    options = {"integer": integer, **options}
    _run("qpasses verify", options, options, run)


@cli.command()
@click.argument("integer", type=FILE)
@click.option("--node", metavar="NAME", help="One node: its formula and all its numbers.")
@click.option("--text", is_flag=True, help="The graph in ONNX's text syntax.")
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
def inspect(integer: Path, node: str | None, text: bool, as_json: bool) -> None:
    """Show the integer model INTEGER: every node with its numbers and its evidence."""
    from qpasses.api import inspect as run
    from qpasses.report.inspection import print_inspection, print_node
    from qpasses.report.text import to_text

    if text and (as_json or node is not None):
        other = "--json" if as_json else "--node"
        raise UsageError(f"{other} and --text exclude each other: --text shows the graph")
    found = run(integer)
    if text:
        click.echo(to_text(found.model), nl=False)
    elif as_json:
        shown = found if node is None else found.node(node)
        click.echo(json.dumps(shown.as_json(), indent=2))
    elif node is not None:
        print_node(_console(), found.node(node))
    else:
        print_inspection(_console(), found)


@cli.command()
def passes() -> None:
    """List the passes in the order in which they run."""
    from qpasses.pipeline import pass_table
    from qpasses.report.terminal import print_passes

    print_passes(_console(), pass_table())


def _run(
    title: str,
    shown: dict[str, Any],
    options: dict[str, Any],
    command: Callable[..., Any],
    print_after: tuple[str, ...] = (),
) -> None:
    """Echo the configuration, run ``command`` under progress bars, print its report."""
    from rich.console import Console

    from qpasses.report.terminal import (
        print_configuration,
        print_problems,
        print_report,
        progress_bars,
        timings,
    )

    config = click.get_current_context().meta.get(CONFIG)
    for name in ("output", "json_file"):
        if config and options.get(name) and options[name].resolve() == config.resolve():
            raise UsageError(f"{config}: is an input: choose another name")
    quiet, verbose = options.pop("quiet"), options.pop("verbose")
    if quiet and verbose:
        raise UsageError("--quiet and --verbose exclude each other")
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)  # errors; its warnings are not the user's
    console = _console(quiet)
    print_configuration(console, title, shown | {"config": config})
    options["preprocessing"] = taken_preprocessing(options)
    errors = Console(stderr=True, quiet=quiet)
    with timings(errors) if verbose else progress_bars(errors) as (progress, after_pass):
        if "stop_after" in options:
            options["after"] = _watching(print_after, after_pass)
        result = command(**options, progress=progress)
    print_report(console, result.report)
    if result.verdict == "failed":
        if quiet:
            print_problems(Console(stderr=True), result.report)
        sys.exit(1)


def _watching(
    print_after: tuple[str, ...], after_pass: Callable[[str, Any], None]
) -> Callable[[str, Any], None]:
    """Called with each pass's name and graph: prints the graph where that is wanted."""

    def after(name: str, graph: Any) -> None:
        from qpasses.graph import export_graph
        from qpasses.report.text import to_text

        after_pass(name, graph)
        if name in print_after:
            click.echo(f"# after {name}\n{to_text(export_graph(graph))}")

    return after


def _console(quiet: bool = False) -> Any:
    from rich.console import Console

    if isinstance(
        sys.stdout, TextIOWrapper
    ):  # a name no console can show is no reason to stop
        sys.stdout.reconfigure(errors="replace")
    return Console(width=None if sys.stdout.isatty() else _FILE_WIDTH, quiet=quiet)


def main() -> None:
    """The entry point: a user's mistake ends in one clear line and its exit code."""
    try:
        cli.main(standalone_mode=False)
    except QPassesError as error:
        click.echo(f"error: {' '.join(str(error).splitlines())}", err=True)
        sys.exit(error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        sys.exit(error.exit_code)
    except click.ClickException as error:
        click.echo(f"error: {error.format_message()}", err=True)
        sys.exit(error.exit_code)
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        sys.exit(130)
