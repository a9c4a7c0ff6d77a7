"""Score, output SQNR and latency: float, onnxruntime's quantize_static, qpasses.

`make bench` runs it on the models of models/zoo.toml that become integer. Both quantizers get
the same calibration samples.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Container, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnxruntime.quantization import QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from rich.console import Console
from rich.progress import track
from rich.table import Table

from calibration import Samples, Session, input_specs, open_samples
from opsets.errors import ModelError
from opsets.target import load_target
from qpasses.api import quantize
from qpasses.ir.interchange import prepared_model
from qpasses.ir.native_sessions import has_kernels, register
from qpasses.ir.rewriting import Context
from qpasses.ir.settings import Settings
from qpasses.jobs.result import Result
from qpasses.prepare.canonical import prepare
from tests.bench.interleaved import interleaved
from tests.bench.manifest import ZOO, Entry, Model, entries

SPINNING_SECONDS = 0.06
"""After a run the threads of a session take a core for so long; then it is another's turn."""

FLOAT, STATIC, OURS = "float", "quantize_static", "qpasses"
KERNELS = "qpasses, compiled kernels"
RESCUED = "quantize_static on our prepared graph"


@dataclass
class Row:
    """One graph of one model; without figures if it could not be made, see ``problem``."""

    model: str
    graph: str
    threads: int = 1
    seconds_to_make: float | None = None
    score: float | None = None
    sqnr_db: float | None = None
    latency_ms: float | None = None
    to_static: float | None = None
    to_float: float | None = None
    problem: str = ""


class Reader:
    """Samples in the form that quantize_static reads."""

    def __init__(self, samples: Samples) -> None:
        self._feeds = (dict(feed) for _, feed in samples)

    def get_next(self) -> dict[str, Any] | None:
        """The next feed, None at the end."""
        return next(self._feeds, None)


def static(model: Model, samples: Samples, work: Path) -> Model:
    """quantize_static: MinMax, QDQ, uint8 activations, int8 weights per channel."""
    ready, made = work / "ready.onnx", work / "static.onnx"
    types = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
    quant_pre_process(model, ready)
    quantize_static(ready, made, Reader(samples), per_channel=True, **types)
    Session(made).run(None, dict(next(iter(samples))[1]))  # what it writes need not run
    return onnx.load(made)


def quantize_ours(case: Entry) -> Result:
    """The whole of `qpasses quantize`, reading the samples included."""
    given = case.calibration
    return quantize(case.model, given, samples=case.samples, preprocessing=case.preprocessing)


def _timed(model: str, graph: str, make: Callable[[], Any]) -> tuple[Row, Any]:
    start = time.perf_counter()
    made = make()
    return Row(model, graph, seconds_to_make=time.perf_counter() - start), made


def static_graphs(case: Entry, original: Model, work: Path) -> list[tuple[Row, Model | None]]:
    """That of quantize_static; where it crashes, that of our prepared graph too."""
    samples = open_samples(
        case.calibration, input_specs(original), case.samples, case.preprocessing
    )

    def prepared() -> Model:
        sample = next(iter(samples))[1]
        context = Context(Settings(load_target("onnx")))
        return prepared_model(prepare(original, sample, context))

    graphs: list[tuple[Row, Model | None]] = []
    for name in (STATIC, RESCUED):
        source = original if name == STATIC else prepared()
        try:
            graphs.append(_timed(case.name, name, partial(static, source, samples, work)))
            break
        except ImportError:
            raise  # an environment without what it needs is no result
        except Exception as error:  # whatever else it stumbles over is one
            what = "does not run" if isinstance(error, ModelError) else "crashes"
            reason = f"{what} ({type(error).__name__})"
            graphs.append((Row(case.name, name, problem=reason), None))
    return graphs


def make_graphs(case: Entry, work: Path) -> list[tuple[Row, Model | None]]:
    """The graphs to compare."""
    original = onnx.load(case.model)
    graphs = [(Row(case.name, FLOAT), original), *static_graphs(case, original, work)]
    row, result = _timed(case.name, OURS, lambda: quantize_ours(case))
    row.problem = "" if result.verdict == "ok" else f"verdict {result.verdict}"
    graphs.append((row, result.model))
    return [*graphs, (Row(case.name, KERNELS), result.model)] if has_kernels() else graphs


