"""How long `qpasses verify` takes, everything recomputed, by a command of its own.

``python -m tests.bench.verifying`` prints the table of docs/attacks.md: the models of
models/zoo.toml that are here, and classic networks of the onnx package with random weights.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from qpasses.api import quantize
from tests.bench.classics import classics
from tests.bench.manifest import entries

SAMPLES = 5


@dataclass(frozen=True)
class Pair:
    """A float model in a file, and samples of it."""

    name: str
    model: Path
    feeds: Sequence[Any]


def pairs(wanted: Sequence[str], folder: Path) -> Iterator[Pair]:
    """The models that are here, those of ``wanted`` if any are named."""
    for entry in entries():
        if entry.present and (not wanted or entry.name in wanted):
            yield Pair(entry.name, entry.model, list(entry.test_feeds[:SAMPLES]))
    for path, made in classics(wanted, folder, SAMPLES):
        yield Pair(path.stem, path, made)


def timed(pair: Pair, folder: Path) -> tuple[float, dict[str, Any]]:
    """Seconds of the command from its start to its end, and its report."""
    integer, report, data = folder / "int8.onnx", folder / "report.json", folder / "data"
    quantize(pair.model, pair.feeds, integer)
    data.mkdir(exist_ok=True)
    for position, feed in enumerate(pair.feeds):
        np.savez(data / f"{position}.npz", **feed)
    arguments = [integer, "--against", pair.model, "--data", data, "--json", report]
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "qpasses", "verify", *map(str, arguments)],
        check=True,
        capture_output=True,
    )
    seconds = time.perf_counter() - start
    return seconds, json.loads(report.read_text("utf-8"))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*")
    given = parser.parse_args()
    rows = Table("model", "verdict", "nodes", "MACs", "codes compared", "differ", "seconds")
    with tempfile.TemporaryDirectory() as name:
        for pair in pairs(given.models, Path(name)):
            folder = Path(name) / pair.name
            folder.mkdir()
            seconds, report = timed(pair, folder)
            summary, checks = report["summary"], report["checks"]
            rows.add_row(
                pair.name,
                summary["verdict"],
                str(checks["float_graph"]["nodes"]),
                f"{summary['macs']:,}",
                f"{checks['qdq']['codes']:,}",
                f"{checks['qdq']['codes_differing']:,}",
                f"{seconds:.1f}",
            )
    Console(width=120).print(rows)


if __name__ == "__main__":
    main()
