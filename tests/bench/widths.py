"""What 16 bits gain on each model, at what price: score, SQNR, latency, seconds.

`make widths` measures the models of models/zoo.toml that are here, or MODEL, and writes
docs/widths.md, with a curve of SQNR over latency, where none was named.
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import onnx
import vl_convert
from rich.console import Console
from rich.progress import track
from rich.table import Table

import qpasses
from tests.bench import choosing
from tests.bench.manifest import METRICS, ROOT, Entry, entries
from tests.bench.markdown import rewrapped
from tests.bench.markdown import table as markdown_table

DOCUMENT, PICTURE = ROOT / "docs" / "widths.md", ROOT / "docs" / "widths.svg"

STEPS = "fast", "balanced", "best"

CURVES = ("cifar10_resnet20", "digits_vit", "fsanet_1x1", "kwt1_transformer", "vit_pgd_2_3_16")
"""Of these the curve is drawn."""

_STEP_DB, _POINTS = 3.0, 5
"""So far apart are the points of a curve, and so many there are at most."""

_BODIES, _KERNELS = "integer, bodies", "integer, kernels"

HEAD = [
    *("model", "score, fast", "balanced", "best", "SQNR dB, fast", "balanced", "best"),
    *("tensors in 16 bits", "bodies / float", "kernels / float", "kernels, 8 bits / float"),
    *("time of quantize / fast", "/ balanced"),
]


@dataclass
class Row:
    """One model: by step the score and SQNR in dB; of best the rest, beside float and fast."""

    model: str
    metric: str
    scores: dict[str, float | None] = field(default_factory=dict)
    sqnr_db: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    tensors: int = 0
    bodies: float = 0.0
    kernels: float = 0.0
    bytes_alone: float = 0.0

    @property
    def longer(self) -> list[float]:
        """How many times as long as the other steps best takes."""
        *others, best = (self.seconds[step] for step in STEPS)
        return [best / each for each in others]

    def cells(self) -> list[str]:
        """Its line in a table."""
        form = METRICS.get(self.metric, "").format
        scores = ["-" if each is None else form(each) for each in self.scores.values()]
        return [
            *(self.model, *scores, *(f"{db:.2f}" for db in self.sqnr_db.values())),
            *(str(self.tensors), f"{self.bodies:.2f}", f"{self.kernels:.2f}"),
            f"{self.bytes_alone:.2f}",
            *(f"{each:.1f}" for each in self.longer),
        ]


@dataclass(frozen=True)
class Point:
    """On a curve: what was asked, with how many tensors what was reached, and its latency."""

    model: str
    asked_db: float | None
    sqnr_db: float
    tensors: int
    latency: float

    def cells(self) -> list[str]:
        """Its line in a table."""
        asked = "8 bits" if self.asked_db is None else f"{self.asked_db:.1f}"
        return [
            *(self.model, asked, f"{self.sqnr_db:.1f}", str(self.tensors)),
            f"{self.latency:.2f}",
        ]


def made(entry: Entry, **options: Any) -> tuple[onnx.ModelProto, Mapping[str, Any], float]:
    """The model, its report, and the seconds that it took."""
    began = perf_counter()
    result = qpasses.quantize(
        entry.model,
        entry.calibration,
        samples=entry.samples,
        preprocessing=entry.preprocessing,
        **options,
    )
    assert result.model is not None
    return result.model, result.report, perf_counter() - began


def latencies(entry: Entry, model: onnx.ModelProto) -> dict[str, float]:
    """By contender, the time of a run over float's, on one thread."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "model.onnx"
        onnx.save(model, place)
        report = qpasses.bench(
            place, entry.model, data=entry.test_feeds[:1], seconds=1.0, nodes=0
        ).report
    return {each["graph"]: each["ratio"] for each in report["benchmark"]["latencies"]}


def bench(entry: Entry) -> Row:
    """Quantize with each step, score, and run beside float."""
    row = Row(entry.name, entry.metric)
    for step in STEPS:
        model, report, seconds = made(entry, accuracy=step)
        row.scores[step], row.sqnr_db[step] = entry.score(model)
        row.seconds[step] = seconds
        if step == "fast":
            row.bytes_alone = latencies(entry, model).get(_KERNELS, np.nan)
    row.tensors = len(report["widths"]["tensors"])
    found = latencies(entry, model)
    row.bodies, row.kernels = found[_BODIES], found.get(_KERNELS, np.nan)
    return row


