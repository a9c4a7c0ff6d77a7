"""Peak memory of calibration, one process a figure."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.table import Table

from calibration.inputs import tensors
from tests.bench.calibration_cases import (
    HISTOGRAMS,
    KEPT_BYTES,
    MINMAX,
    PLAIN,
    SLOW,
    TITLES,
    Ready,
    marked,
)
from tests.bench.manifest import ROOT
from tests.bench.peak_memory import KINDS

MEMORY_TARGETS = {MINMAX: 1.3, HISTOGRAMS: 1.3}


@dataclass(frozen=True)
class Peak:
    """The peak memory of one process in MB; None if it would need more than KEPT_BYTES."""

    model: str
    kind: str
    samples: int
    megabytes: float | None
    to_plain: float | None


def weigh_all(ready: Ready) -> Iterator[Peak]:
    """The peak of a process for each kind and number of samples."""
    samples, kept = ready.work / "samples", ready.kept()
    _write_samples(ready, samples, max(ready.case.counts))
    yield Peak(ready.case.name, "bare", 0, _peak("bare", ready, samples, 0), None)
    for count in ready.case.counts:
        plain = _peak(PLAIN, ready, samples, count)
        yield Peak(ready.case.name, PLAIN, count, plain, 1.0)
        for kind in [k for k in KINDS if k not in ("bare", PLAIN)]:
            if kind == SLOW and kept * count > KEPT_BYTES:
                yield Peak(ready.case.name, kind, count, None, None)
            else:
                found = _peak(kind, ready, samples, count)
                yield Peak(ready.case.name, kind, count, found, found / plain)


def _write_samples(ready: Ready, folder: Path, count: int) -> None:
    """``count`` files of one input; those beyond the split are links to those of the split."""
    folder.mkdir()
    for i in range(count):
        path, first = folder / f"{i:05}.npy", folder / f"{i % len(ready.feeds):05}.npy"
        if i < len(ready.feeds):
            (array,) = tensors(ready.feeds[i]).values()
            np.save(path, array)
        else:
            os.link(first, path)


def _peak(kind: str, ready: Ready, samples: Path, count: int) -> float:
    model = ready.file if kind in ("MinMax", SLOW) else ready.case.path
    arguments = [kind, str(model), str(samples), str(count)]
    child = [sys.executable, "-m", "tests.bench.peak_memory", *arguments]
    done = subprocess.run(child, cwd=ROOT, check=True, capture_output=True, text=True)
    return int(done.stdout) * 1024 / 1e6


def show_peaks(peaks: Sequence[Peak]) -> Table:
    """One table for all models."""
    table = Table(
        title="Peak memory: one process a figure",
        caption=f"-: would hold more than {KEPT_BYTES / 1e9:.0f} GB of activations",
    )
    table.add_column("model")
    table.add_column("what", no_wrap=True)
    for name in ("samples", "MB", "/ plain"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in peaks:
        table.add_row(
            each.model,
            TITLES[each.kind],
            str(each.samples),
            "-" if each.megabytes is None else f"{each.megabytes:.0f}",
            marked(each.to_plain, MEMORY_TARGETS.get(each.kind)),
            end_section=each.kind in ("bare", SLOW),
        )
    return table
