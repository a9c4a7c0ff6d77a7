"""The report in a terminal: a summary that fits a screen, and all of it with --verbose."""

import shlex
from collections.abc import Mapping, Sequence
from math import floor
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from qpasses.report.details import print_details
from qpasses.report.summary_rows import Detail, summary_rows
from qpasses.report.wording import Name, counted, fitting, some

_SKIPPED_SHOWN = 20
"""Bad samples in a row; the JSON report lists them all."""

_OUTPUTS_SHOWN = 3
"""Outputs that lose most; with --verbose all."""

_WRONG_SHOWN = 3
"""Nodes that are named where proofs fail."""

_VERDICTS = {"ok": "green", "incomplete": "yellow", "failed": "red"}

_WORDS = {"poor": "red", "fair": "yellow", "good": "green", "not measured": "yellow"}
"""Of accuracy, the worst first."""


def print_settings(console: Console, title: str, entries: Mapping[str, Any]) -> None:
    """What is about to be done: every option that is set, with its value."""
    table = Table(title=title, show_header=False, title_justify="left", box=None)
    for name, value in entries.items():
        if _is_set(value):
            table.add_row(name, escape(_shown(name, value)))
    console.print(table)


def print_changed(
    console: Console, title: str, entries: Mapping[str, Any], config: Path | None
) -> None:
    """What is about to be done: the options that are not as usual, the file they are from."""
    shown = ", ".join(
        name if value is True else f"{name} {fitting(console, _shown(name, value), 3)}"
        for name, value in entries.items()
        if _is_set(value)
    )
    lines = fitting(console, title, 1), shown, f"config {config}" if config else ""
    for line in filter(None, lines):
        console.print(escape(line), highlight=False, soft_wrap=not console.is_terminal)


def _is_set(value: Any) -> bool:
    return value is not None and value is not False and value != ()


def _shown(name: str, value: Any) -> str:
    separator = "x" if name == "size" else ", "
    return separator.join(map(str, value)) if isinstance(value, tuple) else str(value)


def print_report(console: Console, report: dict[str, Any], verbose: bool = False) -> None:
    """Samples, accuracy, the summary, ``verbose`` the evidence too, warnings, the verdict."""
    print_samples(console, report)
    _print_accuracy(console, report, verbose)
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    for name, text in summary_rows(report, Detail(verbose, cut=console.is_terminal)):
        table.add_row(escape(name), escape(text))
    console.print(table)
    console.print()
    if verbose:
        print_details(console, report)
    print_skipped(console, report)
    print_warnings(console, report)
    print_problems(console, report)
    print_verdict(console, report)


def print_verdict(console: Console, report: Mapping[str, Any]) -> None:
    """What is proved, and apart from that how near the outputs are."""
    summary = report["summary"]
    verdict, accuracy = summary["verdict"], summary["accuracy"]
    why = f" ({why})" if (why := "; ".join(_reasons(report))) else ""
    several = len(report["accuracy"]["outputs"]) > 1
    name = f", output {accuracy['output']!r}" if several and accuracy["output"] else ""
    figure = f" ({figure}{name})" if (figure := _figure(accuracy)) else ""
    console.print(
        f"verdict: proofs [{_VERDICTS[verdict]}]{verdict}[/]{escape(why)}; "
        f"accuracy [{_WORDS[accuracy['word']]}]{accuracy['word']}[/]{escape(figure)}",
        highlight=False,
        soft_wrap=not console.is_terminal,
    )


def _reasons(report: Mapping[str, Any]) -> Sequence[str]:
    """Why the proofs are not what they should be, if they are not."""
    summary = report["summary"]
    if summary["verdict"] != "failed":
        return [*summary["because"]]
    nodes = report["evidence"]["nodes"]
    wrong = [each["name"] for each in nodes if each["mismatches"] or each["problem"]]
    if wrong:
        return [f"{counted(len(wrong), 'node')}: {some(wrong, _WRONG_SHOWN)}"]
    return [counted(len(summary.get("problems", [])), "problem")]


def _figure(accuracy: Mapping[str, Any]) -> str:
    """Cut, not rounded: it says the same as the word."""
    if accuracy["agreement"] is not None:
        return f"{floor(1000 * accuracy['agreement']) / 10:.1f}% of labels as in float"
    decibels = accuracy["sqnr_db"]
    return "" if decibels is None else f"{floor(10 * decibels) / 10:.1f} dB"


def print_how_to_measure(
    console: Console, report: dict[str, Any], output: Path | None, model: Path
) -> None:
    """The command that says whether a file that was written is faster."""
    if output and _has_bodies(report):
        _print_command(console, "for latency", "bench", output, "--against", model)


