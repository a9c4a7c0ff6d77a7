"""Put every case of onnx's own backend test suite through `qpasses.quantize`.

`make survival` runs it and writes docs/survival.json; `make docs` makes tables of it.
"""

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version

from rich.console import Console
from rich.progress import track

from tests.bench.lone_worker import DiedError, HungError, LoneWorker
from tests.bench.manifest import ROOT
from tests.bench.markdown import table
from tests.bench.onnx_backend_cases import Case, cases
from tests.bench.survival_outcome import (
    BROKEN,
    CLOSE_DB,
    NOT_RUN,
    VERDICTS,
    Row,
    outcome,
    runs,
)

FIGURES = ROOT / "docs" / "survival.json"

SECONDS = 60.0
"""What a case may take."""

FAR, WRONG = "far", "wrong"
"""Counted beside the outcomes."""

MOST_NAMES = 3
"""Of cases, in a line of a table."""


def survived(case: Case, worker: LoneWorker) -> Row:
    """What became of a case, the worker's end included."""
    row = Row(case.name, case.family, case.op, case.has_float_inputs)
    try:
        row.reason = worker.run(runs, case)
    except (HungError, DiedError) as error:
        row.reason = str(error)
    if row.reason:
        row.outcome = NOT_RUN
        return row
    try:
        return worker.run(outcome, case)
    except HungError as error:
        row.outcome, row.reason = "hang", str(error)
    except DiedError as error:
        row.outcome, row.reason = "crash", str(error)
    return row


# Figures


@dataclass
class Figures:
    """What was found, by op and by reason.

    ``ops`` and ``float_inputs`` (the cases that have any) count cases by outcome, ``ops`` also
    those that are ``WRONG`` and ``FAR``. ``reasons``: by outcome and reason, the names;
    ``far``: dB by name. ``left``: op, reason, float nodes, and in how many cases.
    """

    versions: dict[str, str]
    ops: dict[str, dict[str, int]]
    float_inputs: dict[str, int]
    reasons: dict[str, dict[str, list[str]]]
    wrong: dict[str, list[str]]
    far: dict[str, float]
    left: list[tuple[str, str, int, int]]


def figures(rows: Sequence[Row]) -> Figures:
    """Of all cases."""
    ops: dict[str, Counter[str]] = {}
    reasons: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        counted = ops.setdefault(row.op, Counter())
        counted.update([row.outcome, *[WRONG] * bool(row.wrong), *[FAR] * _is_far(row)])
        if row.outcome in ("refused", *BROKEN):
            names = reasons.setdefault(row.outcome, {}).setdefault(_general(row.reason), [])
            names.append(row.name)
    return Figures(
        versions={name: version(name) for name in ("onnx", "onnxruntime")},
        ops={op: _sorted(ops[op]) for op in sorted(ops)},
        float_inputs=_sorted(Counter(row.outcome for row in rows if row.float_inputs)),
        reasons={each: dict(sorted(reasons[each].items())) for each in sorted(reasons)},
        wrong={row.name: row.wrong for row in rows if row.wrong},
        far={row.name: round(row.sqnr_db or 0.0, 1) for row in rows if _is_far(row)},
        left=_left(rows),
    )


def _is_far(row: Row) -> bool:
    return row.sqnr_db is not None and row.sqnr_db < CLOSE_DB


def _left(rows: Iterable[Row]) -> list[tuple[str, str, int, int]]:
    """The most frequent first."""
    of_rows = [[(op, _general(reason)) for op, reason in row.left] for row in rows]
    nodes = Counter(each for left in of_rows for each in left)
    found = Counter(each for left in of_rows for each in {*left})
    counted = [(op, reason, nodes[op, reason], found[op, reason]) for op, reason in nodes]
    return sorted(counted, key=lambda each: (-each[3], -each[2], each[:2]))


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items()))


def _general(reason: str) -> str:
    """Without the names of tensors, nodes and axes."""
    return re.sub(r"(?<!\w)'[^']*'(?!\w)", "'...'", reason)


def known() -> Figures:
    """What was found last."""
    return Figures(**json.loads(FIGURES.read_text("utf-8")))


# Tables


