"""What becomes TOSA, and whether its reference model gives the integers of onnxruntime.

`make tosa` runs the models of models/zoo.toml that are here, or MODEL, for two targets and,
for TOSA's, with all tensors in 16 bits, on real samples, and asks of float models as people
publish them whether they can be exported; it writes docs/tosa.json, of which `make docs` makes
tables. `--kind KIND` measures that alone, and leaves the other figures as they are.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import onnx
from rich.console import Console
from rich.progress import track

import qpasses
from calibration import input_specs, open_samples
from calibration.inputs import Feed, tensors
from opsets.errors import QPassesError
from qpasses.checking.beside.other_programs import check_with, runner_of
from qpasses.emit.tosa.profile import PRO_INT_8K
from qpasses.ir.choices import OtherProgram
from qpasses.ir.progress import no_progress
from tests.bench import published
from tests.bench.manifest import ROOT, Entry, entries
from tests.bench.markdown import table

FIGURES = ROOT / "docs" / "tosa.json"

KINDS: Mapping[str, Mapping[str, Any]] = {
    "onnx": {"target": "onnx"},
    "tosa": {"target": "tosa"},
    "tosa, 16 bits": {"target": "tosa", "tensor_types": [".*=int16"], "accuracy": "fast"},
}
"""What is measured, and how it is quantized."""

PROGRAMS: Sequence[OtherProgram] = ("tosa-reference", "iree")
"""IREE is not run where tensors have 16 bits."""

CALIBRATION = 20

SAMPLES, FEW = 32, 4
"""So many run in the reference model, or where one takes ``SLOW`` seconds."""

SLOW = 1.5


@dataclass
class Row:
    """One model of one of ``KINDS``, its ``target``; ``reason``: why it is not exported, or
    ``""``.
    """

    model: str
    target: str
    reason: str = ""
    operations: int = 0
    transposes: int = 0
    samples: int = 0
    elements: int = 0
    differences: int = 0
    iree_differences: int | None = 0
    seconds: float = 0.0

    def cells(self) -> list[str]:
        """Its line in a table."""
        target, comma, more = self.target.partition(",")
        name = f"{self.model}, `{target}`{comma}{more}"
        if self.reason:
            return [name, self.reason, *[""] * 5]
        return [
            *(name, f"{self.operations}", f"{self.transposes}", f"{self.seconds:.2f}"),
            f"{self.elements:,} of {self.samples} samples",
            *(f"{self.differences}", f"{_known(self.iree_differences)}"),
        ]


def _known(count: int | None) -> int | str:
    return "-" if count is None else count


def exported(integer: onnx.ModelProto, shapes: list[str]) -> tuple[str, float]:
    """Why a model is not exported, or nothing, and the seconds that it took."""
    start = perf_counter()
    try:
        qpasses.export(integer, input_shape=shapes)
    except QPassesError as error:
        return " ".join(str(error).removeprefix("<ModelProto>: ").split()), 0.0
    return "", perf_counter() - start


def bench(entry: Entry, kind: str) -> Row:
    """Quantize, export, run."""
    row, how_made = Row(entry.name, kind), KINDS[kind]
    has_words = "tensor_types" in how_made
    row.iree_differences = None if has_words else 0
    specs = input_specs(onnx.load(entry.model))
    data, how = entry.calibration, entry.preprocessing
    shapes = [] if all(each.is_fixed for each in specs) else _sizes_of(entry)
    made = qpasses.quantize(
        *(entry.model, data),
        samples=CALIBRATION,
        preprocessing=how,
        input_shape=shapes,
        **how_made,
    ).model
    assert made is not None
    feeds = open_samples(data, specs, SAMPLES, how)
    row.reason, row.seconds = exported(made, _shapes(feeds.read(0)))
    if row.reason:
        return row
    path, real = Path(entry.name), onnx.load(entry.model)
    for name in PROGRAMS[:1] if has_words else PROGRAMS:
        runner, start = runner_of(name, PRO_INT_8K), perf_counter()
        if name == "tosa-reference":
            check_with(runner, made, path, real, feeds.spread(1), no_progress)
            if perf_counter() - start > SLOW:
                feeds = feeds.spread(FEW)
        found = check_with(runner, made, path, real, feeds, no_progress)
        if name == "iree":
            row.iree_differences = found.differences
            continue
        row.operations, row.transposes = found.operations, found.transposes
        row.samples, row.elements = found.samples, found.elements
        row.differences = found.differences
    return row


def _sizes_of(entry: Entry) -> list[str]:
    """Those of a sample, where the model has free ones beside the batch."""
    specs = input_specs(onnx.load(entry.model))
    return _shapes(open_samples(entry.calibration, specs, 1, entry.preprocessing).read(0))


def _shapes(feed: Feed) -> list[str]:
    arrays = tensors(feed)
    return [f"{name}:{','.join(map(str, array.shape))}" for name, array in arrays.items()]


def others() -> Iterator[Row]:
    """Published float models, calibrated on numbers that are made up."""
    for path in track(sorted(published.FOLDER.glob("*.onnx")), "published", transient=True):
        row, feeds = Row(path.stem, "onnx"), []
        try:
            feeds = published.feeds(path)
            made = qpasses.quantize(path, feeds, accuracy="fast").model if feeds else None
        except QPassesError as error:
            made, row.reason = None, str(error)
        if made is None:
            row.reason = row.reason or "onnxruntime does not run it"
        else:
            row.reason, row.seconds = exported(made, _shapes(feeds[0]))
        yield row


HEAD = [
    *("model, target", "operations", "transposes", "export s", "compared"),
    *("differ", "IREE differs"),
]


def zoo_table() -> str:
    """The models of models/zoo.toml."""
    rows = [Row(**each) for each in json.loads(FIGURES.read_text("utf-8"))["zoo"]]
    return table(HEAD, [row.cells() for row in rows])


def published_table() -> str:
    """Published models: exported, or why not."""
    rows = [Row(**each) for each in json.loads(FIGURES.read_text("utf-8"))["published"]]
    cells = [[row.model, row.reason or f"exported in {row.seconds:.2f} s"] for row in rows]
    return table(["model", "TOSA"], cells)


def _put(rows: Sequence[Row], kind: str) -> None:
    """Write the rows of one kind, each behind those of its model."""
    shown = json.loads(FIGURES.read_text("utf-8"))
    kept = [each for each in shown["zoo"] if each["target"] != kind]
    names = list(dict.fromkeys(each["model"] for each in [*kept, *map(asdict, rows)]))
    both = [*kept, *map(asdict, rows)]
    shown["zoo"] = sorted(both, key=lambda each: names.index(each["model"]))
    FIGURES.write_text(json.dumps(shown, indent=1) + "\n", "utf-8")


def main() -> None:
    """``python -m tests.bench.tosa_programs [MODEL ...]``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="*")
    parser.add_argument("--kind", choices=KINDS)
    asked = parser.parse_args()
    known = {each.name: each for each in entries() if each.present}
    if unknown := set(asked.model) - known.keys():
        sys.exit(f"error: no model {min(unknown)!r} here: use one of {', '.join(known)}")
    chosen = [known[name] for name in asked.model or known]
    rows = []
    for entry in track(chosen, "models", transient=True):
        for kind in [asked.kind] if asked.kind else KINDS:
            rows.append(bench(entry, kind))
            Console(width=160).print("  ".join(rows[-1].cells()))
    if asked.kind and not asked.model:
        _put(rows, asked.kind)
    elif not asked.model:
        found = {"zoo": rows, "published": list(others())}
        shown = {name: [asdict(row) for row in each] for name, each in found.items()}
        FIGURES.write_text(json.dumps(shown, indent=1) + "\n", "utf-8")
    if wrong := [row.model for row in rows if row.differences or row.iree_differences]:
        sys.exit(f"error: other integers: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
