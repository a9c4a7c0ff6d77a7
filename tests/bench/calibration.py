"""Time and peak memory of calibration, beside plain inference and onnxruntime's calibrators.

`make bench` runs it. Plain is float inference of the original model by onnxruntime with its
default options, on the same samples. onnxruntime's calibrators get our prepared graph, so that
they gain from what is folded there. Times are of samples in memory, peaks are of processes
that read files.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from time import perf_counter

import onnxruntime as ort
from rich.console import Console
from rich.progress import track
from rich.table import Table

import tests.bench.onnxruntime_calibration as theirs
from calibration import Run, Samples, collect, input_specs, open_samples
from calibration.counting import fastest_counter
from calibration.inputs import Feed
from tests.bench.calibration_cases import (
    CASES,
    HISTOGRAMS,
    KEPT_BYTES,
    MINMAX,
    PLAIN,
    SLOW,
    TITLES,
    Ready,
    make_ready,
    marked,
)
from tests.bench.calibration_memory import MEMORY_TARGETS, Peak, show_peaks, weigh_all
from tests.bench.manifest import ZOO
from tests.bench.onnxruntime_calibration import Seconds
from tests.bench.peak_memory import KINDS, STATUS

TIME_TARGETS = {MINMAX: 1.3, HISTOGRAMS: 1.8}

SLOW_ROUNDS = 2
"""SLOW joins the first rounds only."""


@dataclass
class Timing:
    """One way to calibrate a model: its rounds, and how it compares with plain inference."""

    model: str
    kind: str
    samples: int
    rounds: list[Seconds] = field(default_factory=list)
    to_plain: float = 0.0
    to_plain_with_set_up: float = 0.0
    to_plain_best: float = 0.0


class Watched(Samples):
    """Samples that know when the first was read."""

    first_read: float

    def read(self, position: int) -> Feed:
        """See Samples."""
        if "first_read" not in vars(self):
            object.__setattr__(self, "first_read", perf_counter())
        return super().read(position)


def run_plain(ready: Ready, feeds: Sequence[Feed]) -> Seconds:
    """Float inference."""
    start = perf_counter()
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(ready.original.SerializeToString(), options)
    loaded = perf_counter()
    for feed in feeds:
        session.run(None, feed)
    return Seconds(loaded - start, perf_counter() - loaded)


def run_ours(ready: Ready, feeds: Sequence[Feed], histograms: bool) -> Seconds:
    """Our collection on the prepared model; set-up ends when the first sample is read.

    Without ``histograms`` there are those that joins are judged by.
    """
    opened = open_samples(feeds, input_specs(ready.original))
    samples = Watched(opened.source, opened.specs, opened.chosen)
    start = perf_counter()
    collect(ready.prepared, ready.tensors, samples, Run(histograms or ready.concerned))
    return Seconds(samples.first_read - start, perf_counter() - samples.first_read)


def run(kind: str, ready: Ready, feeds: Sequence[Feed]) -> Seconds:
    """One turn of one kind."""
    if kind == PLAIN:
        return run_plain(ready, feeds)
    if kind in (MINMAX, HISTOGRAMS):
        return run_ours(ready, feeds, kind == HISTOGRAMS)
    return theirs.calibrate(ready.file, kind, feeds, ready.work)


def time_all(ready: Ready, rounds: int) -> list[Timing]:
    """Every kind once in each round, in an order that rotates; SLOW in the first ones only."""
    count = ready.case.samples
    fits = max(1, min(count, int(KEPT_BYTES // ready.kept())))
    kinds = [kind for kind in KINDS if kind != "bare"]
    found = {k: Timing(ready.case.name, k, fits if k == SLOW else count) for k in kinds}
    feeds = list(islice(cycle(ready.feeds), count))
    for kind in kinds:  # once for what is slow the first time
        run(kind, ready, feeds[:2])
    for turn in range(rounds):
        for i in range(turn, turn + len(kinds)):
            each = found[kinds[i % len(kinds)]]
            if each.kind != SLOW or turn < SLOW_ROUNDS:
                each.rounds.append(run(each.kind, ready, feeds[: each.samples]))
    for each in found.values():
        _compare(each, found[PLAIN])
    return list(found.values())


def _compare(one: Timing, plain: Timing) -> None:
    """Ratios to inference without its loading, a sample: medians over rounds, and best-of."""
    share = one.samples / plain.samples
    base = [each.run * share for each in plain.rounds]
    pairs = list(zip(one.rounds, base, strict=False))  # SLOW has fewer rounds
    one.to_plain = median(each.run / b for each, b in pairs)
    one.to_plain_with_set_up = median((each.set_up + each.run) / b for each, b in pairs)
    one.to_plain_best = min(each.run for each in one.rounds) / min(base)


def show_times(timings: Sequence[Timing], rounds: int) -> Table:
    """One table for all models."""
    table = Table(
        title=f"Time: {rounds} interleaved rounds, seconds are medians",
        caption="Ratios to plain inference without its set-up, a sample. / plain: without "
        "set-up, + set-up: with its own; medians of the ratios within a round. best: the "
        "fastest rounds of both, without set-up: the one to trust on a busy machine, where "
        f"plain waits for its slowest thread. {TITLES[SLOW]}: {SLOW_ROUNDS} rounds, fewer "
        f"samples if all would hold more than {KEPT_BYTES / 1e9:.0f} GB.",
    )
    table.add_column("model")
    table.add_column("what", no_wrap=True)
    for name in ("samples", "set-up s", "run s", "/ plain", "+ set-up", "best"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in timings:
        target = TIME_TARGETS.get(each.kind)
        ratios = [each.to_plain, each.to_plain_with_set_up, each.to_plain_best]
        table.add_row(
            each.model,
            TITLES[each.kind],
            str(each.samples),
            f"{median(s.set_up for s in each.rounds):.3f}",
            f"{median(s.run for s in each.rounds):.3f}",
            *(marked(ratio, target) for ratio in ratios),
            end_section=each.kind == SLOW,
        )
    return table


def _listed(targets: Mapping[str, float]) -> str:
    return ", ".join(f"{kind} {target}" for kind, target in targets.items())


def main() -> None:
    """Run, print, and write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11, help="default: %(default)s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures")
    parser.add_argument("models", nargs="*", metavar="NAME", help="default: all")
    options = parser.parse_args()
    wanted = [case for case in CASES if not options.models or case.name in options.models]
    timings: list[Timing] = []
    peaks: list[Peak] = []
    for case in track([c for c in wanted if c.path.is_file()], "calibration", transient=True):
        with tempfile.TemporaryDirectory() as folder:
            ready = make_ready(case, Path(folder))
            timings += time_all(ready, options.rounds)
            peaks += weigh_all(ready) if STATUS.exists() else []
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(show_times(timings, options.rounds))
    console.print(show_peaks(peaks) if peaks else "no peaks: they are read from /proc (Linux)")
    counter = type(fastest_counter()).__name__
    print(f"counted by {counter}, {os.cpu_count()} cores; ! is beyond the target:")
    print(f"time {_listed(TIME_TARGETS)}; memory {_listed(MEMORY_TARGETS)}")
    if missing := [case.name for case in wanted if not case.path.is_file()]:
        print(f"not measured: {', '.join(missing)}: not in {ZOO} (set QPASSES_ZOO)")
    if options.json:
        targets = {"time": TIME_TARGETS, "memory": MEMORY_TARGETS}
        head = {"rounds": options.rounds, "counter": counter, "targets": targets}
        figures = {"time": [asdict(t) for t in timings], "memory": [asdict(p) for p in peaks]}
        options.json.write_text(json.dumps(head | figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