def summary_table() -> str:
    """How many came through, and how."""
    found = known()
    total = _totals(found)
    run = sum(total[each] for each in ("refused", *VERDICTS, *BROKEN))
    through = sum(total[each] for each in VERDICTS)
    floats = Counter(found.float_inputs)
    run_floats = floats.total() - floats[NOT_RUN]
    rows = [
        ["cases", run + total[NOT_RUN], ""],
        ["run by onnxruntime", run, ""],
        ["came through", through, _share(through, run)],
        *([f"verdict `{each}`", total[each], _share(total[each], run)] for each in VERDICTS),
        ["`ok`, of those with float inputs", floats["ok"], _share(floats["ok"], run_floats)],
        ["refused", total["refused"], _share(total["refused"], run)],
        ["traceback, hang or crash", sum(total[each] for each in BROKEN), ""],
        ["came through unlike the original", total[WRONG], ""],
        [f"a float output below {CLOSE_DB:g} dB", total[FAR], ""],
    ]
    of = ", ".join(f"{name} {number}" for name, number in found.versions.items())
    return table([of, "cases", "share"], [[str(cell) for cell in row] for row in rows])


def _totals(found: Figures) -> Counter[str]:
    return sum(map(Counter, found.ops.values()), Counter())


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}"


def ops_table() -> str:
    """Outcomes by op."""
    head = ["op", NOT_RUN, *VERDICTS, "refused", "broken", WRONG, FAR]
    rows = []
    for op, counts in known().ops.items():
        broken = sum(counts.get(each, 0) for each in BROKEN)
        of_each = {**counts, "broken": broken}
        rows.append([op, *(str(of_each.get(name) or "-") for name in head[1:])])
    return table(head, rows)


def wrong_table() -> str:
    """What broke, what is unlike the original, what is far from it."""
    found = known()
    rows = [
        [_name(name), kind, _plain(reason)]
        for kind in BROKEN
        for reason, names in found.reasons.get(kind, {}).items()
        for name in names
    ]
    rows += [
        [_name(name), WRONG, _plain("; ".join(what))] for name, what in found.wrong.items()
    ]
    rows += [[_name(name), FAR, f"{decibels:.1f} dB"] for name, decibels in found.far.items()]
    return table(["case", "", "what"], rows)


def left_table() -> str:
    """What stays in float."""
    head = ["op", "reason", "nodes", "cases"]
    return table(head, [[op, _plain(why), str(n), str(m)] for op, why, n, m in known().left])


def refused_table() -> str:
    """Why cases are refused, the most frequent reason first."""
    found = known().reasons.get("refused", {})
    by_count = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    rows = [[_plain(reason), str(len(names)), _few(names)] for reason, names in by_count]
    return table(["reason", "cases", "which"], rows)


def _few(names: Sequence[str]) -> str:
    shown = [_name(name) for name in names[:MOST_NAMES]]
    return ", ".join([*shown, *["..."] * (len(names) > MOST_NAMES)])


def _name(case: str) -> str:
    return case.removeprefix("test_")


def _plain(text: str) -> str:
    """As it stands in a cell of a table."""
    return text.replace("|", "\\|").replace("<", "\\<").replace("*", "\\*")


def main() -> None:
    """Run them all and write the figures, or those of a name and print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pattern", nargs="?", default="", help="in names of cases")
    pattern = parser.parse_args().pattern
    chosen = [case for case in cases() if pattern in case.name]
    with LoneWorker(SECONDS) as worker:
        rows = [survived(case, worker) for case in track(chosen, "survival")]
    console = Console(highlight=False, soft_wrap=True)
    for row in rows:
        if pattern or row.outcome in BROKEN or row.wrong:
            console.print(described(row), markup=False)
    if not pattern:
        FIGURES.write_text(json.dumps(asdict(figures(rows)), indent=1) + "\n", "utf-8")
        console.print(f"written: {FIGURES.relative_to(ROOT)}; then: make docs")


def described(row: Row) -> str:
    """A row in a line, and lines of what is not as it could be."""
    noise = "" if row.sqnr_db is None else f"{row.sqnr_db:.1f} dB"
    line = "  ".join(filter(None, [row.outcome, row.name, noise, row.reason]))
    notes = [*row.wrong, *(f"{op}: {reason}" for op, reason in row.left)]
    return "\n".join([line, *(f"    {each}" for each in notes)])


if __name__ == "__main__":
    main()
