"""The report as tables in a terminal."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

_WIDE = 110
"""Columns from which on the evidence table shows everything."""

_SKIPPED_SHOWN = 20
"""Bad samples in a row; the JSON report lists them all."""

_NODES_SHOWN = 500
"""Of evidence and of joins; to lay out a row takes longer than to prove what it says."""

_TIED_SHOWN = 20
"""Tensors tied for the sake of tables, the costliest first; the JSON report lists them all."""

_VERDICTS = {
    "ok": "[green]ok[/]: every rewritten node is proved, body and meaning agree",
    "incomplete": "[yellow]incomplete[/]",
    "failed": "[red]failed[/]",
}


@contextmanager
def progress_bars(
    console: Console,
) -> Iterator[tuple[Callable[[str, int], Callable[[], None]], Callable[[str, Any], None]]]:
    """Callbacks for the pipeline: one bar per stage on ``console``, nothing after a pass."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    silent = console.quiet or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=silent) as bars:

        def start(stage: str, steps: int) -> Callable[[], None]:
            task = bars.add_task(stage, total=steps)
            return lambda: bars.advance(task)

        yield start, lambda _name, _graph: None


@contextmanager
def timings(
    console: Console,
) -> Iterator[tuple[Callable[[str, int], Callable[[], None]], Callable[[str, Any], None]]]:
    """Progress and after-pass callbacks that print what each stage and each pass took."""
    last = start = perf_counter()
    running = ""

    def took() -> str:
        nonlocal last
        before, last = last, perf_counter()
        return f"{last - before:8.3f} s"

    def end() -> None:
        if running:
            console.print(f"{took()}  {escape(running)}", highlight=False)

    def begin(stage: str, steps: int) -> Callable[[], None]:
        nonlocal running
        end()
        running = f"{stage} ({steps} steps)" if steps != 1 else stage
        return lambda: None

    def after_pass(name: str, graph: Any) -> None:
        console.print(f"{took()}    {name}: {len(graph.nodes)} nodes", highlight=False)

    yield begin, after_pass
    end()
    console.print(f"{perf_counter() - start:8.3f} s  in all", highlight=False)


def print_configuration(console: Console, title: str, entries: dict[str, Any]) -> None:
    """What is about to be done: every option that is set, with its value."""
    table = Table(title=title, show_header=False, title_justify="left", box=None)
    for name, value in entries.items():
        if value is not None and value is not False and value != ():
            separator = "x" if name == "size" else ", "
            shown = separator.join(map(str, value)) if isinstance(value, tuple) else str(value)
            table.add_row(name.removesuffix("_file").replace("_", "-"), escape(shown))
    console.print(table)


def print_report(console: Console, report: dict[str, Any]) -> None:
    """Samples, evidence per node, the summary, accuracy, the verdict, how to go on."""
    print_samples(console, report)
    _print_evidence(console, report["evidence"]["nodes"])
    _print_summary(console, report)
    _print_joins(console, report.get("joins", []))
    _print_tied(console, report.get("sharing"))
    _print_accuracy(console, report)
    summary = report["summary"]
    print_skipped(console, report)
    print_warnings(console, report)
    print_problems(console, report)
    because = f": {'; '.join(summary['because'])}" if summary["because"] else ""
    console.print(f"verdict {_VERDICTS[summary['verdict']]}{escape(because)}", highlight=False)


def print_how_to_measure(
    console: Console, report: dict[str, Any], output: Path | None, model: Path
) -> None:
    """The command that says whether a file that was written is faster."""
    if output and any(report.get("latency", {}).get("nodes_run", {}).values()):
        command = shlex.join(["qpasses", "bench", str(output), "--against", str(model)])
        console.print(f"for latency: {escape(command)}", highlight=False, soft_wrap=True)


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


