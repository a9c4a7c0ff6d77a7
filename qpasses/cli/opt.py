"""``qpasses opt``: single passes on a graph, as text."""

from pathlib import Path

import click

from qpasses.cli.parameters import PATH, Command, parameters


@click.command(cls=Command, params=[click.Argument(["graph"], type=PATH), *parameters("opt")])
def opt(graph: Path, passes: tuple[str, ...], target: str | None, output: Path | None) -> None:
    """Run passes on GRAPH, an .onnx file or a text in ONNX's own syntax, and print its text.

    Nothing else is done to the graph. A comment follows for each node that a pass declined,
    with the reason. On the screen thousands of numbers are a count and a digest; -o writes
    them all.
    """
    from qpasses.api import run_passes_alone
    from qpasses.report.text import declined_lines, without_large

    made = run_passes_alone(graph, passes, target=target, output=output)
    shown = without_large(made.as_text()) if output is None else declined_lines(made.declined)
    click.echo(shown, nl=False)
