"""qpasses verify: an integer model checked against its float original."""

from pathlib import Path
from typing import Any

import click

from qpasses.cli.parameters import PATH, Command, parameters
from qpasses.cli.running import run


@click.command(
    cls=Command,
    params=[click.Argument(["integer"], type=PATH), *parameters("verify")],
    examples=("qpasses verify model.int8.onnx --against model.onnx --data samples/",),
)
def verify(integer: Path, **options: Any) -> None:
    """Check the integer model INTEGER on this machine against its float original.

    Pictures are preprocessed as they were for quantize, if nothing else is said. Exit code 1
    if anything differs. Without --against or --data the verdict is incomplete at best.
    """
    from qpasses.api import verify as verified
    from qpasses.emit.evidence_file import place_to_read

    options = {"integer": integer, **options}
    shown = options | {"evidence_file": place_to_read(options["evidence_file"], integer)}
    run("verify", shown, options, verified)
