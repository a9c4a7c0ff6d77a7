"""What each step of ``--accuracy`` gains on each model: score, SQNR, latency, seconds.

`make gains` measures the models of models/zoo.toml that are here, or MODEL, and writes
docs/gains.md where none was named.
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import qpasses
from tests.bench import published_gains
from tests.bench.child import cost_of
from tests.bench.latency import measure
from tests.bench.manifest import METRICS, ROOT, Entry, entries
from tests.bench.markdown import rewrapped
from tests.bench.markdown import table as markdown_table
from tests.bench.quantizing import jobs

DOCUMENT = ROOT / "docs" / "gains.md"

_STEPS: Mapping[str, Mapping[str, Any]] = {
    "fast": {},
    "scales of channels": {"activation_scales": "per-channel"},
    "sums kept": {"weight_rounding": "sum-preserving"},
    "second order": {"weight_rounding": "second-order"},
    "biases": {"bias_correction": "in-sequence"},
}
STEPS = {step: {"accuracy": "fast", **options} for step, options in _STEPS.items()}
STEPS["balanced"] = {"accuracy": "balanced"}
"""What each column asks for; the last takes of the others what held-back samples tell."""

HEAD = ["model", *STEPS, "score, fast", "score, balanced", "latency", "time of quantize"]


@dataclass
class Row:
    """One model: by step SQNR in dB and what it scores; of balanced, over fast, two ratios."""

    model: str
    metric: str
    sqnr_db: Mapping[str, float]
    scores: Mapping[str, float | None]
    latency: float
    seconds: float

    def cells(self) -> list[str]:
        """Its line in a table."""
        ends = self.scores["fast"], self.scores["balanced"]
        shown = ["-" if each is None else METRICS[self.metric].format(each) for each in ends]
        ratios = f"{self.latency:.2f}", f"{self.seconds:.1f}"
        return [self.model, *(f"{db:.2f}" for db in self.sqnr_db.values()), *shown, *ratios]


def bench(entry: Entry, rounds: int) -> Row:
    """Quantize with each step, score, and run fast and balanced in turns."""
    sqnr_db, scores = dict[str, float](), dict[str, float | None]()
    ends = []
    for step, options in STEPS.items():
        made = qpasses.quantize(
            entry.model,
            entry.calibration,
            samples=entry.samples,
            preprocessing=entry.preprocessing,
            **options,
        )
        assert made.model is not None
        scores[step], sqnr_db[step] = entry.score(made.model)
        if step in ("fast", "balanced"):
            ends.append(made.model)
    times = measure(ends, dict(entry.test_feeds[0]), rounds)
    return Row(
        entry.name,
        entry.metric,
        sqnr_db,
        scores,
        float(np.median(times[:, 1] / times[:, 0])),
        _slower(entry),
    )


def _slower(entry: Entry) -> float:
    """How many times the seconds of fast balanced takes, the commands as a whole: of two."""
    best = dict[str, float]()
    with tempfile.TemporaryDirectory() as folder:
        (job,) = jobs([entry.name], Path(folder))
        for turn in range(2):
            for accuracy in ("fast", "balanced"):
                made = Path(folder) / f"{accuracy}{turn}.onnx"
                options = "--data", job.data, "--accuracy", accuracy, "-o", made
                seconds = cost_of("quantize", job.model, *options).seconds
                best[accuracy] = min(best.get(accuracy, inf), seconds)
    return best["balanced"] / best["fast"]


def document(rows: Sequence[Row], published: Sequence[published_gains.Row]) -> str:
    """docs/gains.md."""
    means = [np.mean([row.sqnr_db[step] for row in rows]) for step in STEPS]
    latency, seconds = (
        np.exp(np.mean(np.log([getattr(row, name) for row in rows])))
        for name in ("latency", "seconds")
    )
    last = ["mean", *(f"{db:.2f}" for db in means), "", "", f"{latency:.2f}", f"{seconds:.1f}"]
    text = f"""# What accuracy gains

SQNR of the outputs in dB on the test samples of each model, for each step of
`--accuracy balanced` alone and for all that held-back samples keep ([tuning.md](tuning.md),
decisions [43](decisions/0043-rounding-of-weights.md),
[44](decisions/0044-scales-of-channels.md) and [46](decisions/0046-bias-correction.md)); the
score, and what balanced takes over fast: the model for a sample on one thread, and the command
`qpasses quantize` as a whole. Written by `make gains`.

{markdown_table(HEAD, [*(row.cells() for row in rows), last])}

## Models as people publish them

SQNR in dB on {published_gains.TEST} pictures of ImageNet, {published_gains.CALIBRATION} others
to calibrate. The pictures become what the family of a model reads as far as its name tells;
few were made for these pictures ([published.md](published.md)).

{markdown_table(published_gains.HEAD, [row.cells() for row in published])}"""
    return rewrapped(text)


def main() -> None:
    """``python -m tests.bench.gains [MODEL ...] [--rounds N]``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="*")
    parser.add_argument("--rounds", type=int, default=20)
    asked = parser.parse_args()
    known = {each.name: each for each in entries() if each.present}
    if unknown := set(asked.model) - known.keys():
        sys.exit(f"error: no model {min(unknown)!r} here: use one of {', '.join(known)}")
    chosen = [known[name] for name in asked.model or known]
    rows = [bench(each, asked.rounds) for each in track(chosen, "models", transient=True)]
    shown = Table(*HEAD, box=None, pad_edge=False)
    for row in rows:
        shown.add_row(*row.cells())
    Console(width=None if sys.stdout.isatty() else 200).print(shown)
    if not asked.model:
        paths = track(published_gains.here(), "published models", transient=True)
        published = [*map(published_gains.bench, paths)]
        DOCUMENT.write_text(document(rows, published), "utf-8")


if __name__ == "__main__":
    main()
