"""qpasses calibrate: statistics in a table; tables joined, and written for other tools."""

from pathlib import Path
from typing import Any

import click

from qpasses.cli.parameters import PATH, Command, parameters
from qpasses.cli.running import run

_MODEL = "model"


class _Calibrate(click.Group):
    """``calibrate MODEL`` beside ``calibrate merge``: what is no subcommand is a model."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the name of the command before a model or options, which name none."""
        known = args and args[0] in self.commands and args[0] != _MODEL
        return super().parse_args(ctx, args if known else [_MODEL, *args])


class _CalibrateModel(Command):
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


@click.group(cls=_Calibrate)
def calibrate() -> None:
    """Collect the statistics of a model's tensors in a table."""


@calibrate.command(
    _MODEL,
    cls=_CalibrateModel,
    params=[click.Argument(["model"], type=PATH), *parameters("calibrate")],
    examples=(
        "qpasses calibrate model.onnx --data samples/ -o table.json",
        "qpasses quantize model.onnx --calibration-table table.json -o int8.onnx",
    ),
)
def calibrate_model(model: Path, **options: Any) -> None:
    """Collect the statistics of MODEL's tensors over samples in a table.

    `qpasses quantize --calibration-table TABLE` takes it, with any method. A run that is
    stopped leaves TABLE.checkpoint, and goes on from there when it is called again.
    """
    from qpasses.place.calibrating import calibrate as calibrated
    from qpasses.report.calibration_tables import print_calibration

    options = {"model": model, **options}
    shown = options | {"alignment": options["alignment"] or "qpasses"}
    try:
        run("calibrate", shown, options, calibrated, show=print_calibration)
    except KeyboardInterrupt:
        kept = Path(f"{options['output']}.checkpoint")
        if kept.exists():
            click.echo(f"{kept}: what was counted; the same command goes on", err=True)
        raise


@calibrate.command(
    cls=Command,
    params=[
        click.Argument(["tables"], nargs=-1, required=True, type=PATH, metavar="TABLE..."),
        *parameters("calibrate merge"),
    ],
    examples=("qpasses calibrate merge part1.json part2.json -o table.json",),
)
def merge(tables: tuple[Path, ...], output: Path) -> None:
    """Join tables of one model over different samples.

    The result is that of one run over all of the samples, to the last bit.
    """
    from qpasses.place.calibrating import merge_tables
    from qpasses.report.wording import counted

    whole = merge_tables(tables, output)
    held = f"{counted(whole.samples, 'sample')}, {counted(len(whole.tensors), 'tensor')}"
    click.echo(f"{output}: {held}")


@calibrate.command(
    cls=Command,
    params=[click.Argument(["table"], type=PATH), *parameters("calibrate convert")],
    examples=("qpasses calibrate convert table.json --format onnxruntime -o ranges.json",),
)
def convert(table: Path, output: Path, **options: Any) -> None:
    """Write the ranges that a method chooses from TABLE for another tool."""
    from qpasses.place.calibrating import convert_table

    convert_table(table, output, **options)
    click.echo(f"{output}: for {options['table_format']}")
