"""qpasses passes: the passes in the order in which they run."""

import click

from qpasses.cli.parameters import Command
from qpasses.cli.running import console


@click.command(
    cls=Command, examples=("qpasses passes", "qpasses opt model.onnx -p sum-to-add")
)
def passes() -> None:
    """List the passes in the order in which they run."""
    from qpasses.pipeline import pass_table
    from qpasses.report.terminal import print_passes

    print_passes(console(), pass_table())