def _print_evidence(console: Console, nodes: list[dict[str, Any]]) -> None:
    if not nodes:
        console.print("No node is integer, so there is no evidence.\n")
        return
    wide = console.width >= _WIDE
    table = Table(title="Evidence", title_justify="left", box=None, pad_edge=False)
    for name in ("node", "op", "evidence", "body") if wide else ("node", "body"):
        table.add_column(name, overflow="fold")
    for name in ("inputs covered", "body!=meaning", "meaning!=real", "LSB"):
        table.add_column(
            name if wide else name.replace("!=", "\n!="), justify="right", no_wrap=True
        )
    shown = nodes if len(nodes) <= _NODES_SHOWN else _foremost(nodes)
    for node in shown:
        covered = f"{node['domain']:,}" if node["domain"] else "all"
        names = [node["name"], node["op"], node["kind"], node["body"]]
        table.add_row(
            *map(escape, names if wide else [node["name"], node["body"]]),
            covered,
            f"{node['mismatches']:,}",
            f"{node['reference_moved']:,}",
            str(node["reference_max_lsb"]),
        )
    console.print(table)
    if len(shown) < len(nodes):
        console.print(
            f"and {len(nodes) - len(shown):,} more that differ no more: --json lists them all",
            highlight=False,
        )
    console.print()


