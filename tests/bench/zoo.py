"""Quantize, verify and score every model of models/zoo.toml; a missed figure fails.

`make zoo` runs it. Where all models of the manifest are present, the table is written to
docs/figures.md and docs/zoo.json.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import onnx
from rich.console import Console
from rich.progress import track
from rich.table import Table

import qpasses
from tests.bench.manifest import METRICS, ROOT, ZOO, Entry, entries
from tests.bench.markdown import replaced
from tests.support.small_models import nodes_as_onnx

VERIFIED_SAMPLES = 20

COLUMNS = {
    "model": "{model}",
    "verdict": "{verdict}",
    "verify": "{verified}",
    "nodes": "{nodes}",
    "integer MACs": "{integer_mac_share:.1%}",
    "in fast bodies": "{fast_mac_share:.1%}",
    "left in float": "{left}",
    "float score": "{float_shown}",
    "int8 score": "{shown}",
    "SQNR dB": "{sqnr_db:.2f}",
}

LOWER = "score", "degrees"
"""A figure that is better the lower it is."""


@dataclass
class Row:
    """What came of one model; ``missed`` says which expected figures were not reached."""

    model: str
    verdict: str
    verified: str
    nodes: int
    integer_mac_share: float
    fast_mac_share: float
    float_nodes: dict[str, int]
    metric: str
    float_score: float | None
    score: float | None
    sqnr_db: float
    missed: list[str] = field(default_factory=list)

    def cells(self) -> list[str]:
        """One text per column."""
        left = ", ".join(f"{count} {op}" for op, count in self.float_nodes.items())
        shown = {
            name: "-" if score is None else METRICS[self.metric].format(score)
            for name, score in (("float_shown", self.float_score), ("shown", self.score))
        }
        figures = asdict(self) | shown | {"left": left or "-"}
        return [form.format(**figures) for form in COLUMNS.values()]


def run(entry: Entry, work: Path) -> Row:
    """Quantize, verify on test samples, score."""
    made = qpasses.quantize(
        entry.model,
        entry.calibration,
        work / "int8.onnx",
        samples=entry.samples,
        preprocessing=entry.preprocessing,
    )
    verified = qpasses.verify(
        work / "int8.onnx", entry.model, entry.test_feeds, samples=VERIFIED_SAMPLES
    )
    assert made.model is not None
    summary = made.report["summary"]
    float_nodes: dict[str, int] = {}
    for node in summary["float_nodes"]:
        float_nodes[node["op_type"]] = float_nodes.get(node["op_type"], 0) + 1
    float_score, _ = entry.score(onnx.load(entry.model))
    score, sqnr_db = entry.score(made.model)
    row = Row(
        model=entry.name,
        verdict=made.verdict,
        verified=verified.verdict,
        nodes=len(nodes_as_onnx(made.model)),
        integer_mac_share=summary["integer_mac_share"],
        fast_mac_share=summary["fast_mac_share"],
        float_nodes=dict(sorted(float_nodes.items())),
        metric=entry.metric,
        float_score=None if float_score is None else round(float_score, 5),
        score=None if score is None else round(score, 5),
        sqnr_db=round(sqnr_db, 2),
    )
    row.missed = missed(row, entry)
    return row


def missed(row: Row, entry: Entry) -> list[str]:
    """The figures that are not as expected: lower than the tolerance allows, or other."""
    problems = []
    for name, wanted in entry.expected.items():
        found: Any = getattr(row, name)
        if isinstance(wanted, str):
            wrong = found != wanted
        elif name == "float_score":
            wrong = abs(found - wanted) > 1e-4
        else:
            short = found - wanted if (name, entry.metric) == LOWER else wanted - found
            wrong = short > entry.tolerance.get(name, 0.0)
        if wrong:
            problems.append(f"{name} is {found}, expected {wanted}")
    if row.verified != row.verdict:
        problems.append(f"verify says {row.verified}")
    return problems


def markdown(rows: Sequence[Row]) -> str:
    """The table of docs/figures.md."""
    lines = [list(COLUMNS), ["---"] * len(COLUMNS), *(row.cells() for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def show(rows: Sequence[Row], seconds: Sequence[float]) -> None:
    """The table in a terminal, and what was missed."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    table = Table(box=None, pad_edge=False)
    for name in [*COLUMNS, "s"]:
        table.add_column(name)
    for row, taken in zip(rows, seconds, strict=True):
        table.add_row(*row.cells(), f"{taken:.1f}")
    console.print(table)
    for row in rows:
        for problem in row.missed:
            console.print(f"[red]missed[/]: {row.model}: {problem}", highlight=False)


def write(rows: Sequence[Row], folder: Path) -> None:
    """docs/zoo.json, and the table of docs/figures.md."""
    figures = folder / "figures.md"
    text = replaced(figures.read_text("utf-8"), "zoo", markdown(rows))
    figures.write_text(text, "utf-8")
    content = json.dumps([asdict(row) for row in rows], indent=2) + "\n"
    (folder / "zoo.json").write_text(content, "utf-8")


def main() -> None:
    """Run the models that are here; exit code 1 if a figure is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", metavar="NAME", help="default: all")
    names = parser.parse_args().models
    known = {entry.name: entry for entry in entries()}
    if unknown := [name for name in names if name not in known]:
        parser.error(f"no model {unknown[0]!r} in models/zoo.toml: {', '.join(known)}")
    wanted = [known[name] for name in names or known]
    rows, seconds = [], []
    present = [entry for entry in wanted if entry.present]
    for entry in track(present, "zoo", transient=True):
        start = perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            rows.append(run(entry, Path(folder)))
        seconds.append(perf_counter() - start)
    show(rows, seconds)
    if absent := [entry.name for entry in wanted if not entry.present]:
        print(f"not measured: {', '.join(absent)}: not in {ZOO} (set QPASSES_ZOO)")
    if any(row.missed for row in rows):
        sys.exit(1)
    if len(rows) == len(known):
        write(rows, ROOT / "docs")


if __name__ == "__main__":
    main()
