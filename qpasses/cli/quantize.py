"""qpasses quantize: a model in, an integer model out."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from opsets.errors import UsageError
from qpasses.cli.parameters import PATH, Command, parameters
from qpasses.cli.running import printing, run
from qpasses.ir.choices import GraphFormat


@click.command(
    cls=Command,
    params=[click.Argument(["model"], type=PATH), *parameters("quantize")],
    examples=(
        "qpasses quantize model.onnx --data samples/ -o model.int8.onnx",
        "qpasses quantize model.onnx --data photos/ --preprocess imagenet -o int8.onnx",
    ),
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
    graph_format: GraphFormat,
    **options: Any,
) -> None:
    """Run the command called ``name``, which takes ``model`` through the stages."""
    from qpasses.emit.evidence_file import place_to_write
    from qpasses.ir.settings import usual_accuracy, usual_options
    from qpasses.jobs.pass_names import check_pass
    from qpasses.load.arguments import given_target

    for each in print_after:
        check_pass(each)
    if graph_format != "onnx" and not print_after:
        raise UsageError(
            f"--format {graph_format} is for graphs that are printed on the way: add "
            "--print-after PASS (`qpasses passes` lists them)"
        )
    shown = {"model": model, **options, "print_after": print_after}
    shown |= {"graph_format": graph_format} if print_after else {}
    target = given_target(options["target"], options["exact"])
    accuracy = options["accuracy"] or usual_accuracy(options.get("data"))
    usual = usual_options(target, accuracy) | {"accuracy": accuracy}
    shown |= {key: value for key, value in usual.items() if options[key] is None}
    wanted = (options[key] for key in ("evidence_file", "output", "emit", "stop_after"))
    shown["evidence_file"] = place_to_write(*wanted)
    watch = printing(print_after, graph_format)
    is_told = not options["quiet"] or options["json_file"]
    if options["analyze"] is None and options["html_file"] is None and is_told:
        options["analyze"] = "short"
    run(name, shown, options | {"model": model}, command, watch)
