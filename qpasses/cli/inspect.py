"""qpasses inspect: what stands in an integer model."""

import json
from pathlib import Path

import click

from opsets.errors import UsageError
from qpasses.cli.parameters import PATH, Command, parameters
from qpasses.cli.running import console


@click.command(
    cls=Command,
    params=[click.Argument(["integer"], type=PATH), *parameters("inspect")],
    examples=(
        "qpasses inspect model.int8.onnx",
        "qpasses inspect model.int8.onnx --node conv1",
    ),
)
def inspect(integer: Path, node: str | None, text: bool, as_json: bool) -> None:
    """Show the integer model INTEGER: every node with its numbers and its evidence."""
    from qpasses.api import inspect as inspected
    from qpasses.report.inspection_tables import print_inspection, print_node
    from qpasses.report.text import to_text

    if text and (as_json or node is not None):
        other = "--json" if as_json else "--node"
        raise UsageError(f"{other} and --text exclude each other: --text shows the graph")
    found = inspected(integer)
    if text:
        click.echo(to_text(found.model), nl=False)
    elif as_json:
        shown = found if node is None else found.node(node)
        click.echo(json.dumps(shown.as_json(), indent=2))
    elif node is not None:
        print_node(console(), found.node(node))
    else:
        print_inspection(console(), found)
