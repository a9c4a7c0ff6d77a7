"""qpasses analyze: where an integer model loses accuracy, and what may help."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from qpasses.cli.parameters import PATH, Command, parameters
from qpasses.cli.running import run


@click.command(
    cls=Command,
    params=[click.Argument(["integer"], type=PATH), *parameters("analyze")],
    examples=(
        "qpasses analyze model.int8.onnx --against model.onnx --data samples/ --html r.html",
        "qpasses analyze model.int8.onnx --against model.onnx --data samples/ --try",
    ),
)
def analyze(integer: Path, tensors: int, **options: Any) -> None:
    """Say where the integer model INTEGER loses accuracy against its float model.

    Of each stored tensor: how far it is off, by what, and what it costs at the outputs; then
    in words what was found, and the option that may help.
    """
    from qpasses.api import analyze as analyzed
    from qpasses.report.analysis_tables import print_analysis

    options = {"integer": integer, **options}
    shown = options | {"tensors": tensors}
    run("analyze", shown, options, analyzed, show=partial(print_analysis, tensors=tensors))
