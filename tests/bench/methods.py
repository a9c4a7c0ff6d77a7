"""Score and output SQNR of every calibration method on the integer models of models/zoo.toml.

`make methods` runs it: one run over a model's samples, then all methods from its table. Where
all models are present, docs/calibration.md and docs/calibration.json are written.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import onnx
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import qpasses
from calibration.methods import METHODS, Wanted, threshold
from calibration.table import read_table
from qpasses.place.calibrating import calibrate
from tests.bench.manifest import ROOT, ZOO, Entry, classifiers

FLOAT = "float"
SYMMETRIC = ("minmax", "mse", "auto")
VARIANTS = [*((name, False) for name in METHODS), *((name, True) for name in SYMMETRIC)]
"""What is tried: pairs of a method and whether ranges are symmetric."""

FIGURES: dict[str, tuple[str, Callable[[float], str]]] = {
    "score": ("Score", "{:.2%}".format),
    "sqnr_db": ("SQNR of the outputs in dB", "{:.2f}".format),
}

TEXT = """# Every calibration method on every integer model of models/zoo.toml

Written by `make methods`: the samples of the manifest, `--accuracy fast`, uint8 activations,
int8 weights per channel. `percentile` keeps 99.999 %. Bold is the best of the methods. Loss is
what a method is below the best of each model, in points of a percent for scores.

"""


@dataclass(frozen=True)
class Row:
    """One model quantized by one method, or in float (its SQNR is nothing)."""

    model: str
    method: str
    symmetric: bool
    score: float
    sqnr_db: float | None


@dataclass
class Cost:
    """Seconds for one model: of the run over its samples, and of choosing all its ranges."""

    model: str
    tensors: int
    run: float
    choose: dict[str, float]


def _counted(entry: Entry, model: onnx.ModelProto) -> tuple[float, float]:
    score, sqnr_db = entry.score(model)
    assert score is not None, entry.name
    return score, sqnr_db


def measure(entry: Entry, work: Path, advance: Callable[[], None]) -> tuple[list[Row], Cost]:
    """All rows of one model from one calibration table."""
    table = work / "table"
    how: dict[str, Any] = {"samples": entry.samples, "preprocessing": entry.preprocessing}
    start = perf_counter()
    calibrate(entry.model, entry.calibration, table, **how)
    run = perf_counter() - start
    advance()
    score, _ = _counted(entry, onnx.load(entry.model))
    rows = [Row(entry.name, FLOAT, False, round(score, 5), None)]
    advance()
    for method, symmetric in VARIANTS:
        chosen: dict[str, Any] = {"calibration_method": method, "symmetric": symmetric}
        chosen |= {"accuracy": "fast"}
        made = qpasses.quantize(
            entry.model, entry.calibration, calibration_table=table, **chosen, **how
        )
        if made.model is None or made.verdict != "ok":
            sys.exit(f"{entry.name}, {method}: verdict {made.verdict}")
        score, sqnr_db = _counted(entry, made.model)
        rows.append(Row(entry.name, method, symmetric, round(score, 5), round(sqnr_db, 2)))
        advance()
    seen = read_table(table).tensors
    choose = {}
    for method in METHODS:
        start = perf_counter()
        for statistics in seen.values():
            threshold(method, statistics, Wanted())
        choose[method] = perf_counter() - start
    return rows, Cost(entry.name, len(seen), run, choose)


def summary(rows: Sequence[Row], figure: str) -> tuple[list[str], list[list[str]]]:
    """Head and lines of one table: a line for each method, a column for each model."""
    models = list(dict.fromkeys(row.model for row in rows))
    found = {(r.method, r.symmetric, r.model): getattr(r, figure) for r in rows}
    best = {m: max(found[method, False, m] for method in METHODS) for m in models}
    form = FIGURES[figure][1]
    variants = [(FLOAT, False), *VARIANTS] if figure == "score" else VARIANTS
    lines = []
    for method, symmetric in variants:
        values = [found[method, symmetric, model] for model in models]
        cells = [form(value) for value in values]
        if method != FLOAT and not symmetric:
            tops = [value == best[m] for m, value in zip(models, values, strict=True)]
            cells = [f"**{c}**" if top else c for c, top in zip(cells, tops, strict=True)]
        losses = [best[m] - value for m, value in zip(models, values, strict=True)]
        scale = 100 if figure == "score" else 1
        ends = [_mean(losses) * scale, max(losses) * scale]
        tail = ["", ""] if method == FLOAT else [f"{end:.2f}" for end in ends]
        name = f"{method}, symmetric" if symmetric else method
        lines.append([name, *cells, form(_mean(values)), *tail])
    return ["method", *models, "mean", "mean loss", "worst loss"], lines


def document(rows: Sequence[Row]) -> str:
    """docs/calibration.md."""
    parts = []
    for figure, (title, _) in FIGURES.items():
        head, lines = summary(rows, figure)
        table = [head, ["---"] * len(head), *lines]
        text = "".join(f"| {' | '.join(line)} |\n" for line in table)
        parts.append(f"## {title}\n\n{text}")
    return TEXT + "\n".join(parts)


def write(rows: Sequence[Row], folder: Path) -> None:
    """docs/calibration.md and docs/calibration.json."""
    (folder / "calibration.md").write_text(document(rows), "utf-8")
    content = json.dumps([asdict(row) for row in rows], indent=2) + "\n"
    (folder / "calibration.json").write_text(content, "utf-8")


def show(rows: Sequence[Row], costs: Sequence[Cost]) -> None:
    """The tables in a terminal, and what the methods cost."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    for figure, (title, _) in FIGURES.items():
        head, lines = summary(rows, figure)
        table = Table(title=title, box=None, pad_edge=False)
        for name in head:
            table.add_column(name)
        for line in lines:
            table.add_row(*(cell.strip("*") for cell in line))
        console.print(table)
    table = Table(title="Seconds: the run, then choosing all ranges", box=None, pad_edge=False)
    for name in ["model", "tensors", "run", *METHODS]:
        table.add_column(name)
    for cost in costs:
        cells = [f"{cost.choose[method]:.3f}" for method in METHODS]
        table.add_row(cost.model, str(cost.tensors), f"{cost.run:.2f}", *cells)
    console.print(table)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def main() -> None:
    """Run the models that are here, print, write the docs if none is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", metavar="NAME", help="default: all integer ones")
    names = parser.parse_args().models
    known = {e.name: e for e in classifiers()}
    if unknown := [name for name in names if name not in known]:
        parser.error(f"no integer model {unknown[0]!r} in models/zoo.toml: {', '.join(known)}")
    wanted = [known[name] for name in names or known]
    present = [entry for entry in wanted if entry.present]
    rows: list[Row] = []
    costs: list[Cost] = []
    with Progress(transient=True) as progress:
        task = progress.add_task("methods", total=len(present) * (len(VARIANTS) + 2))
        for entry in present:
            with tempfile.TemporaryDirectory() as folder:
                found, cost = measure(entry, Path(folder), lambda: progress.advance(task))
            rows += found
            costs.append(cost)
    if rows:
        show(rows, costs)
    if absent := [entry.name for entry in wanted if not entry.present]:
        print(f"not measured: {', '.join(absent)}: not in {ZOO} (set QPASSES_ZOO)")
    if len(present) == len(known):
        write(rows, ROOT / "docs")


if __name__ == "__main__":
    main()
