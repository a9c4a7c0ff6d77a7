"""qpasses quantize: a float model in, an integer model out."""

from pathlib import Path
from typing import Any

import click

from qpasses.cli.parameters import PATH, Command, parameters
from qpasses.cli.running import run


@click.command(
    cls=Command, params=[click.Argument(["model"], type=PATH), *parameters("quantize")]
)
def quantize(model: Path, print_after: tuple[str, ...], **options: Any) -> None:
    """Turn the float MODEL into an integer model, with evidence for every node."""
    from qpasses.api import check_pass
    from qpasses.api import quantize as quantized
    from qpasses.emit.evidence_file import place_to_write
    from qpasses.ir.settings import usual_options
    from qpasses.load.arguments import given_target

    for name in print_after:
        check_pass(name)
    shown = {"model": model, **options, "print_after": print_after}
    usual = usual_options(given_target(options["target"], options["exact"]))
    shown |= {name: value for name, value in usual.items() if options[name] is None}
    wanted = (options[name] for name in ("evidence_file", "output", "emit", "stop_after"))
    shown["evidence_file"] = place_to_write(*wanted)
    run("quantize", shown, options | {"model": model}, quantized, print_after)
