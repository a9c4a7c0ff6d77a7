"""qpasses export: an integer model in another form."""

from pathlib import Path
from typing import Any

import click

from qpasses.cli.parameters import PATH, Command, parameters


@click.command(
    cls=Command,
    params=[click.Argument(["integer"], type=PATH), *parameters("export")],
    examples=(
        "qpasses export model.int8.onnx -o model.mlir",
        "qpasses export model.int8.onnx --check",
    ),
)
def export(integer: Path, **options: Any) -> None:
    """Write the integer model INTEGER as TOSA: MLIR that its tools read.

    Inputs and outputs are the stored integers. What TOSA cannot say is an error that names
    the node, and nothing is written.
    """
    from qpasses.api import export as exported

    made = exported(integer, **options)
    shown = ", ".join(f"{count} {op}" for op, count in sorted(made.operations.items()))
    count = sum(made.operations.values())
    click.echo(f"{count} operations, {made.transposes} of them transposes: {shown}")
    if made.extensions:
        click.echo(f"needs TOSA's extension {', '.join(made.extensions)}")
    for kind, ends in (("input", made.inputs), ("output", made.outputs)):
        for place, end in enumerate(ends):
            shape = "x".join(map(str, end.shape))
            click.echo(f"{kind} {place}: {end.name}, {shape}, {end.stored_as}")
    if options["output"] is not None and not options["check"]:
        click.echo(f"{options['output']} is written")
