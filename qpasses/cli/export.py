"""qpasses export: an integer model in another form."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qpasses.cli.parameters import PATH, Command, parameters
from qpasses.cli.running import taken_preprocessing

if TYPE_CHECKING:
    from qpasses.emit.tflite.emit_tflite import TfliteFile
    from qpasses.emit.tosa.emit import TosaProgram
    from qpasses.emit.vectors.vector_folder import Vectors


@click.command(
    cls=Command,
    params=[click.Argument(["integer"], type=PATH), *parameters("export")],
    examples=(
        "qpasses export model.int8.onnx -o model.tflite",
        "qpasses export model.int8.onnx --to vectors --data samples/ -o vectors",
    ),
)
def export(integer: Path, **options: Any) -> None:
    """Write the integer model INTEGER as TOSA or TFLite, or as test vectors for a device.

    TOSA is MLIR that its tools read; inputs and outputs are the stored integers, and what it
    or TFLite cannot say is an error that names the node. Vectors are a folder. Nothing is
    written but whole.
    """
    from qpasses.api import export as exported
    from qpasses.emit.vectors.vector_folder import Vectors

    options["preprocessing"] = taken_preprocessing(options)
    made = exported(integer, **options)
    if isinstance(made, Vectors):
        _show_vectors(made)
    else:
        _show_program(made)
    if options["output"] is not None and not options["check"]:
        click.echo(f"{options['output']} is written")


def _show_program(made: "TosaProgram | TfliteFile") -> None:
    from qpasses.emit.tosa.emit import TosaProgram

    shown = ", ".join(f"{count} {op}" for op, count in sorted(made.operations.items()))
    count = sum(made.operations.values())
    click.echo(f"{count} operations, {made.transposes} of them transposes: {shown}")
    if isinstance(made, TosaProgram) and made.extensions:
        click.echo(f"needs TOSA's extension {', '.join(made.extensions)}")
    listed: list[tuple[str, int, Any]] = [
        *(("input", *each) for each in enumerate(made.inputs))
    ]
    listed += (("output", *each) for each in enumerate(made.outputs))
    for kind, place, end in listed:
        shape = "x".join(map(str, end.shape))
        click.echo(f"{kind} {place}: {end.name}, {shape}, {end.stored_as}")


def _show_vectors(made: "Vectors") -> None:
    click.echo(f"{made.tensors} stored tensors, {made.constants} constants; samples:")
    for name in made.samples:
        click.echo(f"  {name}")
