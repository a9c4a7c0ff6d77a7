"""``qpasses opt``: single passes on a graph, as text."""

from pathlib import Path

import click

from qpasses.cli.options import FILE


@click.command()
@click.argument("graph", type=FILE)
@click.option(
    "-p",
    "--pass",
    "passes",
    multiple=True,
    required=True,
    metavar="PASS",
    help="The pass to run (`qpasses passes` lists them); may be repeated, they run in the "
    "given order.",
)
@click.option(
    "--target",
    metavar="NAME|FILE.toml",
    help="Whose integer arithmetic to use. Default: what the first line of the text names "
    "(`# target: NAME`), or onnx.",
)
@click.option(
    "-o",
    "--output",
    type=FILE,
    metavar="OUT",
    help="Write the graph there, as a model if it ends in .onnx, else as text, instead of "
    "printing it.",
)
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
