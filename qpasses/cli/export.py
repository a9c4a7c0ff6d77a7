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
        "qpasses export model.int8.onnx -o model.tflite",
    ),
)
def export(integer: Path, **options: Any) -> None:
    """Write the integer model INTEGER as TOSA, MLIR that its tools read, or as TFLite.

    Inputs and outputs are the stored integers. What TOSA or TFLite cannot say is an error that
    names the node, and nothing is written.
    """
    from qpasses.api import export as exported

    made = exported(integer, **options)
    shown = ", ".join(f"{count} {op}" for op, count in sorted(made.operations.items()))
    count = sum(made.operations.values())
    click.echo(f"{count} operations, {made.transposes} of them transposes: {shown}")
    listed: list[tuple[str, int, Any]] = [
        *(("input", *each) for each in enumerate(made.inputs))
    ]
    listed += (("output", *each) for each in enumerate(made.outputs))
    for kind, place, end in listed:
        shape = "x".join(map(str, end.shape))
        click.echo(f"{kind} {place}: {end.name}, {shape}, {end.stored_as}")
    if options["output"] is not None and not options["check"]:
        click.echo(f"{options['output']} is written")
