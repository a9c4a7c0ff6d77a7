"""qpasses inspect: what stands in a model, and what would become integer of it."""

import json
import sys
from pathlib import Path

import click

from opsets.errors import UsageError
from qpasses.cli.parameters import PATH, Command, parameters
from qpasses.cli.running import console


@click.command(
    cls=Command,
    params=[click.Argument(["model"], type=PATH), *parameters("inspect")],
    examples=(
        "qpasses inspect model.int8.onnx",
        "qpasses inspect model.int8.onnx --node conv1",
    ),
)
def inspect(
    model: Path,
    input_shape: tuple[str, ...],
    node: str | None,
    text: bool,
    as_json: bool,
    diff: Path | None,
    view: bool,
    serve: int | None,
) -> None:
    """Show MODEL: of an integer model every node with its numbers and its evidence.

    Of a model that is not quantized yet, what it holds, what would become integer, and what
    would stay in float and why.
    """
    is_viewed = view or serve is not None
    _check_forms(
        {
            "--text": text,
            "--json": as_json,
            "--node": node is not None,
            "--diff": diff is not None,
            "--view": is_viewed,
            "--input-shape": bool(input_shape),
        }
    )
    if is_viewed:
        from qpasses.cli.viewing import view as viewed

        viewed(model, input_shape, serve)
    elif diff is not None:
        _compare(model, diff, as_json)
    else:
        _show(model, input_shape, node, text, as_json)


_TOGETHER = (
    *({"--json", "--node"}, {"--json", "--diff"}, {"--json", "--input-shape"}),
    *({"--view", "--input-shape"}, {"--text", "--input-shape"}),
)


def _check_forms(forms: dict[str, bool]) -> None:
    """Raise UsageError for two ways to show a model that do not go together."""
    given = [name for name, is_given in forms.items() if is_given]
    for i, name in enumerate(given):
        for other in given[i + 1 :]:
            if {name, other} not in _TOGETHER:
                raise UsageError(f"{other} and {name} exclude each other")


def _compare(model: Path, other: Path, as_json: bool) -> None:
    from qpasses.api import diff
    from qpasses.report.difference_tables import print_difference

    found = diff(model, other)
    if as_json:
        click.echo(json.dumps(found.as_json(), indent=2))
    else:
        print_difference(console(), found)
    if not found.is_same:
        sys.exit(1)


def _show(
    model: Path, input_shape: tuple[str, ...], node: str | None, text: bool, as_json: bool
) -> None:
    from qpasses.api import look
    from qpasses.jobs.previewing import Preview
    from qpasses.report.inspection_tables import print_inspection, print_node
    from qpasses.report.preview_tables import print_preview
    from qpasses.report.text import to_text

    found = look(model, input_shape=input_shape)
    if node is not None and isinstance(found, Preview):
        raise UsageError(
            f"{model}: --node is for the nodes of an integer model, and this is none: what "
            "would become of each is in --json"
        )
    if text:
        click.echo(to_text(found.model), nl=False)
    elif as_json:
        shown = found if isinstance(found, Preview) or node is None else found.node(node)
        click.echo(json.dumps(shown.as_json(), indent=2))
    elif isinstance(found, Preview):
        print_preview(console(), found.as_json())
    elif node is not None:
        print_node(console(), found.node(node))
    else:
        print_inspection(console(), found)