def print_how_to_gain(
    console: Console, report: dict[str, Any], output: Path | None, model: Path, data: Any
) -> None:
    """Where accuracy goes that is not good, and what to try; else the command that tells."""
    if report["summary"]["accuracy"]["word"] not in ("fair", "poor"):
        return
    analysis = report.get("analysis") or {}
    rows = [row for row in analysis.get("tensors", []) if row["cost"] and row["cost"]["share"]]
    rows.sort(key=lambda row: -row["cost"]["share"])
    if costly := rows[:_COSTLY_SHOWN]:
        shown = (
            f"{fitting(console, _named(each), 4)} ({each['cost']['share']:.0%})"
            for each in costly
        )
        left = len(analysis.get("left_out", []))
        among = f" of {len(rows)} tensors that there was time for" if left else ""
        _print_line(console, f"costs most{among}: {', '.join(shown)}")
    findings = [each for each in analysis.get("findings", []) if each["option"]]
    if findings:
        _print_line(console, f"try: {findings[0]['option']}: {findings[0]['text']}")
    elif output and _has_bodies(report):
        given = () if data is None else ("--data", data)
        command = "analyze", output, "--against", model, *given
        _print_command(console, "where it is lost", *command)


def _named(row: Mapping[str, Any]) -> str:
    """As the float model calls it, or the node that has the weights."""
    return f"{row['real']} weights" if row["kind"] == "weights" else str(row["real"])


_COSTLY_SHOWN = 3
"""Tensors that cost most."""


def _has_bodies(report: Mapping[str, Any]) -> bool:
    return any(report.get("latency", {}).get("nodes_run", {}).values())


def _print_command(console: Console, what: str, *words: Any) -> None:
    _print_line(console, f"{what}: {shlex.join(['qpasses', *map(str, words)])}")


def _print_line(console: Console, text: str) -> None:
    console.print(escape(text), highlight=False, soft_wrap=True)


def print_samples(console: Console, report: dict[str, Any]) -> None:
    """Where the samples are from, and what pictures among them become."""
    samples = report["samples"]
    how = f": {samples['preprocessing']}" if samples["preprocessing"] else ""
    console.print(f"Samples: {escape(samples['source'])}{escape(how)}\n", highlight=False)


def print_skipped(console: Console, report: dict[str, Any]) -> None:
    """Bad samples that were left out, and why, one line each."""
    skipped = report["samples"].get("skipped", [])
    for each in skipped[:_SKIPPED_SHOWN]:
        console.print(
            f"[yellow]skipped[/]: {escape(each['reason'] or each['name'])}",
            highlight=False,
            soft_wrap=True,
        )
    if len(skipped) > _SKIPPED_SHOWN:
        console.print(f"and {len(skipped) - _SKIPPED_SHOWN} more: --json lists them all")


def print_warnings(console: Console, report: dict[str, Any]) -> None:
    """What to know, one line each."""
    for warning in report["warnings"]:
        console.print(
            f"[yellow]warning[/]: {escape(warning)}", highlight=False, soft_wrap=True
        )


def print_problems(console: Console, report: dict[str, Any]) -> None:
    """What is wrong, one line each."""
    for problem in report["summary"].get("problems", []):
        console.print(f"[red]problem[/]: {escape(problem)}", highlight=False, soft_wrap=True)


def _print_accuracy(console: Console, report: dict[str, Any], verbose: bool) -> None:
    """The outputs beside those of the model that was given, what loses most first if many."""
    count = report["samples"]["accuracy"]
    if not count:
        return  # verify without data
    calibrated_on = report["samples"].get("calibration", 0) != 0
    calibrated_on &= not report["configuration"].get("calibration_table")
    used = counted(count, "calibration sample" if calibrated_on else "sample")
    what = "the model that was given" if report["quantized_before"] else "the float model"
    console.print(f"Against {what}, on {used}", style="italic", highlight=False)
    outputs = report["accuracy"]["outputs"]
    shown = outputs
    if len(outputs) > _OUTPUTS_SHOWN and not verbose:
        shown = sorted(outputs, key=_loss)[:_OUTPUTS_SHOWN]
    has_labels = any(each["agreement"] is not None for each in shown)
    table = Table(box=None, pad_edge=False)
    table.add_column("output")
    for name in ("SQNR dB", "cosine", "max |error|", *(["as in float"] * has_labels)):
        table.add_column(name, justify="right", no_wrap=True)
    for output in shown:
        cells = [
            _number(output["sqnr_db"], ".2f"),
            _number(output["cosine"], ".6f"),
            _number(output["max_abs_error"], ".4g"),
            *([_number(output["agreement"], ".1%")] * has_labels),
        ]
        table.add_row(Name(output["name"]), *cells)
    console.print(table)
    if len(shown) < len(outputs):
        console.print(f"and {len(outputs) - len(shown)} more outputs that lose less")
    console.print()


def _loss(output: Mapping[str, Any]) -> tuple[int, float]:
    figure = output["sqnr_db"] if output["agreement"] is None else output["agreement"]
    return [*_WORDS].index(output["word"]), 0.0 if figure is None else figure


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def print_passes(console: Console, rows: Sequence[tuple[str, str, str]]) -> None:
    """Every name for --print-after and --stop-after, its stage, and what it does."""
    table = Table(box=None, pad_edge=False)
    for column in ("pass", "stage", "what it does"):
        table.add_column(column)
    for row in rows:
        table.add_row(*row)
    console.print(table)
