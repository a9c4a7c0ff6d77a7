"""qpasses quantize: a model in, an integer model out."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from qpasses.cli.parameters import PATH, Command, parameters
from qpasses.cli.running import run


@click.command(
    cls=Command, params=[click.Argument(["model"], type=PATH), *parameters("quantize")]
)
def quantize(model: Path, **options: Any) -> None:
    """Turn MODEL into an integer model, with evidence for every node."""
    from qpasses.api import quantize as quantized

    run_through("quantize", model, quantized, **options)


def run_through(
    name: str,
    model: Path,
    command: Callable[..., Any],
    print_after: tuple[str, ...],
    **options: Any,
) -> None:
    """Run the command called ``name``, which takes ``model`` through the stages."""
    from qpasses.emit.evidence_file import place_to_write
    from qpasses.ir.settings import usual_accuracy, usual_options
    from qpasses.jobs.pass_names import check_pass
    from qpasses.load.arguments import given_target

    for each in print_after:
        check_pass(each)
    shown = {"model": model, **options, "print_after": print_after}
    target = given_target(options["target"], options["exact"])
    accuracy = options["accuracy"] or usual_accuracy(options.get("data"))
    usual = usual_options(target, accuracy) | {"accuracy": accuracy}
    shown |= {key: value for key, value in usual.items() if options[key] is None}
    wanted = (options[key] for key in ("evidence_file", "output", "emit", "stop_after"))
    shown["evidence_file"] = place_to_write(*wanted)
    run(name, shown, options | {"model": model}, command, print_after)
