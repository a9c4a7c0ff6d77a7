"""What `qpasses quantize` and `verify` cost, commands of their own: time and peak memory.

``python -m tests.bench.quantizing`` prints a table: models of models/zoo.toml that are here,
on the samples that `make zoo` takes, and classic networks of the onnx package with random
weights. A pass is what reading the samples and running the float model on each of them takes;
`cost` is the time of quantize over one second and two passes.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import onnx
from rich.console import Console
from rich.table import Table

from calibration import Session, input_specs, open_samples
from tests.bench.child import Cost, cost_of
from tests.bench.classics import classics
from tests.bench.manifest import entries

SAMPLES = 5
VERIFIED = 5
"""So many samples verify gets."""

FREE = 1.0
"""So many seconds, and ``PASSES`` passes, are what quantize may take."""

PASSES = 2.0


@dataclass(frozen=True)
class Job:
    """A float model in a file, and the folder of its samples."""

    name: str
    model: Path
    data: Path


def jobs(wanted: Sequence[str], folder: Path) -> Iterator[Job]:
    """The models that are here, those of ``wanted`` if any are named."""
    for entry in entries():
        if entry.present and (not wanted or entry.name in wanted):
            specs = input_specs(onnx.load(entry.model))
            found = open_samples(entry.calibration, specs, entry.samples, entry.preprocessing)
            feeds = (feed for _, feed in found)
            yield Job(entry.name, entry.model, _written(folder / entry.name, feeds))
    for path, made in classics(wanted, folder, SAMPLES):
        yield Job(path.stem, path, _written(folder / path.stem, made))


def _written(folder: Path, feeds: Iterable[Mapping[str, Any]]) -> Path:
    """``folder`` with a file for each feed."""
    folder.mkdir()
    for position, feed in enumerate(feeds):
        np.savez(folder / f"{position:05}.npz", **feed)
    return folder


def seconds_of_pass(job: Job) -> float:
    """Of reading the samples and running the float model on each."""
    session, specs = Session(job.model), input_specs(onnx.load(job.model))
    start = time.perf_counter()
    for name, feed in open_samples(job.data, specs):
        session.run(None, feed, name)
    return time.perf_counter() - start


def costs(job: Job, folder: Path) -> tuple[Cost, Cost]:
    """Of quantize on all samples, and of verify on few."""
    integer = folder / f"{job.name}.int8.onnx"
    made = cost_of("quantize", job.model, "--data", job.data, "-o", integer)
    checked = cost_of(
        *("verify", integer, "--against", job.model),
        *("--data", job.data, "--samples", VERIFIED),
    )
    return made, checked


def main() -> None:
    """Print the table, and the geometric mean of the costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*")
    given = parser.parse_args()
    columns = "model", "pass s", "quantize s", "CPU s", "cost", "MB", "verify s", "CPU s", "MB"
    rows, ratios = Table(*columns), []
    with tempfile.TemporaryDirectory() as name:
        for job in jobs(given.models, Path(name)):
            once = seconds_of_pass(job)
            made, checked = costs(job, Path(name))
            ratio = made.seconds / (FREE + PASSES * once)
            ratios.append(ratio)
            numbers = [f"{made.seconds:.1f}", f"{made.processor:.1f}", f"{ratio:.2f}"]
            numbers += [f"{made.megabytes:.0f}", f"{checked.seconds:.1f}"]
            numbers += [f"{checked.processor:.1f}", f"{checked.megabytes:.0f}"]
            rows.add_row(job.name, f"{once:.2f}", *numbers)
            print(job.name, f"{once:.2f}", *numbers, file=sys.stderr, flush=True)
    Console(width=120).print(rows)
    print(f"geometric mean of {len(ratios)} costs: {exp(fmean(map(log, ratios))):.2f}")


if __name__ == "__main__":
    main()
