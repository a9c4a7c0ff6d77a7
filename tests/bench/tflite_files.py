"""What becomes a TFLite file, what LiteRT makes of it, and who else reads it.

`make tflite` runs the models of models/zoo.toml that are here, or MODEL, for LiteRT and for
TensorFlow Lite Micro, on real samples, all stored tensors. Each file is compiled by Vela for
two Ethos-U, and legalized to TOSA, which TOSA's reference model runs, where these are
installed. A model that ends with Softmax is tried without it too, and each with all that can
be in 16 bits. It writes docs/tflite.json, of which `make docs` makes a table.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from time import perf_counter

import numpy as np
import onnx
from rich.console import Console
from rich.progress import track

import qpasses
from calibration import Samples, input_specs, open_samples
from calibration.inputs import Feed, tensors
from opsets.errors import QPassesError
from qpasses.checking.beside.litert_check import as_laid, check_litert
from qpasses.checking.beside.litert_tools import OTHERS, REFERENCE, LitertProcess
from qpasses.checking.beside.other_programs import giving, known_tensors
from qpasses.checking.beside.tosa_tools import ReferenceModel
from qpasses.emit.tflite.emit_tflite import TfliteFile
from qpasses.emit.tosa.profile import Profile
from qpasses.ir.choices import TfliteRuntime
from qpasses.ir.edges import Edges
from qpasses.ir.metadata import read_record
from qpasses.ir.progress import no_progress
from qpasses.load.integer_model import read_integer_model
from tests.bench.manifest import ROOT, Entry, entries
from tests.bench.markdown import table

FIGURES = ROOT / "docs" / "tflite.json"

RUNTIMES: tuple[TfliteRuntime, ...] = "litert", "tflm"

CALIBRATION, SAMPLES, FEW = 20, 32, 4
"""Samples to quantize by, to run, and to run in TOSA's reference model."""

LARGE, FEWER = 1e8, 8
"""Of a model with so many multiplications so many samples run: reference kernels are slow."""

WIDTHS = {"": [], ", 16 bits": [".*=int16"]}
"""Types of tensors, by what the name of a model ends with then."""

NPUS = "ethos-u55-128", "ethos-u85-256"


@dataclass
class Row:
    """One model for one target; ``reason``: why there is no file, or ``""``."""

    model: str
    target: str
    reason: str = ""
    operators: int = 0
    transposes: int = 0
    kib: int = 0
    seconds: float = 0.0
    samples: int = 0
    tensors: int = 0
    elements: int = 0
    differences: int = 0
    others: dict[str, str] = field(default_factory=dict)
    npu: dict[str, str] = field(default_factory=dict)
    tosa: str = ""

    def cells(self) -> list[str]:
        """Its line in a table."""
        name = f"{self.model}, `{self.target}`"
        if self.reason:
            return [name, self.reason, *[""] * 10]
        return [
            *(name, f"{self.operators}, {self.transposes}", f"{self.kib:,}"),
            f"{self.seconds:.2f}",
            f"{self.elements:,} of {self.tensors} tensors, {self.samples} samples",
            str(self.differences),
            *(self.others.get(resolver, "") for resolver in (REFERENCE, *OTHERS)),
            *(self.npu.get(name, "") for name in NPUS),
            self.tosa,
        ]


HEAD = [
    *("model, target", "operators, transposes", "KiB", "export s", "compared", "differ"),
    *("BUILTIN_REF", "optimized", "XNNPACK", "Ethos-U55", "Ethos-U85", "TOSA"),
]


def bench(
    name: str,
    model: onnx.ModelProto,
    entry: Entry,
    runtime: TfliteRuntime,
    tensor_types: Sequence[str],
) -> Row:
    """Quantize, export, run, compile."""
    row, specs = Row(name, runtime), input_specs(model)
    data, how = entry.calibration, entry.preprocessing
    first = open_samples(data, specs, 1, how).read(0)
    shapes = [] if all(each.is_fixed for each in specs) else _shapes(first)
    result = qpasses.quantize(
        *(model, data),
        samples=CALIBRATION,
        preprocessing=how,
        target=runtime,
        input_shape=shapes,
        tensor_types=tensor_types,
    )
    made = result.model
    assert made is not None
    is_large = result.report["summary"]["macs"] > LARGE
    start = perf_counter()
    try:
        file = qpasses.export(
            made, to="tflite", tflite_runtime=runtime, input_shape=_shapes(first)
        )
    except QPassesError as error:
        row.reason = " ".join(str(error).removeprefix("<ModelProto>: ").split())
        return row
    assert isinstance(file, TfliteFile)
    content = b"".join(file.content())
    row.seconds, row.kib = perf_counter() - start, len(content) >> 10
    feeds = open_samples(data, specs, FEWER if is_large else SAMPLES, how)
    found = check_litert(
        *(made, Path(name), model, feeds, no_progress), runtime=runtime, all_tensors=True
    )
    if runtime == "litert":
        row.others[REFERENCE] = "judges"
    row.operators, row.transposes = found.operations, found.transposes
    row.samples, row.tensors, row.elements = found.samples, found.tensors, found.elements
    row.differences = found.differences
    for resolver, said in found.others.items():
        row.others[resolver] = said["problem"] or _counted(said)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "model.tflite"
        place.write_bytes(content)
        row.npu = {each: on_npu(place, each) for each in NPUS}
        row.tosa = as_tosa(file, place, made, model, feeds.spread(FEW))
    return row


def _counted(said: dict[str, int]) -> str:
    return f"{said['differences']:,}, by {said['largest']}" if said["differences"] else "0"