def _foremost(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As many as are shown, in their order: those that differ most, and then the first."""
    by_difference = sorted(
        range(len(nodes)),
        key=lambda i: (
            -nodes[i]["mismatches"],
            -nodes[i]["reference_max_lsb"],
            -nodes[i]["reference_moved"],
        ),
    )
    return [nodes[i] for i in sorted(by_difference[:_NODES_SHOWN])]


def _print_summary(console: Console, report: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None, title="Summary", title_justify="left")
    for add_rows in _SUMMARY:
        add_rows(table, report)
    console.print(table)
    console.print()


def _add_shares(table: Table, report: dict[str, Any]) -> None:
    """What runs on integers, and what of that in fast bodies."""
    summary = report["summary"]
    nodes = ", ".join(f"{count} {op}" for op, count in summary["nodes"].items())
    table.add_row("nodes", nodes)
    table.add_row("integer share of nodes", f"{summary['integer_node_share']:.1%}")
    table.add_row(
        "integer share of multiply-accumulates",
        f"{summary['integer_mac_share']:.1%} of {summary['macs']:,}"
        + "".join(f", {op} not counted" for op in summary["macs_not_counted"]),
    )
    table.add_row("multiply-accumulates in fast bodies", f"{summary['fast_mac_share']:.1%}")
    table.add_row(
        "nodes in portable bodies",
        f"{len(summary['portable_nodes'])} of {len(report['evidence']['nodes'])}",
    )
    table.add_row("integer only", "yes" if summary["integer_only"] else "no")
    if (layout := report.get("layout")) and layout["channels_last"]:
        table.add_row(
            "channels last",
            f"{counted(layout['channels_last'], 'node')}, "
            f"{counted(layout['transposes'], 'Transpose')} lay tensors out",
        )


def _add_latency(table: Table, report: dict[str, Any]) -> None:
    """What compiled kernels take over, and how many nodes run with and without them."""
    latency = report.get("latency")
    if latency is None or not any(latency["nodes_run"].values()):
        return
    by_kernels, by_bodies = (
        ", ".join(f"{count} {op}" for op, count in latency[key].items()) or "none"
        for key in ("kernels", "bodies")
    )
    missing = "" if latency["built"] else ", of which none were built here"
    table.add_row("compiled kernels", f"for {by_kernels}{missing}; bodies for {by_bodies}")
    run = latency["nodes_run"]
    table.add_row(
        "nodes that run for these",
        f"at most {run['bodies']:,} with bodies alone, {run['kernels']:,} with kernels",
    )


def _add_float_nodes(table: Table, report: dict[str, Any]) -> None:
    """What was left in float, a row for each op type and reason."""
    left: dict[tuple[str, str], list[str]] = {}
    for node in report["summary"]["float_nodes"]:
        left.setdefault((node["op_type"], node["reason"]), []).append(node["name"])
    for (op, reason), names in left.items():
        table.add_row(
            f"left in float: {len(names)} {escape(op)}",
            escape(f"{', '.join(names)}: {reason}"),
        )


def _add_tables(table: Table, report: dict[str, Any]) -> None:
    """Lookups, the tables they share, and where ranges are those of functions."""
    tables = report["summary"]["tables"]
    if tables["lookups"]:
        table.add_row(
            "tables",
            f"{tables['stored']} for {tables['lookups']} lookups, {tables['bytes']:,} bytes "
            f"({tables['bytes_unshared']:,} if none were shared)",
        )
        table.add_row(
            "computed by",
            ", ".join(f"{count} {body}" for body, count in tables["bodies"].items()),
        )
    ranges = report.get("calibration", {}).get("tensors", [])
    if of_functions := [each["name"] for each in ranges if each["method"] == "function"]:
        listed = f"{counted(len(of_functions), 'tensor')}: {', '.join(of_functions)}"
        table.add_row("ranges of functions", escape(listed))
    if sharing := report.get("sharing"):
        table.add_row(
            f"tables of chains, shared within {sharing['limit_db']:g} dB",
            f"{sharing['tables']} for {sharing['chains']} lookups, {sharing['bytes']:,} bytes "
            f"({sharing['tables_before']} and {sharing['bytes_before']:,} without)",
        )


def _add_rounding(table: Table, report: dict[str, Any]) -> None:
    """How weights were rounded, if not just to the nearest codes, and what told so."""
    rounding = report.get("weight_rounding")
    if rounding is None:
        return
    text = f"{rounding['chosen']}, of {counted(rounding['nodes'], 'node')}"
    if wide := rounding["too_wide"]:
        text += f"; too wide for it, with sums kept: {', '.join(wide)}"
    if rounding["sqnr_db"]:
        text += _judged(rounding)
    elif rounding["asked"] == "auto":
        text += ": there is nothing to judge by, of eight different samples some are held back"
    table.add_row("weights rounded", escape(text))


def _add_chosen(table: Table, report: dict[str, Any]) -> None:
    """How biases were corrected and which activations have scales of channels, and why."""
    for key, label, counts, what in (
        ("bias_correction", "biases corrected", "nodes", "node"),
        ("activation_scales", "activation scales", "tensors", "tensor"),
    ):
        found = report.get(key)
        if found is None:
            continue
        text = f"{found['chosen']}, of {counted(found[counts], what)}"
        if found["sqnr_db"]:
            text += _judged(found)
        elif found["reason"]:
            text += f": {found['reason']}"
        table.add_row(label, escape(text))


def _judged(found: dict[str, Any]) -> str:
    """What each way gave on the samples that were held back."""
    each = ", ".join(f"{name} {db:.1f} dB" for name, db in found["sqnr_db"].items())
    return f"; on {counted(found['held_back'], 'held-back sample')}: {each}"


def _add_repairs(table: Table, report: dict[str, Any]) -> None:
    """Codes without a result, and biases that needed larger weight scales."""
    summary = report["summary"]
    for name, codes in summary["undefined_codes"].items():
        table.add_row(
            escape(f"not defined everywhere: {name}"),
            f"{len(codes)} codes, from {codes[0]} to {codes[-1]}, take the result of "
            "the nearest one that has one (of pairs: zero)",
        )
    for name, channels in summary["raised_weight_scales"].items():
        table.add_row(
            escape(f"weight scales raised: {name}"),
            f"{len(channels)} channels, whose bias would not fit int32",
        )


def _add_checks(table: Table, report: dict[str, Any]) -> None:
    """What ``verify`` compared, if it is its report."""
    checks = report.get("checks", {})
    if compared := checks.get("float_graph"):
        table.add_row(
            "compared with the float graph",
            f"{compared['nodes']} nodes, {sum(each['macs'] for each in compared['rules']):,} "
            f"multiply-accumulates: {compared['differences']} differences",
        )
        if chosen := compared["chosen_weights"]:
            table.add_row(
                "weights chosen on samples",
                f"{counted(chosen, 'node')}: less than two codes from the real ones",
            )
        if corrected := compared["corrected_biases"]:
            table.add_row(
                "biases corrected on samples",
                f"{counted(corrected, 'node')}: by 16 steps of the sum at most",
            )
    for other in filter(None, map(checks.get, ("tosa_reference", "iree"))):
        first = f", first at node {escape(other['first'])}" if other["first"] else ""
        table.add_row(
            other["program"],
            f"{counted(other['samples'], 'sample')}, {other['elements']:,} elements of "
            f"{counted(other['tensors'], 'tensor')}: {other['differences']} differ from "
            f"onnxruntime's{first}",
        )
    if probe := checks.get("kernel_probe"):
        table.add_row(
            "kernel probe",
            f"{probe['accumulators']:,} accumulators on {probe['nodes']} nodes: "
            f"{probe['mismatches']} differ",
        )
    if (compiled := checks.get("compiled_kernels")) and any(
        compiled[each] for each in ("nodes", "not_run")
    ):
        on_samples = (
            f"; {compiled['elements_differing']} elements of outputs"
            if "elements_differing" in compiled
            else ""
        )
        table.add_row(
            "compiled kernels",
            f"{compiled['nodes']} nodes, {compiled['exhaustive']} of them on all codes, "
            f"{compiled['elements']:,} results: {compiled['mismatches']} differ{on_samples}"
            + (f"; {compiled['not_run']} too large to run" if compiled["not_run"] else ""),
        )
    if qdq := checks.get("qdq"):
        table.add_row(
            "against the Q/DQ graph",
            f"{qdq['codes']:,} codes of {qdq['tensors']} tensors: {qdq['codes_differing']:,} "
            f"differ, by at most {qdq['max_lsb']}",
        )
    if bodies := checks.get("bodies"):
        table.add_row(
            "both bodies",
            f"{bodies['samples']} samples: "
            f"{bodies['elements_differing_unoptimized']} elements differ unoptimized, "
            f"{bodies['elements_differing_optimized']} optimized",
        )
    if kept := checks.get("evidence_file"):
        table.add_row(
            "evidence file",
            escape(
                f"{kept['path']}: {kept['nodes']} nodes, {kept['differences']} differences"
            ),
        )


def _add_kept(table: Table, report: dict[str, Any]) -> None:
    """What of a quantized model was kept, and what was not, with the reason."""
    kept = report.get("kept")
    if kept is None:
        return
    others = kept["from_samples"]
    rest = f"; from samples: {len(others)}: {', '.join(others)}" if others else ""
    table.add_row("scales kept", escape(f"{counted(kept['scales'], 'tensor')}{rest}"))
    table.add_row("weights kept bit for bit", f"{kept['weights']} nodes")
    for name, why in kept["weights_not_kept"].items():
        table.add_row(escape(f"weights not kept: {name}"), escape(why))
    if twice := kept["computed_twice"]:
        table.add_row(
            "computed twice, stored in two ways",
            escape(f"{counted(len(twice), 'tensor')}: {', '.join(twice)}"),
        )
    if early := kept["read_before_stored"]:
        table.add_row(
            "read as stored, in the model before that",
            escape(f"{counted(len(early), 'tensor')}: {', '.join(early)}"),
        )


def _add_channels(table: Table, report: dict[str, Any]) -> None:
    """In how many channels of sums the integers are those of real arithmetic."""
    summary = report["summary"]
    if not summary["channels"]:
        return
    equal = summary["channels"] - summary["channels_moved"]
    text = f"{equal:,} of {summary['channels']:,} channels of sums"
    moved = {n["name"]: len(n["moved_channels"]) for n in report["evidence"]["nodes"]}
    unlike = sorted((n for n in moved if moved[n]), key=lambda name: -moved[name])
    if unlike:
        shown = ", ".join(f"{name} {moved[name]}" for name in unlike[:_UNLIKE_SHOWN])
        rest = len(unlike) - _UNLIKE_SHOWN
        more = f" and {rest} more nodes: --json lists them" if rest > 0 else ""
        text += f"; others, on single sums: {shown}{more}"
    table.add_row("as in real arithmetic", escape(text))


_UNLIKE_SHOWN = 4
"""So many nodes are named whose channels differ from real arithmetic."""

_SUMMARY = (
    *(_add_shares, _add_channels, _add_kept, _add_float_nodes, _add_tables),
    *(_add_rounding, _add_chosen, _add_repairs, _add_checks, _add_latency),
)
"""What gives the rows of the summary, in order."""


def _print_joins(console: Console, joins: list[dict[str, Any]]) -> None:
    """The tables at inputs of Concat and Where, and what one scale would lose instead."""
    tables = [each for each in joins if each["table"]]
    if not tables:
        return
    console.print(
        f"Tables at joins: {len(tables)} of {counted(len(joins), 'input')}, losses predicted "
        f"from {tables[0]['energies']}",
        style="italic",
        highlight=False,
    )
    table = Table(box=None, pad_edge=False)
    for name in ("tensor", "read by"):
        table.add_column(name, overflow="fold")
    for name in ("range", "joined range", "loss tied", "by a table"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in tables[:_NODES_SHOWN]:
        ends = (
            f"{low:.5g} .. {high:.5g}" for low, high in (each["range"], each["joined_range"])
        )
        losses = (f"{each[key]:.2e}" for key in ("tied_loss", "table_loss"))
        table.add_row(escape(each["tensor"]), escape(each["node"]), *ends, *losses)
    console.print(table)
    if len(tables) > _NODES_SHOWN:
        console.print(f"and {len(tables) - _NODES_SHOWN:,} more: --json lists them all")
    console.print()


def _print_tied(console: Console, sharing: dict[str, Any] | None) -> None:
    """What sharing tables costs, if it was asked for."""
    if sharing is None:
        return
    tied = sorted(sharing["tensors"], key=lambda each: -each["loss_db"])
    if not tied:
        limit = f"{sharing['limit_db']:g} dB"
        console.print(f"No tensors could be tied within {limit} to share tables.\n")
        return
    console.print(
        f"Tied to share tables: {counted(len(tied), 'tensor')}, predicted to lose at most "
        f"{sharing['largest_loss_db']:.2f} dB, {sharing['mean_loss_db']:.2f} dB on average",
        style="italic",
        highlight=False,
    )
    table = Table(box=None, pad_edge=False)
    table.add_column("tensor", overflow="fold")
    for name in ("range", "shared range", "loss dB"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in tied[:_TIED_SHOWN]:
        ends = (
            f"{low:.5g} .. {high:.5g}" for low, high in (each["range"], each["shared_range"])
        )
        table.add_row(escape(each["name"]), *ends, f"{each['loss_db']:.2f}")
    console.print(table)
    if len(tied) > _TIED_SHOWN:
        console.print(f"and {len(tied) - _TIED_SHOWN} more: --json lists them all")
    console.print()


def _print_accuracy(console: Console, report: dict[str, Any]) -> None:
    count = report["samples"]["accuracy"]
    if not count:
        return  # verify without data
    calibrated_on = report["samples"].get("calibration", 0) != 0
    calibrated_on &= not report["configuration"].get("calibration_table")
    used = counted(count, "calibration sample" if calibrated_on else "sample")
    what = "the model that was given" if report["quantized_before"] else "the float model"
    console.print(f"Against {what}, on {used}", style="italic", highlight=False)
    table = Table(box=None)
    table.add_column("output")
    for name in ("SQNR dB", "cosine", "max |error|"):
        table.add_column(name, justify="right")
    for output in report["accuracy"]["outputs"]:
        table.add_row(
            escape(output["name"]),
            _number(output["sqnr_db"], ".2f"),
            _number(output["cosine"], ".6f"),
            _number(output["max_abs_error"], ".4g"),
        )
    console.print(table)


def counted(count: int, what: str) -> str:
    """``1 sample``, ``2 samples``."""
    return f"{count:,} {what}" + ("" if count == 1 else "s")


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