def curve(entry: Entry) -> list[Point]:
    """What ``--min-sqnr`` makes, from 8 bits on, up to what cannot be met."""
    model, report, _ = made(entry)
    found, asked = report["summary"]["accuracy"]["sqnr_db"], None
    points, count = list[Point](), 0
    while True:
        latency = latencies(entry, model).get(_KERNELS, np.nan)
        points.append(Point(entry.name, asked, found, count, latency))
        if len(points) == _POINTS:
            return points
        asked = points[0].sqnr_db + _STEP_DB * len(points)
        model, report, _ = made(entry, min_sqnr=asked)
        widths = report["widths"]
        found, count = widths["reached_db"], len(widths["tensors"])
        if not widths["met"]:
            return points


def picture(points: Sequence[Point]) -> str:
    """The curves, as SVG."""
    values = [
        {"model": each.model, "SQNR dB": each.sqnr_db, "latency over float": each.latency}
        for each in points
    ]
    place = {
        "x": {"field": "latency over float", "type": "quantitative", "scale": {"type": "log"}},
        "y": {"field": "SQNR dB", "type": "quantitative", "scale": {"zero": False}},
        "color": {"field": "model", "type": "nominal", "legend": {"orient": "bottom"}},
    }
    drawn = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "width": 620,
        "height": 360,
        "background": "white",
        "data": {"values": values},
        "mark": {"type": "line", "point": True, "order": None},
        "encoding": {**place, "order": {"field": "SQNR dB", "type": "quantitative"}},
    }
    return str(vl_convert.vegalite_to_svg(drawn))


def document(
    rows: Sequence[Row], points: Sequence[Point], sets: Sequence[choosing.Row]
) -> str:
    """docs/widths.md."""
    mean = np.mean([[row.sqnr_db[step] for step in STEPS] for row in rows], axis=0)
    times = [[row.bodies, row.kernels, row.bytes_alone] for row in rows]
    ratios = np.exp(np.nanmean(np.log(times), axis=0))
    longer = np.exp(np.mean([np.log(row.longer) for row in rows], axis=0))
    last = ["mean", "", "", "", *(f"{db:.2f}" for db in mean), ""]
    last += [*(f"{each:.2f}" for each in ratios), *(f"{each:.1f}" for each in longer)]
    head = ["model", "--min-sqnr", "reached dB", "tensors in 16 bits", "kernels / float"]
    text = f"""# What 16 bits gain

Scores and SQNR of the outputs in dB on the test samples of each model, with `--accuracy fast`,
`balanced` and `best`; how many tensors best stores in 16 bits; its latency over float's on one
thread, of bodies and of compiled kernels, and beside it that of fast; and how much longer than
with fast, and with balanced, which is the default, `quantize` takes ([tuning.md](tuning.md),
[decision 54](decisions/0054-sixteen-bits.md)). Written by `make widths`.

{markdown_table(HEAD, [*(row.cells() for row in rows), last])}

## SQNR over latency

`--min-sqnr` walks along these curves: the worst output on samples that are held back, and the
latency of compiled kernels over float's.

![SQNR over latency of five models](widths.svg)

{markdown_table(head, [each.cells() for each in points])}

## Which tensors: by added noise, or by trying each

The walk measures what each tensor alone costs, and adds it up. By trying, a model is made for
each tensor, in which it alone has 8 bits. Both choose what leaves activations so much of the
noise of weights: how many tensors they choose, with which SQNR, and how many are in both sets.

{markdown_table(choosing.HEAD, [each.cells() for each in sets])}"""
    return rewrapped(text)


def main() -> None:
    """``python -m tests.bench.widths [MODEL ...] [--document]``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="*")
    parser.add_argument("--document", action="store_true", help="write it of these alone")
    asked = parser.parse_args()
    known = {each.name: each for each in entries() if each.present}
    if unknown := set(asked.model) - known.keys():
        sys.exit(f"error: no model {min(unknown)!r} here: use one of {', '.join(known)}")
    chosen = [known[name] for name in asked.model or known]
    rows = [bench(each) for each in track(chosen, "models", transient=True)]
    shown = Table(*HEAD, box=None, pad_edge=False)
    for row in rows:
        shown.add_row(*row.cells())
    Console(width=None if sys.stdout.isatty() else 240).print(shown)
    if asked.document or not asked.model:
        drawn = [known[name] for name in CURVES if name in {each.name for each in chosen}]
        points = [point for each in drawn for point in curve(each)]
        PICTURE.write_text(picture(points), "utf-8")
        asked_of = [known[name] for name in choosing.MODELS if name in known]
        sets = [row for each in asked_of for row in choosing.choose(each)]
        DOCUMENT.write_text(document(rows, points, sets), "utf-8")


if __name__ == "__main__":
    main()
