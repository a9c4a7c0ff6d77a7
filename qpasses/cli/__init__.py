"""The command line: parse, call the API, print."""

import json
import sys
from collections.abc import Callable
from io import TextIOWrapper
from pathlib import Path
from typing import Any, get_args

import click

from opsets.errors import QPassesError, UsageError
from qpasses.cli.opt import opt
from qpasses.cli.options import (
    ACTIVATIONS,
    ALIGNMENT,
    CODES,
    CONFIG,
    DATA,
    DATA_IF_WANTED,
    DATA_OR_TABLE,
    ENGINE,
    EVIDENCE,
    FILE,
    KEPT_EVIDENCE,
    METHOD,
    OUTPUT,
    SAMPLES,
    SELECTION,
    SHARING,
    Shard,
    taken_preprocessing,
    without_idle_percentile,
)
from qpasses.ir.choices import (
    ActivationForm,
    Emit,
    ForeignFormat,
    GeluForm,
    LayerNormForm,
    ResidualType,
    SoftmaxForm,
    SoftmaxNodes,
    TableFormat,
    TableRanges,
    WeightType,
)

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
@DATA_OR_TABLE
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
    help="How runtimes compute the nodes: the fastest way of onnxruntime that is proved (the "
    "default), or standard integer ops only.",
)
@click.option(
    "--exact",
    is_flag=True,
    help="31-bit multipliers, nearest to real arithmetic: slower in onnxruntime.",
)
@ACTIVATIONS
@CODES
@click.option(
    "--weight-type",
    type=click.Choice(get_args(WeightType)),
    default="int8",
    show_default=True,
    help="What weights are stored as.",
)
@click.option(
    "--residual-type",
    type=click.Choice(get_args(ResidualType)),
    default="activation",
    show_default=True,
    help="What residual streams, sums that a branch joins again, are stored as: as other "
    "activations are, or in 16 bits.",
)
@click.option(
    "--per-channel/--no-per-channel",
    default=None,
    help="A weight scale per output channel, where the target has them, or one per tensor.",
)
@METHOD
@ALIGNMENT
@click.option(
    "--activation-form",
    type=click.Choice(get_args(ActivationForm)),
    help="A LeakyRelu or PRelu on its own: a table (the default, if the target has tables), "
    "or a multiplier on each side of zero.",
)
@click.option(
    "--table-ranges",
    type=click.Choice(get_args(TableRanges)),
    default="calibrated",
    show_default=True,
    help="The range of what a table gives: as calibration saw it, or from the smallest to the "
    "largest result of its function over the codes of its input.",
)
@click.option(
    "--softmax",
    type=click.Choice(get_args(SoftmaxForm)),
    help="Softmax as two tables and a division, I-ViT's Shiftmax, or I-BERT's polynomial. "
    "Default: what the target has.",
)
@click.option(
    "--gelu",
    type=click.Choice(get_args(GeluForm)),
    help="GELU as a table, I-ViT's ShiftGELU, or I-BERT's polynomial. Default: as before.",
)
@click.option(
    "--layernorm",
    type=click.Choice(get_args(LayerNormForm)),
    help="LayerNorm with an exact square root, or I-ViT's. Default: as before.",
)
@click.option(
    "--softmax-nodes",
    type=click.Choice(get_args(SoftmaxNodes)),
    default="all",
    show_default=True,
    help="Which Softmax become integer: those between integers, all behind integers, or none.",
)
@click.option(
    "--softmax-bits",
    type=click.IntRange(16, 32),
    default=32,
    show_default=True,
    metavar="16|24|32",
    help="The width of the accumulator that sums the exponentials of a Softmax.",
)
@click.option(
    "--calibration-table",
    type=FILE,
    metavar="FILE",
    help="Ranges from a table of `qpasses calibrate`, TPU-MLIR or onnxruntime instead of a "
    "run over the samples.",
)
@SHARING
@ENGINE
@SELECTION
@click.option("--integer-io", is_flag=True, help="Inputs and outputs are stored integers.")
@click.option(
    "--emit",
    type=click.Choice(get_args(Emit)),
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
@EVIDENCE
@OUTPUT
def quantize(model: Path, print_after: tuple[str, ...], **options: Any) -> None:
    """Turn the float MODEL into an integer model, with evidence for every node."""
    from qpasses.api import check_pass
    from qpasses.api import quantize as run
    from qpasses.emit.evidence_file import place_to_write
    from qpasses.ir.settings import usual_options
    from qpasses.load.arguments import given_target

    for name in print_after:
        check_pass(name)
    _split_types(options)
    shown = {"model": model, **options, "print_after": print_after}
    rules = given_target(options["target"], options["exact"])
    usual = usual_options(rules) | {"alignment": rules.alignment}
    shown |= {name: value for name, value in usual.items() if options[name] is None}
    shown["no_per_channel"] = not shown["per_channel"]
    wanted = (options[name] for name in ("evidence_file", "output", "emit", "stop_after"))
    shown["evidence_file"] = place_to_write(*wanted)
    _run("qpasses quantize", shown, options | {"model": model}, run, print_after)


class _Calibrate(click.Group):
    """``calibrate MODEL`` beside ``calibrate merge``: what is no subcommand is a model."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the name of the command before a model or options, which name none."""
        known = args and args[0] in self.commands and args[0] != _RUN
        return super().parse_args(ctx, args if known else [_RUN, *args])


class _CalibrateModel(click.Command):
    """What ``calibrate`` does without a subcommand; its help is that of ``calibrate``."""

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Without the name of the command, which nobody types."""
        above = ctx.parent or ctx
        formatter.write_usage(above.command_path, " ".join(self.collect_usage_pieces(ctx)))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The subcommands."""
        others = [(name, each) for name, each in calibrate.commands.items() if each != self]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, each.get_short_help_str(formatter.width)) for name, each in others]
            )


