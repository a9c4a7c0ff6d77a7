"""Transformers with each form of their operators: score, SQNR, latency.

`make ablation` measures the transformers of models/zoo.toml that are here, beside the float
model and onnxruntime's quantize_static, prints a table and writes docs/ablation.md.
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from rich.console import Console
from rich.progress import track
from rich.table import Table

from qpasses.api import quantize
from qpasses.jobs.result import Result
from tests.bench.latency import FLOAT, measure, static_graphs
from tests.bench.manifest import ROOT, Entry, entries
from tests.bench.markdown import rewrapped

DOCUMENT = ROOT / "docs" / "ablation.md"
HEAD = (
    *("graph", "softmax", "gelu", "layernorm", "residuals", "verdict", "score", "SQNR dB"),
    *("ms", "/ float", "bodies"),
)

FORMS: Mapping[str, Mapping[str, Any]] = {
    "qpasses": {},
    "Shiftmax": {"softmax": "shiftmax"},
    "Shiftmax of 8 bits": {"softmax": "shiftmax8"},
    "I-BERT's Softmax": {"softmax": "ibert"},
    "TFLite's Softmax": {"softmax": "gemmlowp"},
    "ShiftGELU": {"gelu": "shift"},
    "I-BERT's GELU": {"gelu": "ibert"},
    "I-LayerNorm": {"layernorm": "ivit"},
    "I-LayerNorm, short": {"layernorm": "ivit_short"},
    "I-ViT's three": {"softmax": "shiftmax", "gelu": "shift", "layernorm": "ivit"},
    "I-BERT's two": {"softmax": "ibert", "gelu": "ibert"},
    "target ivit": {"target": "ivit"},
    "residuals in int16": {"residual_type": "int16"},
    "target ivit, residuals in int16": {"target": "ivit", "residual_type": "int16"},
}
"""What each row asks for; the rest is as by default."""


@dataclass
class Row:
    """One graph of one model."""

    graph: str
    forms: Sequence[str] = ("-", "-", "-", "-")
    verdict: str = "-"
    score: float | None = None
    sqnr_db: float | None = None
    milliseconds: float | None = None
    to_float: float | None = None
    bodies: str = "-"

    def cells(self) -> list[str]:
        """Its line in a table."""
        numbers = [
            "-" if value is None else format(value, form)
            for value, form in (
                *((self.score, ".4g"), (self.sqnr_db, ".2f")),
                *((self.milliseconds, ".3f"), (self.to_float, ".2f")),
            )
        ]
        return [self.graph, *self.forms, self.verdict, *numbers, self.bodies]


def bench(entry: Entry, rounds: int) -> list[Row]:
    """A row for float, quantize_static and each form; latencies of interleaved rounds."""
    original = onnx.load(entry.model)
    rows, models = [Row(FLOAT)], [original]
    with tempfile.TemporaryDirectory() as folder:
        for found, static in static_graphs(entry, original, Path(folder)):
            if static is not None:
                rows.append(Row(found.graph))
                models.append(static)
    for name, options in FORMS.items():
        made = quantize(
            entry.model,
            entry.calibration,
            samples=entry.samples,
            preprocessing=entry.preprocessing,
            **options,
        )
        assert made.model is not None, name
        rows.append(_row(name, made))
        models.append(made.model)
    for row, made in zip(rows, models, strict=True):
        row.score, sqnr_db = entry.score(made)
        row.sqnr_db = None if row.graph == FLOAT else sqnr_db
    times = measure(models, dict(entry.test_feeds[0]), rounds)
    for row, column in zip(rows, times.T, strict=True):
        row.milliseconds = float(np.median(column)) * 1e3
        row.to_float = float(np.median(column / times[:, 0]))
    return rows


def _row(name: str, made: Result) -> Row:
    settings = made.report["configuration"]
    forms = [settings[each] for each in ("softmax", "gelu", "layernorm", "residual_type")]
    computing = [each for each in made.evidence if each.kind != "structural"]
    portable = sum(each.body.startswith("portable") for each in computing)
    return Row(name, forms, made.verdict, bodies=f"{portable} of {len(computing)} portable")


def document(found: Mapping[str, Sequence[Row]], rounds: int) -> str:
    """docs/ablation.md."""
    lines = [
        "# Forms of Softmax, GELU, LayerNorm and residual streams, measured",
        "",
        "`make ablation` writes this. The defaults: two tables, a table, an exact root. "
        "Shiftmax, ShiftGELU and I-LayerNorm are I-ViT's, the polynomials I-BERT's, each as "
        "published on exact integers, but without the training with them that I-ViT does. "
        "Score on the test samples (of kwt1_transformer agreement with float), SQNR of the "
        f"outputs; latency: median of {rounds} interleaved rounds in onnxruntime, one thread.",
    ]
    for model, rows in found.items():
        lines += ["", f"## {model}", "", f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}"]
        lines += [f"| {' | '.join(row.cells())} |" for row in rows]
    return "\n".join(lines) + "\n"


def is_transformer(path: Path) -> bool:
    """Whether the model has a Softmax that a MatMul reads."""
    graph = onnx.load(path, load_external_data=False).graph
    shares = {node.output[0] for node in graph.node if node.op_type == "Softmax"}
    read = {name for node in graph.node if node.op_type == "MatMul" for name in node.input}
    return bool(shares & read)


def main() -> None:
    """Run and print; write the document where no model was named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50, help="default: %(default)s")
    parser.add_argument("--output", type=Path, default=DOCUMENT, help="default: %(default)s")
    parser.add_argument("models", nargs="*", metavar="NAME", help="default: all transformers")
    options = parser.parse_args()
    known = {e.name: e for e in entries() if e.present and is_transformer(e.model)}
    if unknown := set(options.models) - known.keys():
        sys.exit(f"error: no transformer {min(unknown)!r} here: use one of {', '.join(known)}")
    wanted = [known[name] for name in options.models or known]
    found = {
        entry.name: bench(entry, options.rounds)
        for entry in track(wanted, "ablation", transient=True)
    }
    console = Console(width=None if sys.stdout.isatty() else 160)
    for name, rows in found.items():
        table = Table(*HEAD, title=name)
        for row in rows:
            table.add_row(*row.cells())
        console.print(table)
    if not options.models:
        options.output.write_text(rewrapped(document(found, options.rounds)), "utf-8")


if __name__ == "__main__":
    main()
