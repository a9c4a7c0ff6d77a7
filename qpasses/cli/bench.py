"""qpasses bench: how long an integer model takes, beside others."""

from pathlib import Path
from typing import Any

import click

from qpasses.cli.parameters import PATH, Command, parameters
from qpasses.cli.running import run


@click.command(
    cls=Command,
    params=[click.Argument(["integer"], type=PATH), *parameters("bench")],
    examples=(
        "qpasses bench model.int8.onnx --against model.onnx --data samples/",
        "qpasses bench model.int8.onnx --threads 1,2",
    ),
)
def bench(integer: Path, **options: Any) -> None:
    """Measure how long the integer model INTEGER takes in onnxruntime on this machine.

    With its bodies and with the compiled kernels, if there are any, beside the float model
    and a Q/DQ model, if these are given: a few runs of each, in turns. Exit code 1 if
    kernels give other integers than bodies.
    """
    from qpasses.api import bench as benched
    from qpasses.report.bench_tables import print_latencies

    options = {"integer": integer, **options}
    run("bench", dict(options), options, benched, show=print_latencies)
