"""The rows of the summary: what everyone sees, and what --verbose adds."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qpasses.report.goal_rows import goal_rows
from qpasses.report.wording import counted, fold, some

Report = Mapping[str, Any]
Rows = Iterable[tuple[str, str]]
"""What it is, and what is said of it."""

_NAMED = 3
"""So many names of a row are shown; with --verbose all."""

_NAME = 24
"""So many characters of a name that is cut."""

_REASONS = 4
"""So many op types and reasons why nodes are left in float; with --verbose all."""


@dataclass(frozen=True)
class Detail:
    """How much is said: all with ``verbose``; of names the ends where they are ``cut``."""

    verbose: bool
    cut: bool

    def names(self, names: Sequence[str]) -> str:
        """All of them, or the first."""
        if self.verbose:
            return ", ".join(names)
        return some([fold(name, _NAME) for name in names] if self.cut else names, _NAMED)


def summary_rows(report: Report, detail: Detail) -> Rows:
    """All rows, in order."""
    for rows in _VERBOSE if detail.verbose else _USUAL:
        yield from rows(report, detail)


def _size(report: Report, _detail: Detail) -> Rows:
    before, after = report["size"]["before"], report["size"]["after"]
    if before is None:
        yield "size", _megabytes(after)
    else:
        share = f", {after / before:.0%} of it" if before else ""
        yield "size", f"{_megabytes(before)} to {_megabytes(after)}{share}"


def _megabytes(count: int) -> str:
    size = count / 1e6
    return f"{size:.2f} MB" if size >= 1 else f"{size:.3f} MB"


def _nodes_run(report: Report, _detail: Detail) -> Rows:
    """How many nodes onnxruntime runs with and without compiled kernels."""
    latency = report.get("latency")
    if latency is None or not any(latency["nodes_run"].values()):
        return
    run, built = latency["nodes_run"], "" if latency["built"] else ", not built here"
    yield (
        "nodes that run",
        f"{run['bodies']:,} at most, {run['kernels']:,} with compiled kernels{built}",
    )


def _integer(report: Report, _detail: Detail) -> Rows:
    """What runs on integers, and what of that in slow bodies."""
    summary = report["summary"]
    text = f"{summary['integer_node_share']:.1%} of nodes"
    if summary["macs"]:
        text += f", {summary['integer_mac_share']:.1%} of multiply-accumulates"
    uncounted = summary["macs_not_counted"]
    yield "integer", text + "".join(f", {op} not counted" for op in uncounted)
    if slow := summary["portable_nodes"]:
        yield "in portable bodies", f"{counted(len(slow), 'node')}: slow in onnxruntime"


def _left_in_float(report: Report, detail: Detail) -> Rows:
    """A row for each op type and reason."""
    left: dict[tuple[str, str], list[str]] = {}
    for node in report["summary"]["float_nodes"]:
        left.setdefault((node["op_type"], node["reason"]), []).append(node["name"])
    if not left:
        yield "left in float", "nothing"
    shown = None if detail.verbose else _REASONS
    for (op, reason), names in [*left.items()][:shown]:
        yield f"left in float: {len(names)} {op}", f"{detail.names(names)}: {reason}"
    if shown is not None and len(left) > shown:
        rest = [len(names) for names in [*left.values()][shown:]]
        others = "another reason" if len(rest) == 1 else f"{len(rest)} other reasons"
        yield f"left in float: {sum(rest)}", f"for {others}: see --verbose"


def _states(report: Report, detail: Detail) -> Rows:
    """Which states can be fed back as they are stored, and which cannot."""
    states = report.get("states") or []
    tied = [each["input"] for each in states if each["tied"]]
    if tied:
        yield (
            "states",
            f"{counted(len(tied), 'input')} of one scale with the next value: "
            f"{detail.names(tied)}",
        )
    for each in states if detail.verbose else ():
        yield (
            f"state {each['input']}",
            f"next value {each['output']}: {each['reason'] or 'one scale'}",
        )


def _widths(report: Report, detail: Detail) -> Rows:
    """Which tensors got 16 bits by what they cost, and how near outputs are by it."""
    widths = report.get("widths")
    if widths is None:
        return
    names = widths["tensors"]
    costly = f", what cost most first: {detail.names(names)}" if names else ""
    yield "in 16 bits", f"{counted(len(names), 'tensor')}{costly}"
    yield from goal_rows(widths)


def _not_tried(report: Report, _detail: Detail) -> Rows:
    """What was to make the integers better and was not tried, where one can do something."""
    by_reason: dict[str, list[str]] = {}
    for key, what in _RECOVERING.items():
        found = report.get(key) or {}
        reason = found.get("reason", "")
        if ": " in reason:  # why, and what to do
            by_reason.setdefault(reason, []).append(what)
    for reason, names in by_reason.items():
        yield "not tried", f"{' and '.join(names)}: {reason}"


_RECOVERING = {
    "bias_correction": "correction of biases",
    "activation_scales": "scales of channels",
}


def _kept(report: Report, detail: Detail) -> Rows:
    """What of a quantized model was kept, and what was not, with the reason."""
    kept = report.get("kept")
    if kept is None:
        return
    others, lost = kept["from_samples"], kept["weights_not_kept"]
    rest = f"; from samples: {len(others)}: {detail.names(others)}" if others else ""
    yield "scales kept", f"{counted(kept['scales'], 'tensor')}{rest}"
    unlike = "" if detail.verbose or not lost else f"; not of {detail.names([*lost])}"
    yield "weights kept bit for bit", f"{counted(kept['weights'], 'node')}{unlike}"
    if not detail.verbose:
        return
    for name, why in lost.items():
        yield f"weights not kept: {name}", why
    for key, what in (
        ("computed_twice", "computed twice, stored in two ways"),
        ("read_before_stored", "read as stored, in the model before that"),
    ):
        if names := kept[key]:
            yield what, f"{counted(len(names), 'tensor')}: {', '.join(names)}"


def _repairs(report: Report, detail: Detail) -> Rows:
    """Codes without a result, and biases that needed larger weight scales."""
    undefined = report["summary"]["undefined_codes"]
    raised = report["summary"]["raised_weight_scales"]
    if not detail.verbose:
        for what, names in (
            ("not defined everywhere", undefined),
            ("weight scales raised", raised),
        ):
            if names:
                yield what, detail.names([*names])
        return
    for name, codes in undefined.items():
        runs = [each if isinstance(each, list) else [each, each] for each in codes]
        count = sum(last - first + 1 for first, last in runs)
        yield (
            f"not defined everywhere: {name}",
            f"{count} codes, from {runs[0][0]} to {runs[-1][1]}, take the result of "
            "the nearest one that has one (of pairs: zero)",
        )
    for name, channels in raised.items():
        yield (
            f"weight scales raised: {name}",
            f"{len(channels)} channels, whose bias would not fit int32",
        )


def _checks(report: Report, _detail: Detail) -> Rows:
    """What ``verify`` compared, if it is its report."""
    checks = report.get("checks", {})
    if compared := checks.get("float_graph"):
        yield (
            "against the float graph",
            f"{compared['nodes']:,} nodes: {counted(compared['differences'], 'difference')}",
        )
        if chosen := compared["chosen_weights"]:
            yield (
                "weights chosen on samples",
                f"{counted(chosen, 'node')}: less than two codes from the real ones",
            )
        if corrected := compared["corrected_biases"]:
            yield (
                "biases corrected",
                f"{counted(corrected, 'node')}: by 16 steps of the sum at most",
            )
    for other in filter(None, map(checks.get, ("tosa_reference", "iree", "litert", "tflm"))):
        first = f", first at node {other['first']}" if other["first"] else ""
        yield (
            other["program"],
            f"{counted(other['samples'], 'sample')}, {other['elements']:,} elements of "
            f"{counted(other['tensors'], 'tensor')}: {other['differences']} differ from "
            f"onnxruntime's{first}",
        )
        for resolver, found in other.get("others", {}).items():
            largest = f", by {found['largest']} at most" if found["differences"] else ""
            yield (
                f"LiteRT ({resolver}), for information",
                found["problem"]
                or f"{found['differences']} elements of outputs differ{largest}",
            )
    if probe := checks.get("kernel_probe"):
        yield (
            "kernel probe",
            f"{probe['accumulators']:,} accumulators on {probe['nodes']} nodes: "
            f"{probe['mismatches']} differ",
        )
    yield from _compiled(checks.get("compiled_kernels"))
    if qdq := checks.get("qdq"):
        yield (
            "against the Q/DQ graph",
            f"{qdq['codes']:,} codes: {qdq['codes_differing']:,} differ, by at most "
            f"{qdq['max_lsb']}",
        )
    if bodies := checks.get("bodies"):
        yield (
            "both bodies",
            f"{counted(bodies['samples'], 'sample')}: "
            f"{bodies['elements_differing_unoptimized']} elements differ unoptimized, "
            f"{bodies['elements_differing_optimized']} optimized",
        )
    if kept := checks.get("evidence_file"):
        yield (
            "evidence file",
            f"{kept['path']}: {counted(kept['nodes'], 'node')}, "
            f"{counted(kept['differences'], 'difference')}",
        )


def _compiled(found: Mapping[str, Any] | None) -> Rows:
    if found is None or not (found["nodes"] or found["not_run"]):
        return
    text = f"{counted(found['nodes'], 'node')}, {found['elements']:,} results: "
    text += f"{found['mismatches']} differ"
    if "elements_differing" in found:
        text += f"; {found['elements_differing']} elements of outputs"
    if found["not_run"]:
        text += f"; {found['not_run']} too large to run"
    yield "compiled kernels", text


def _nodes(report: Report, _detail: Detail) -> Rows:
    summary = report["summary"]
    yield "nodes", ", ".join(f"{count} {op}" for op, count in summary["nodes"].items())
    yield "integer only", "yes" if summary["integer_only"] else "no"
    yield (
        "multiply-accumulates",
        f"{summary['macs']:,}, {summary['fast_mac_share']:.1%} in fast bodies",
    )
    if (layout := report.get("layout")) and layout["channels_last"]:
        yield (
            "channels last",
            f"{counted(layout['channels_last'], 'node')}, "
            f"{counted(layout['transposes'], 'Transpose')} lay tensors out",
        )


def _channels(report: Report, _detail: Detail) -> Rows:
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
    yield "as in real arithmetic", text


_UNLIKE_SHOWN = 4
"""So many nodes are named whose channels differ from real arithmetic."""


def _tables(report: Report, _detail: Detail) -> Rows:
    """Lookups, and the tables they share."""
    tables = report["summary"]["tables"]
    if tables["lookups"]:
        yield (
            "tables",
            f"{tables['stored']} for {tables['lookups']} lookups, {tables['bytes']:,} bytes "
            f"({tables['bytes_unshared']:,} if none were shared)",
        )
        bodies = tables["bodies"].items()
        yield "computed by", ", ".join(f"{count} {body}" for body, count in bodies)


def _asked_for(report: Report, detail: Detail) -> Rows:
    """What came of ranges of functions and of tables that were to be shared."""
    ranges = report.get("calibration", {}).get("tensors", [])
    if of_functions := [each["name"] for each in ranges if each["method"] == "function"]:
        listed = detail.names(of_functions)
        yield "ranges of functions", f"{counted(len(of_functions), 'tensor')}: {listed}"
    if sharing := report.get("sharing"):
        yield (
            f"tables of chains, shared within {sharing['limit_db']:g} dB",
            f"{sharing['tables']} for {sharing['chains']} lookups, {sharing['bytes']:,} bytes "
            f"({sharing['tables_before']} and {sharing['bytes_before']:,} without)",
        )


def _rounding(report: Report, _detail: Detail) -> Rows:
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
    yield "weights rounded", text


def _chosen(report: Report, _detail: Detail) -> Rows:
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
        yield label, text


def _judged(found: Mapping[str, Any]) -> str:
    """What each way gave on the samples that were held back."""
    each = ", ".join(f"{name} {db:.1f} dB" for name, db in found["sqnr_db"].items())
    return f"; on {counted(found['held_back'], 'held-back sample')}: {each}"


def _kernels(report: Report, _detail: Detail) -> Rows:
    """What compiled kernels take over."""
    latency = report.get("latency")
    if latency is None or not any(latency["nodes_run"].values()):
        return
    by_kernels, by_bodies = (
        ", ".join(f"{count} {op}" for op, count in latency[key].items()) or "none"
        for key in ("kernels", "bodies")
    )
    yield "compiled kernels", f"for {by_kernels}; bodies for {by_bodies}"


_Add = Callable[[Report, Detail], Rows]

_USUAL: Sequence[_Add] = (
    *(_size, _nodes_run, _integer, _left_in_float, _kept),
    *(_states, _widths, _asked_for, _not_tried, _repairs, _checks),
)
_VERBOSE: Sequence[_Add] = (
    *(_size, _nodes_run, _integer, _left_in_float, _kept),
    *(
        _nodes,
        _channels,
        _tables,
        _states,
        _widths,
        _asked_for,
        _rounding,
        _chosen,
        _repairs,
        _kernels,
        _checks,
    ),
)