_RUN = "model"


@cli.group(cls=_Calibrate)
def calibrate() -> None:
    """Collect the statistics of a model's tensors in a table."""


@calibrate.command(_RUN, cls=_CalibrateModel)
@click.argument("model", type=FILE)
@click.option(
    "-o", "--output", type=FILE, required=True, metavar="TABLE", help="The table to write."
)
@DATA
@SAMPLES
@click.option(
    "--shard",
    type=Shard(),
    metavar="I/N",
    help="Only the I-th of N parts of the samples; `qpasses calibrate merge` joins the "
    "tables.",
)
@click.option(
    "--format",
    "table_format",
    type=click.Choice(get_args(TableFormat)),
    default="qpasses",
    show_default=True,
    help="qpasses keeps histograms, from which every method's ranges follow; the others hold "
    "the ranges of one.",
)
@click.option(
    "--histograms/--no-histograms",
    default=True,
    show_default=True,
    help="Without them: extremes only, for minmax and moving-average, but of tensors that a "
    "Concat or Where may get tables for.",
)
@METHOD
@ALIGNMENT
@ACTIVATIONS
@CODES
@ENGINE
@SELECTION
@click.option(
    "--restart", is_flag=True, help="Begin anew where a stopped run could be gone on with."
)
@OUTPUT
def calibrate_model(model: Path, **options: Any) -> None:
    """Collect the statistics of MODEL's tensors over samples in a table.

    `qpasses quantize --calibration-table TABLE` takes it, with any method. A run that is
    stopped leaves TABLE.checkpoint, and goes on from there when it is called again.
    """
    from qpasses.place.calibrating import calibrate as run
    from qpasses.report.calibration_tables import print_calibration

    _split_types(options)
    options = {"model": model, **options}
    shown = options | {"format": options["table_format"]}
    shown["alignment"] = options["alignment"] or "qpasses"
    shown["no_histograms"] = not options["histograms"]
    hidden = ("table_format", "histograms")
    shown = {name: value for name, value in shown.items() if name not in hidden}
    try:
        _run("qpasses calibrate", shown, options, run, show=print_calibration)
    except KeyboardInterrupt:
        kept = Path(f"{options['output']}.checkpoint")
        if kept.exists():
            click.echo(f"{kept}: what was counted; the same command goes on", err=True)
        raise


@calibrate.command()
@click.argument("tables", nargs=-1, required=True, type=FILE, metavar="TABLE...")
@click.option(
    "-o", "--output", type=FILE, required=True, metavar="TABLE", help="The table to write."
)
def merge(tables: tuple[Path, ...], output: Path) -> None:
    """Join tables of one model over different samples.

    The result is that of one run over all of the samples, to the last bit.
    """
    from qpasses.place.calibrating import merge_tables
    from qpasses.report.terminal import counted

    whole = merge_tables(tables, output)
    held = f"{counted(whole.samples, 'sample')}, {counted(len(whole.tensors), 'tensor')}"
    click.echo(f"{output}: {held}")


@calibrate.command()
@click.argument("table", type=FILE)
@click.option(
    "-o", "--output", type=FILE, required=True, metavar="FILE", help="The table to write."
)
@click.option(
    "--format",
    "table_format",
    type=click.Choice(get_args(ForeignFormat)),
    required=True,
    help="The tool that is to read it.",
)
@METHOD
@CODES
def convert(table: Path, output: Path, **options: Any) -> None:
    """Write the ranges that a method chooses from TABLE for another tool."""
    from qpasses.place.calibrating import convert_table

    convert_table(table, output, **options)
    click.echo(f"{output}: for {options['table_format']}")


