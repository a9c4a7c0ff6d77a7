"""What the benchmarks of calibration measure: models, samples, and the kinds of run."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

import tests.bench.onnxruntime_calibration as theirs
from calibration import input_specs
from calibration.inputs import Feed
from opsets.target import load_target
from qpasses.ir.interchange import prepared_model
from qpasses.ir.rewriting import Context
from qpasses.ir.settings import Settings
from qpasses.place.alignment import concerned, observed
from qpasses.place.planning import plan
from qpasses.prepare.canonical import prepare
from tests.bench.manifest import ZOO, zoo_script

PLAIN, MINMAX, HISTOGRAMS = "plain", "minmax", "histograms"
TITLES = {
    "bare": "nothing but imports",
    PLAIN: "plain inference",
    MINMAX: "qpasses minmax",
    HISTOGRAMS: "qpasses histograms",
    "MinMax": "onnxruntime MinMax",
    "Percentile": "onnxruntime Percentile",
}
SLOW = "Percentile"
"""onnxruntime's histograms hold all activations and take half a minute a round."""

KEPT_BYTES = 6e9
"""onnxruntime's histograms get no more samples than they can hold of in so much."""


@dataclass(frozen=True)
class Case:
    """A model, how many samples it is timed on and how many its memory is measured with."""

    name: str
    path: Path
    samples: int
    counts: tuple[int, int] = (10, 1000)
    made_up: bool = False

    def feeds(self) -> list[Feed]:
        """The calibration split, or 32 samples of normal noise."""
        if self.made_up:
            rng = np.random.default_rng(0)
            (spec,) = input_specs(onnx.load(self.path))
            shape = [size or 1 for size in spec.shape]
            return [{spec.name: rng.normal(size=shape).astype(np.float32)} for _ in range(32)]
        split: list[Feed] = zoo_script().feeds(self.name, "calib", root=str(ZOO))
        return split


def _zoo(name: str, samples: int) -> Case:
    return Case(name, ZOO / "models" / f"{name}.onnx", samples)


LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
CASES = [
    _zoo("squeezenet1.1_fp32_from_fp16", 100),
    _zoo("cifar10_resnet44", 500),
    _zoo("yolox_nano", 50),
    Case("light_resnet50", LIGHT / "light_resnet50.onnx", 32, (10, 100), made_up=True),
]


@dataclass(frozen=True)
class Ready:
    """A case in memory and on disk; ``concerned``: the tensors that joins are judged by."""

    case: Case
    original: onnx.ModelProto
    prepared: onnx.ModelProto
    tensors: Sequence[str]
    concerned: frozenset[str]
    feeds: Sequence[Feed]
    work: Path

    @property
    def file(self) -> Path:
        """The prepared model."""
        return self.work / "prepared.onnx"

    def kept(self) -> int:
        """Bytes of one sample that onnxruntime's histograms hold."""
        return theirs.bytes_kept(self.file, self.feeds[0], self.work)


def make_ready(case: Case, work: Path) -> Ready:
    """Load and prepare."""
    feeds = case.feeds()
    original = onnx.load(case.path)
    context = Context(Settings(load_target("onnx")))
    graph = prepare(original, feeds[0], context)
    chosen = plan(graph, context)
    tensors, judged = observed(graph, chosen), frozenset(concerned(graph, chosen))
    ready = Ready(case, original, prepared_model(graph), tensors, judged, feeds, work)
    onnx.save(ready.prepared, ready.file)
    return ready


def marked(ratio: float | None, target: float | None) -> str:
    """A ratio for a table; one beyond its target stands out."""
    if ratio is None:
        return "-"
    beyond = target is not None and ratio > target
    return f"[red]! {ratio:.2f}[/]" if beyond else f"{ratio:.2f}"
