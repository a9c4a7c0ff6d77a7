"""What quantize, calibrate and verify have in common: echo, run under progress bars, show."""

import shlex
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import click

from opsets.errors import UsageError
from qpasses.cli.config_file import CONFIG
from qpasses.ir.choices import GraphFormat
from qpasses.ir.commands import COMMANDS, no_watch
from qpasses.ir.declared import SWITCH, declared
from qpasses.ir.terminal_options import PictureOptions

_FILE_WIDTH = 250
"""Columns of the tables where the output goes to a file or a pipe: names stay whole."""


def run(
    path: str,
    shown: dict[str, Any],
    options: dict[str, Any],
    command: Callable[..., Any],
    watch: Callable[[str, Any], None] = no_watch,
    show: Callable[[Any, dict[str, Any]], None] | None = None,
) -> None:
    """Echo the configuration, run ``command`` under progress bars, ``show`` its report.

    ``path``: the name of the command; ``shown``: the options as they are echoed; ``watch`` is
    called with name and graph after each pass.
    """
    from rich.console import Console

    from qpasses.report.terminal import (
        print_changed,
        print_how_to_gain,
        print_how_to_measure,
        print_problems,
        print_report,
        print_settings,
        print_warnings,
    )
    from qpasses.report.watching import progress_bars, timings

    config = click.get_current_context().meta.get(CONFIG)
    for name in ("output", "evidence_file", "json_file", "html_file"):
        if config and options.get(name) and options[name].resolve() == config.resolve():
            raise UsageError(f"{config}: is an input: choose another name")
    quiet, verbose = options.pop("quiet"), options.pop("verbose")
    if quiet and verbose:
        raise UsageError("--quiet and --verbose exclude each other")
    report_to, title = console(quiet), f"qpasses {path}"
    if verbose:
        settings = _entries(path, _without_idle_percentile(shown)) | {"config": config}
        print_settings(report_to, title, settings)
    else:
        subject, *_ = shown.values()
        changed = _entries(path, _unlike_usual(path, shown, options))
        print_changed(report_to, f"{title} {subject}", changed, config)
    options["preprocessing"] = taken_preprocessing(options)
    if "html_file" in options:
        options["command_line"] = shlex.join(["qpasses", *sys.argv[1:]])
    errors = Console(stderr=True, quiet=quiet)
    with timings(errors) if verbose else progress_bars(errors) as (progress, after_pass):
        if "stop_after" in options:
            options["after"] = _each(after_pass, watch)
        result = command(**options, progress=progress)
    (show or partial(print_report, verbose=verbose))(report_to, result.report)
    if "latency" in result.report:
        places = options["output"], options["model"]
        print_how_to_measure(report_to, result.report, *places)
        print_how_to_gain(report_to, result.report, *places, options["data"])
    if missed := (result.report.get("widths") or {}).get("missed"):
        if quiet:
            print_warnings(Console(stderr=True), {"warnings": missed})
        sys.exit(1)
    if result.report.get("summary", {}).get("verdict") == "failed":
        if quiet:
            print_problems(Console(stderr=True), result.report)
        sys.exit(1)


def console(quiet: bool = False) -> Any:
    """Where reports are printed."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _FILE_WIDTH, quiet=quiet)


def _entries(path: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options by their names on the command line; switches as they were moved."""
    known = declared(COMMANDS[path])
    entries = {}
    for name, value in options.items():
        found = known.get(name)
        if found is None or found.kind is not SWITCH:
            entries[found.flag if found else name] = value
        elif value and value != found.default:
            entries[found.flag] = True
        elif found.option.opposite and not value:
            entries[f"no-{found.flag}"] = True
    return entries


def _unlike_usual(path: str, shown: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """What of the options to show the user said, and where the evidence is."""
    return {
        name: shown[name]
        for name, known in declared(COMMANDS[path]).items()
        if name == "evidence_file" or options.get(name, shown.get(name)) != known.default
        if name in shown
    }


def _without_idle_percentile(options: dict[str, Any]) -> dict[str, Any]:
    """The options to show: the percentile only where a method looks at it."""
    overrides = options.get("calibration_overrides", ())
    rules = {text.rpartition("=")[2] for text in overrides}
    if {options.get("calibration_method"), *rules} & {"percentile", "auto"}:
        return options
    return {name: value for name, value in options.items() if name != "percentile"}


def taken_preprocessing(options: dict[str, Any]) -> Any:
    """The preprocessing that the PictureOptions describe, taken out; None for none."""
    parts = {name: options.pop(name) for name in declared(PictureOptions)}
    if all(value is None for value in parts.values()):
        return None
    from calibration.presets import preprocessing

    if parts["scale"] is not None:
        if len(parts["scale"]) != 1:
            raise UsageError("--scale takes one number for all channels: use --std")
        (parts["scale"],) = parts["scale"]
    parts["layout"] = parts.pop("picture_layout")
    return preprocessing(parts.pop("preprocess"), **parts)


def _each(*watches: Callable[[str, Any], None]) -> Callable[[str, Any], None]:
    """Called with each pass's name and graph: hands them to all ``watches``."""

    def after(name: str, graph: Any) -> None:
        for watch in watches:
            watch(name, graph)

    return after


def printing(
    print_after: tuple[str, ...], graph_format: GraphFormat
) -> Callable[[str, Any], None]:
    """Called with each pass's name and graph: prints the graph where that is wanted."""

    def after(name: str, graph: Any) -> None:
        if name in print_after:
            mark = "//" if graph_format == "mlir" else "#"
            click.echo(f"{mark} after {name}\n{_text_of(graph, graph_format)}")

    return after


def _text_of(graph: Any, graph_format: GraphFormat) -> str:
    from qpasses.emit.graph_mlir import graph_as_mlir
    from qpasses.ir.interchange import export_graph
    from qpasses.report.text import LARGEST_SHOWN, to_text

    model = export_graph(graph)
    return graph_as_mlir(model, LARGEST_SHOWN) if graph_format == "mlir" else to_text(model)