def runner(model: Model, threads: int, with_kernels: bool) -> ort.InferenceSession:
    """A session as users have it."""
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    if with_kernels:
        register(options)
    return ort.InferenceSession(model.SerializeToString(), options)


def measure(
    models: Sequence[Model],
    feed: dict[str, Any],
    rounds: int,
    threads: int = 1,
    kernels: Container[int] = (),
) -> Any:
    """Seconds per run, [rounds, models]: every model in turn in each round.

    Those at the places ``kernels`` run with the compiled ones.
    """
    runners = [runner(model, threads, i in kernels) for i, model in enumerate(models)]
    runs = [partial(each.run, None, feed) for each in runners]
    return interleaved(runs, rounds, SPINNING_SECONDS if threads > 1 else 0)


def bench(case: Entry, work: Path, rounds: int, threads: Sequence[int]) -> list[Row]:
    """All figures of one model; ratios are medians of the ratios within each round."""
    graphs = make_graphs(case, work)
    feed, found = dict(case.test_feeds[0]), []
    for row, model in graphs:
        if model is not None:
            row.score, sqnr_db = case.score(model)
            row.sqnr_db = None if row.graph == FLOAT else sqnr_db
    for count in threads:
        rows = [replace(row, threads=count) for row, _ in graphs]
        present = [(row, m) for row, (_, m) in zip(rows, graphs, strict=True) if m is not None]
        kernels = [i for i, (row, _) in enumerate(present) if row.graph == KERNELS]
        times = measure([model for _, model in present], feed, rounds, count, kernels)
        for (row, _), column in zip(present, times.T, strict=True):
            row.latency_ms = float(np.median(column)) * 1e3
            row.to_float = float(np.median(column / times[:, 0]))
            if present[1][0].graph not in (OURS, KERNELS):
                row.to_static = float(np.median(column / times[:, 1]))
        found += rows
    return found


def show(rows: Sequence[Row], rounds: int) -> None:
    """One table for all models and numbers of threads."""
    table = Table(title=f"Median of {rounds} interleaved rounds")
    for name in ("model", "graph"):
        table.add_column(name)
    for name in ("threads", "score", "SQNR dB", "ms", "/ static", "/ float", "made in s"):
        table.add_column(name, justify="right", no_wrap=True)
    forms = {"threads": "d", "score": ".4g", "sqnr_db": ".2f", "latency_ms": ".4f"}
    forms |= {"to_static": ".3f", "to_float": ".3f", "seconds_to_make": ".2f"}
    for row in rows:
        values = {name: getattr(row, name) for name in forms}
        cells = ["-" if v is None else format(v, forms[name]) for name, v in values.items()]
        graph = f"{row.graph}: {row.problem}" if row.problem else row.graph
        table.add_row(row.model, graph, *cells, end_section=row.graph == KERNELS)
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    for graph, threads in sorted({(row.graph, row.threads) for row in rows}):
        alike = [row for row in rows if (row.graph, row.threads) == (graph, threads)]
        for name in ("to_static", "to_float"):
            found = [value for row in alike if (value := getattr(row, name)) is not None]
            if found:
                mean = geometric_mean(found)
                print(f"{graph}, {threads} threads, {name}: {mean:.3f} in the geometric mean")


def main() -> None:
    """Run, print, and write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200, help="default: %(default)s")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="default: 1 2")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures")
    parser.add_argument("models", nargs="*", metavar="NAME", help="default: all integer ones")
    options = parser.parse_args()
    wanted = [entry for entry in entries() if entry.expected["verdict"] == "ok"]
    wanted = [e for e in wanted if e.name in options.models] if options.models else wanted
    rows: list[Row] = []
    for entry in track([e for e in wanted if e.present], "bench", transient=True):
        with tempfile.TemporaryDirectory() as folder:
            rows += bench(entry, Path(folder), options.rounds, options.threads)
    show(rows, options.rounds)
    if missing := [entry.name for entry in wanted if not entry.present]:
        print(f"not measured: {', '.join(missing)}: not in {ZOO} (set QPASSES_ZOO)")
    if options.json:
        figures = {
            "rounds": options.rounds,
            "graphs": [asdict(row) for row in rows],
        }
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