def _shapes(feed: Feed) -> list[str]:
    arrays = tensors(feed)
    return [f"{name}:{','.join(map(str, array.shape))}" for name, array in arrays.items()]


def beside(name: str) -> str | None:
    """Where a program is, beside Python or on PATH."""
    found = Path(sys.executable).parent / name
    return str(found) if found.is_file() else shutil.which(name)


def on_npu(place: Path, npu: str) -> str:
    """How many operators Vela leaves to the processor, of how many."""
    vela = beside("vela")
    if vela is None:
        return "not installed"
    options = ["--accelerator-config", npu, "--output-dir", str(place.parent)]
    done = subprocess.run([vela, str(place), *options], capture_output=True, text=True)
    counts = {
        kind: int(number)
        for kind, number in re.findall(r"(CPU|NPU) operators = (\d+)", done.stdout)
    }
    if done.returncode or not counts:
        said = (done.stderr or done.stdout).strip().splitlines()
        return f"fails: {said[-1][:80] if said else done.returncode}"
    npus, cpus = counts.get("NPU", 0), counts.get("CPU", 0)
    return f"all of {npus}" if not cpus else f"{npus} of {npus + cpus}"


def as_tosa(
    file: TfliteFile,
    place: Path,
    made: onnx.ModelProto,
    original: onnx.ModelProto,
    feeds: Samples,
) -> str:
    """How many elements of outputs differ between LiteRT and TOSA's reference model."""
    converter = beside("tosa-converter-for-tflite")
    if converter is None or beside("tosa-opt") is None:
        return "not installed"
    text = place.with_suffix(".text")
    done = subprocess.run(
        [converter, str(place), "--text", "-o", str(text)], capture_output=True, text=True
    )
    if done.returncode or not text.is_file():
        return "not converted"
    profile = Profile(True, ("doubleround", "int16"))
    runner = ReferenceModel(profile)
    try:
        prepared = runner.serialized(text, place.with_suffix(".t"), profile)
    except QPassesError:
        return "not valid"
    edges, differ, count = Edges.between(original, made, read_record(made)[0]), 0, 0
    process = LitertProcess(place, REFERENCE, place.parent, keep=False)
    read = read_integer_model(made, place.name)
    session = giving(read, [end.tensor for end in file.inputs])
    for name, real in feeds:
        stored = known_tensors(read, session, edges.feed(real), name)
        given = {end.place: as_laid(stored[end.tensor], end) for end in file.inputs}
        ends = [end.place for end in file.outputs]
        ours = process.run(given, ends)
        try:
            theirs = runner.run(prepared, [*given.values()], len(ends), place.parent)
        except QPassesError:
            process.close()
            return "fails"
        for end, found in zip(ends, theirs, strict=True):
            differ += int(np.count_nonzero(found.reshape(-1) != ours[end].reshape(-1)))
            count += found.size
    process.close()
    return f"{differ} of {count:,} differ"


def _variants(entry: Entry) -> Iterator[tuple[str, onnx.ModelProto]]:
    """The model, and if it ends with Softmax also without that."""
    model = onnx.load(entry.model)
    yield entry.name, model
    makers = {name: node for node in model.graph.node for name in node.output}
    ends = [makers.get(each.name) for each in model.graph.output]
    if any(node is not None and node.op_type == "Softmax" for node in ends):
        cut = onnx.ModelProto()
        cut.CopyFrom(model)
        for value, node in zip(cut.graph.output, ends, strict=True):
            if node is not None and node.op_type == "Softmax":
                value.name = node.input[0]
                value.type.tensor_type.ClearField("shape")
        gone = [n for n in cut.graph.node if n in ends and n.op_type == "Softmax"]
        for node in gone:
            cut.graph.node.remove(node)
        yield f"{entry.name}, no Softmax", cut


def zoo_table() -> str:
    """The models of models/zoo.toml."""
    rows = [Row(**each) for each in json.loads(FIGURES.read_text("utf-8"))]
    return table(HEAD, [row.cells() for row in rows])


def _keep(rows: Sequence[Row]) -> None:
    """Write figures, with those that stand of other models."""
    anew, stood = {_of(row) for row in rows}, json.loads(FIGURES.read_text("utf-8"))
    known = [each.name for each in entries()]
    kept = [*rows, *(row for each in stood if _of(row := Row(**each)) not in anew)]
    kept.sort(key=lambda row: known.index(_of(row)))
    FIGURES.write_text(json.dumps([asdict(row) for row in kept], indent=1) + "\n", "utf-8")


def _of(row: Row) -> str:
    """The model of the manifest."""
    return row.model.partition(", ")[0]


def _chosen(asked: Sequence[str]) -> list[Entry]:
    known = {each.name: each for each in entries() if each.present}
    if unknown := set(asked) - known.keys():
        sys.exit(f"error: no model {min(unknown)!r} here: use one of {', '.join(known)}")
    return [known[name] for name in asked or known]


def main() -> None:
    """``python -m tests.bench.tflite_files [MODEL ...]``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="*")
    asked = parser.parse_args()
    rows = []
    for entry in track(_chosen(asked.model), "models", transient=True):
        for name, model in _variants(entry):
            for (more, types), runtime in product(WIDTHS.items(), RUNTIMES):
                rows.append(bench(name + more, model, entry, runtime, types))
                Console(width=200).print("  ".join(rows[-1].cells()))
    _keep(rows)
    if wrong := [row.model for row in rows if row.differences]:
        sys.exit(f"error: other integers: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
