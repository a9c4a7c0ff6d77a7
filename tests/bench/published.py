"""Float models as people publish them, put through `qpasses.quantize` and `verify`.

`make published` runs it and writes docs/published.json; `make docs` makes a table of it.
"""

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

import qpasses
from calibration import Session, input_specs
from opsets.errors import QPassesError
from tests.bench.lone_worker import DiedError, HungError, LoneWorker
from tests.bench.manifest import ROOT, ZOO
from tests.bench.markdown import table

FOLDER = ZOO / "more" / "float"
FIGURES = ROOT / "docs" / "published.json"

SECONDS = 400.0
"""What a model may take."""

SAMPLES = 8
"""Of so many some are held back, to judge."""

SIZES = (1, 16, 64, 320)
"""Tried for free sizes behind the first, in this order, until the model runs."""

LARGEST_IDS = (1, 2)
"""Integers are below these, tried in this order: ids that any table has, masks."""


@dataclass
class Found:
    """What became of a model: verdict, or "refused", "traceback", "hang" or "crash".

    ``sqnr_db``: of the worst float output, on numbers that are made up; ``left``: float nodes
    by op; ``verified``: the verdict of `verify`.
    """

    name: str
    verdict: str
    reason: str = ""
    integer: int = 0
    left: dict[str, int] | None = None
    sqnr_db: float | None = None
    verified: str = ""
    seconds: float = 0.0


def feeds(path: Path) -> list[dict[str, NDArray[Any]]]:
    """Made-up samples of the first sizes that the model runs on; none if there are no such."""
    model = onnx.load(path)
    session = Session(model, optimize=False)
    for size in SIZES:
        for below in LARGEST_IDS:
            made = [_feed(model, size, below, seed) for seed in range(SAMPLES)]
            try:
                session.run(None, made[0])
            except QPassesError:
                continue
            return made
    return []


def _feed(model: onnx.ModelProto, size: int, below: int, seed: int) -> dict[str, NDArray[Any]]:
    rng, feed = np.random.default_rng(seed), {}
    for spec in input_specs(model):
        free = [size if axis else 1 for axis in range(len(spec.shape))]
        shape = [own if n is None else n for own, n in zip(free, spec.shape, strict=True)]
        if spec.dtype.kind == "f":
            feed[spec.name] = rng.normal(size=shape).astype(spec.dtype)
        else:
            feed[spec.name] = rng.integers(0, below, shape).astype(spec.dtype)
    return feed


def outcome(path: Path) -> Found:
    """What becomes of the model at ``path``."""
    found = Found(path.stem, "refused")
    try:
        samples = feeds(path)
        if not samples:
            found.reason = "no made-up sizes are known on which it runs"
            return found
        begun = perf_counter()
        result = qpasses.quantize(path, samples)
        summary: Mapping[str, Any] = result.report["summary"]
        found.verdict, found.seconds = str(result.verdict), perf_counter() - begun
        ops = [each["op_type"] for each in summary["float_nodes"]]
        found.left = {op: ops.count(op) for op in sorted(set(ops))}
        found.integer = sum(summary["nodes"].values())
        known = [each.get("sqnr_db") for each in result.report["accuracy"]["outputs"]]
        found.sqnr_db = min((each for each in known if each is not None), default=None)
        assert result.model is not None
        found.verified = str(qpasses.verify(result.model, path, samples).verdict)
    except QPassesError as error:
        found.reason = str(error)
    except Exception as error:  # whatever it is, it is what is looked for
        found.verdict, found.reason = "traceback", f"{type(error).__name__}: {error}"
    return found


def known() -> list[Found]:
    """What was found last."""
    return [Found(**each) for each in json.loads(FIGURES.read_text("utf-8"))["models"]]


def published_table() -> str:
    """A line for each model."""
    head = ["model", "verdict", "integer nodes", "left in float", "SQNR", "verify", "time"]
    return table(head, [_row(each) for each in known()])


def _row(found: Found) -> list[str]:
    left = ", ".join(f"{count} {op}" for op, count in (found.left or {}).items())
    noise = "-" if found.sqnr_db is None else f"{found.sqnr_db:.1f} dB"
    first = [found.name, found.verdict, str(found.integer), left or "-"]
    if found.reason:
        return [found.name, found.verdict, "-", found.reason.replace("|", "\\|"), *"---"]
    return [*first, noise, found.verified, f"{found.seconds:.1f} s"]


def main() -> None:
    """Run them all and write the figures, or those of a name and print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pattern", nargs="?", default="", help="in names of models")
    pattern = parser.parse_args().pattern
    paths = [each for each in sorted(FOLDER.rglob("*.onnx")) if pattern in each.stem]
    rows, console = [], Console(highlight=False, soft_wrap=True)
    with LoneWorker(SECONDS) as worker:
        for path in track(paths, "published", console=console):
            try:
                rows.append(worker.run(outcome, path))
            except HungError as error:
                rows.append(Found(path.stem, "hang", str(error)))
            except DiedError as error:
                rows.append(Found(path.stem, "crash", str(error)))
            console.print("  ".join(_row(rows[-1])), markup=False)
    if not pattern:
        versions = {name: version(name) for name in ("onnx", "onnxruntime")}
        figures = {"versions": versions, "models": [asdict(each) for each in rows]}
        FIGURES.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
        console.print(f"written: {FIGURES.relative_to(ROOT)}; then: make docs")


if __name__ == "__main__":
    main()
