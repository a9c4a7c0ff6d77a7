"""One model for every shipped target: steps moved, SQNR, score, latency, portable bodies.

`make targets MODEL=textures_cnn` prints it. Graphs are made for the targets that the passes
follow; when these are all of them, a part of docs/targets.md is written too.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from rich.console import Console
from rich.table import Table

from opsets.realised import unrealised
from opsets.target import load_target, target_names
from qpasses.api import quantize
from qpasses.emit.overloads import with_bodies
from qpasses.ir.native_sessions import has_kernels
from tests.bench.latency import measure
from tests.bench.manifest import ROOT, Entry, entries
from tests.bench.markdown import replaced, rewrapped

DOCUMENT = ROOT / "docs" / "targets.md"
HEAD = (
    *("target", "verdict", "steps moved", "by LSB", "portable nodes", "score", "SQNR dB"),
    *("ms", "ms portable", "ms with kernels", "rules that no pass follows"),
)


@dataclass
class Row:
    """What came of one target; without figures where no graph can be made for it."""

    target: str
    unfollowed: Sequence[str] = ()
    verdict: str = "-"
    moved: int | None = None
    lsb: int | None = None
    portable: tuple[int, int] | None = None
    score: float | None = None
    sqnr_db: float | None = None
    milliseconds: float | None = None
    portable_milliseconds: float | None = None
    kernels_milliseconds: float | None = None

    def cells(self) -> list[str]:
        """Its line in a table."""
        portable = "-" if self.portable is None else "{} of {}".format(*self.portable)
        numbers = [
            "-" if value is None else format(value, form)
            for value, form in (
                *((self.moved, ",d"), (self.lsb, "d")),
                *((self.score, ".4g"), (self.sqnr_db, ".2f")),
                *((self.milliseconds, ".3f"), (self.portable_milliseconds, ".3f")),
                (self.kernels_milliseconds, ".3f"),
            )
        ]
        ends = [*numbers[:2], portable, *numbers[2:], ", ".join(self.unfollowed)]
        return [self.target, self.verdict, *ends]


def bench(entry: Entry, rounds: int) -> list[Row]:
    """A row for each shipped target; latencies are medians of interleaved rounds."""
    rows, models = [], []
    for name in target_names():
        rows.append(Row(name, unrealised(load_target(name))))
        if rows[-1].unfollowed:
            continue
        given: dict[str, Any] = {
            "samples": entry.samples,
            "preprocessing": entry.preprocessing,
        }
        result = quantize(entry.model, entry.calibration, target=name, **given)
        assert result.model is not None
        _fill(rows[-1], result.evidence, result.verdict, entry, result.model)
        models.append((rows[-1], result.model))
    made = [
        each for _, graph in models for each in (graph, with_bodies(graph, "portable"), graph)
    ]
    kernels = range(2, len(made), 3) if has_kernels() else ()
    times = measure(made, dict(entry.test_feeds[0]), rounds, kernels=kernels)
    found = (np.median(times, axis=0) * 1e3).reshape(-1, 3).tolist()
    for (row, _), each in zip(models, found, strict=True):
        row.milliseconds, row.portable_milliseconds, last = each
        row.kernels_milliseconds = last if kernels else None
    return rows


def _fill(
    row: Row, evidence: Sequence[Any], verdict: str, entry: Entry, model: onnx.ModelProto
) -> None:
    computing = [each for each in evidence if each.kind != "structural"]
    row.verdict = verdict
    row.moved = sum(each.reference_moved for each in computing)
    row.lsb = max((each.reference_max_lsb for each in computing), default=0)
    portable = sum(each.body.startswith("portable") for each in computing)
    row.portable = portable, len(computing)
    row.score, row.sqnr_db = entry.score(model)


def document(rows: Sequence[Row], model: str, rounds: int) -> str:
    """The last part of docs/targets.md."""
    lines = [
        f"`make targets MODEL={model}` writes this. Steps moved: accumulators and codes whose "
        "level differs from that of real arithmetic, over all nodes, and by how much at most. "
        f"Latency: median of {rounds} interleaved rounds in onnxruntime, one thread; beside "
        "it with portable bodies alone, and with compiled kernels. Portable nodes: those that "
        "keep such a body.",
        "",
        f"| {' | '.join(HEAD)} |",
        f"|{'---|' * len(HEAD)}",
        *(f"| {' | '.join(row.cells())} |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run and print; write the document where every target has its graph."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100, help="default: %(default)s")
    parser.add_argument(
        "--output", type=Path, default=DOCUMENT, help="default: docs/targets.md"
    )
    parser.add_argument(
        "model", nargs="?", default="textures_cnn", help="default: %(default)s"
    )
    options = parser.parse_args()
    known = {entry.name: entry for entry in entries() if entry.present}
    if options.model not in known:
        sys.exit(f"error: no model {options.model!r} here: use one of {', '.join(known)}")
    rows = bench(known[options.model], options.rounds)
    table = Table(*HEAD, title=options.model)
    for row in rows:
        table.add_row(*row.cells())
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    if not any(row.unfollowed for row in rows):
        part = document(rows, options.model, options.rounds)
        text = replaced(options.output.read_text("utf-8"), "measured", part)
        options.output.write_text(rewrapped(text), "utf-8")


if __name__ == "__main__":
    main()
