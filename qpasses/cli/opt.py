"""``qpasses opt``: single passes on a graph, as text."""

from pathlib import Path

import click

from opsets.errors import UsageError
from qpasses.cli.parameters import PATH, Command, parameters
from qpasses.ir.choices import GraphFormat

_LARGEST_ON_SCREEN = 2_000
"""Tensors of more elements are elided where MLIR is printed."""


@click.command(
    cls=Command,
    params=[click.Argument(["graph"], type=PATH), *parameters("opt")],
    examples=(
        "qpasses opt model.onnx -p sum-to-add -p fold-batch-normalization",
        "qpasses opt graph.onnxtxt -p integerize-conv",
    ),
)
def opt(
    graph: Path,
    passes: tuple[str, ...],
    target: str | None,
    output: Path | None,
    graph_format: GraphFormat,
) -> None:
    """Run passes on GRAPH, an .onnx file or a text in ONNX's own syntax, and print its text.

    Nothing else is done to the graph. A comment follows for each node that a pass declined,
    with the reason. On the screen thousands of numbers are a count and a digest, or elided in
    MLIR; -o writes them all.
    """
    from qpasses.api import run_passes_alone
    from qpasses.report.text import declined_lines, without_large

    if graph_format != "onnx" and output is not None:
        raise UsageError(
            f"--format {graph_format} is for what is printed: with -o the name of the file "
            "says the format, as in OUT.mlir"
        )
    made = run_passes_alone(graph, passes, target=target, output=output)
    if output is not None:
        shown = declined_lines(made.declined)
    elif graph_format == "mlir":
        shown = made.as_mlir(_LARGEST_ON_SCREEN)
    else:
        shown = without_large(made.as_text())
    click.echo(shown, nl=False)
