"""qpasses integerize: a model that is quantized already in, an integer model out."""

from pathlib import Path
from typing import Any

import click

from qpasses.cli.parameters import PATH, Command, parameters
from qpasses.cli.quantize import run_through


@click.command(
    cls=Command,
    params=[click.Argument(["model"], type=PATH), *parameters("integerize")],
    examples=("qpasses integerize model.qdq.onnx -o model.int8.onnx",),
)
def integerize(model: Path, **options: Any) -> None:
    """Turn MODEL, which is quantized already, into an integer model with its own scales."""
    from qpasses.api import integerize as integerized

    run_through("integerize", model, integerized, **options)