def _split_types(options: dict[str, Any]) -> None:
    """Several op types may stand in one option."""
    types = options["op_types_to_quantize"]
    options["op_types_to_quantize"] = tuple(t for each in types for t in each.split(","))


@cli.command()
@click.argument("integer", type=FILE)
@click.option(
    "--against",
    type=FILE,
    metavar="MODEL",
    help="The float model INTEGER was made from. Without it each node is judged alone.",
)
@DATA_IF_WANTED
@SAMPLES
@KEPT_EVIDENCE
@OUTPUT
def verify(integer: Path, **options: Any) -> None:
    """Check the integer model INTEGER on this machine against its float original.

    Pictures are preprocessed as they were for quantize, if nothing else is said. Exit code 1
    if anything differs. Without --against or --data the verdict is incomplete at best.
    """
    from qpasses.api import verify as run
    from qpasses.emit.evidence_file import place_to_read

    options = {"integer": integer, **options}
    shown = options | {"evidence_file": place_to_read(options["evidence_file"], integer)}
    _run("qpasses verify", shown, options, run)


@cli.command()
@click.argument("integer", type=FILE)
@click.option("--node", metavar="NAME", help="One node: its formula and all its numbers.")
@click.option("--text", is_flag=True, help="The graph in ONNX's text syntax.")
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
def inspect(integer: Path, node: str | None, text: bool, as_json: bool) -> None:
    """Show the integer model INTEGER: every node with its numbers and its evidence."""
    from qpasses.api import inspect as run
    from qpasses.report.inspection_tables import print_inspection, print_node
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


@cli.group(invoke_without_command=True)
@click.pass_context
def targets(context: click.Context) -> None:
    """List the targets that ship with qpasses; `targets show` explains one."""
    if context.invoked_subcommand is not None:
        return
    from opsets.realised import unrealised
    from opsets.target import load_target, target_names
    from qpasses.report.target_tables import print_targets

    shipped = [load_target(name) for name in target_names()]
    print_targets(_console(), [(target, unrealised(target)) for target in shipped])


@targets.command()
@click.argument("target", metavar="NAME|FILE.toml")
def show(target: str) -> None:
    """Explain the rules of a target, shipped or your own, with their formulas."""
    from opsets.realised import unrealised
    from opsets.target import load_target
    from qpasses.report.target_tables import print_target

    rules = load_target(target)
    print_target(_console(), rules, unrealised(rules))


cli.add_command(opt)


def _run(
    title: str,
    shown: dict[str, Any],
    options: dict[str, Any],
    command: Callable[..., Any],
    print_after: tuple[str, ...] = (),
    show: Callable[[Any, dict[str, Any]], None] | None = None,
) -> None:
    """Echo the configuration, run ``command`` under progress bars, ``show`` its report."""
    from rich.console import Console

    from qpasses.report.terminal import (
        print_configuration,
        print_problems,
        print_report,
        progress_bars,
        timings,
    )

    config = click.get_current_context().meta.get(CONFIG)
    for name in ("output", "evidence_file", "json_file"):
        if config and options.get(name) and options[name].resolve() == config.resolve():
            raise UsageError(f"{config}: is an input: choose another name")
    quiet, verbose = options.pop("quiet"), options.pop("verbose")
    if quiet and verbose:
        raise UsageError("--quiet and --verbose exclude each other")
    console = _console(quiet)
    shown = without_idle_percentile(shown) | {"config": config}
    print_configuration(console, title, shown)
    options["preprocessing"] = taken_preprocessing(options)
    errors = Console(stderr=True, quiet=quiet)
    with timings(errors) if verbose else progress_bars(errors) as (progress, after_pass):
        if "stop_after" in options:
            options["after"] = _watching(print_after, after_pass)
        result = command(**options, progress=progress)
    (show or print_report)(console, result.report)
    if result.report.get("summary", {}).get("verdict") == "failed":
        if quiet:
            print_problems(Console(stderr=True), result.report)
        sys.exit(1)


def _watching(
    print_after: tuple[str, ...], after_pass: Callable[[str, Any], None]
) -> Callable[[str, Any], None]:
    """Called with each pass's name and graph: prints the graph where that is wanted."""

    def after(name: str, graph: Any) -> None:
        from qpasses.ir.graph import export_graph
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
        click.echo(f"error: {' '.join(error.format_message().split())}", err=True)
        sys.exit(error.exit_code)
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        sys.exit(130)
