"""TOSA's reference model beside onnxruntime: the same samples, the same integers, or not."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from calibration import Samples, Session
from calibration.inputs import tensors
from opsets.errors import ModelError, UsageError
from qpasses.emit.tosa.emit import End, TosaProgram, emit_tosa
from qpasses.ir.edges import Edges
from qpasses.ir.metadata import read_record
from qpasses.ir.stages import QUANTIZING
from qpasses.load.input_sizes import with_input_shapes
from qpasses.load.integer_model import IntegerModel, read_integer_model

TARGET = "profiles=pro_int level=8k specification_version=1.0"
"""What the validator holds a program to."""

_SHOWN = 400
"""So many characters of what a tool says are shown."""


@dataclass
class TosaCheck:
    """What the reference model gave: of ``samples``, ``elements`` of outputs, how many differ.

    ``operations`` and ``transposes`` are those of one program; there is one for each size of
    the samples. ``first``: the first node whose integers differ, if any does.
    """

    operations: int = 0
    transposes: int = 0
    samples: int = 0
    elements: int = 0
    differences: int = 0
    first: str = ""
    problems: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """``checks.tosa_reference`` of a report."""
        return {name: value for name, value in vars(self).items() if name != "problems"}


@dataclass(frozen=True)
class _Loaded:
    """A program for samples of one size, and onnxruntime giving all it takes and gives."""

    read: IntegerModel
    program: TosaProgram
    serialized: Path
    session: Session


def check_with_tosa(
    model: onnx.ModelProto, path: Path, original: onnx.ModelProto, samples: Samples
) -> TosaCheck:
    """Export, validate, serialize and run on ``samples``; compare with onnxruntime.

    ``samples`` are those of the ``original``, which may take floats where the ``model`` takes
    integers.

    Raises UsageError where the tools are missing, ModelError for what cannot be exported or
    what a tool refuses.
    """
    opt, tool = _tool("tosa-opt"), _tool("tosa_reference_model")
    done, loaded = TosaCheck(), dict[str, _Loaded]()
    edges = Edges.between(original, model, read_record(model)[0])
    with tempfile.TemporaryDirectory(prefix="qpasses-") as name:
        folder = Path(name)
        for sample, real in samples:
            feed = edges.feed(real)
            shapes = {name: array.shape for name, array in tensors(feed).items()}
            key = str(shapes)
            if key not in loaded:
                loaded[key] = _load(opt, _sized(model, path, shapes), folder, len(loaded))
                counts = loaded[key].program.operations
                done.operations = sum(counts.values())
                done.transposes = loaded[key].program.transposes
            _compare(done, loaded[key], tool, opt, (sample, feed), folder)
    return done


def _sized(
    model: onnx.ModelProto, path: Path, shapes: Mapping[str, Sequence[int]]
) -> IntegerModel:
    given = {value.name for value in model.graph.input}
    texts = [
        f"{name}:{','.join(map(str, sizes))}"
        for name, sizes in shapes.items()
        if name in given
    ]
    return read_integer_model(with_input_shapes(model, texts, path), str(path))


def _load(opt: Path, read: IntegerModel, folder: Path, place: int) -> _Loaded:
    program = emit_tosa(read.graph)
    serialized = _serialized(opt, program.text, folder / f"program_{place}")
    return _Loaded(read, program, serialized, _session(read, program))


def _compare(
    done: TosaCheck,
    loaded: _Loaded,
    tool: Path,
    opt: Path,
    sample: tuple[str, Any],
    folder: Path,
) -> None:
    name, feed = sample
    session, program = loaded.session, loaded.program
    expected = session.run(session.outputs, feed, name)
    known = {**tensors(feed), **dict(zip(session.outputs, expected, strict=True))}
    found = _run(tool, loaded.serialized, program, known, folder)
    wrong = 0
    for end, ours in zip(program.outputs, found, strict=True):
        theirs = known[end.tensor]
        wrong += int(np.count_nonzero(ours.reshape(theirs.shape) != theirs))
        done.elements += theirs.size
    done.samples += 1
    done.differences += wrong
    if wrong and not done.first:
        done.first = _first_differing(loaded.read, known, opt, tool, feed, folder)
        done.problems.append(
            f"TOSA's reference model gives {wrong} other integers than onnxruntime on {name}: "
            f"first at node {done.first!r}"
        )


def _tool(name: str) -> Path:
    beside = Path(sys.executable).parent / name
    found = beside if beside.is_file() else shutil.which(name)
    if found is None:
        raise UsageError(
            f"--with tosa-reference needs {name}, a program of tosa-tools: pip install "
            "--no-deps tosa-tools"
        )
    return Path(found)


def _called(what: str, command: Sequence[object]) -> None:
    """Raises ModelError, with what the tool says, if it fails."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())[:_SHOWN]
        raise ModelError(f"{what} (exit {done.returncode}): {said}")


def _serialized(opt: Path, text: str, place: Path) -> Path:
    source, made = place.with_suffix(".mlir"), place.with_suffix(".tosa")
    validated = place.with_suffix(".validated")
    source.write_text(text, "utf-8")
    _called(
        "tosa-opt does not validate the program",
        [
            *(opt, source, f"--tosa-attach-target={TARGET}"),
            *("--tosa-validate=strict-op-spec-alignment", "-o", validated),
        ],
    )
    flatbuffer = f"--tosa-flatbuffer-filename={made}"
    _called(
        "tosa-opt does not serialize the program",
        [opt, source, "--tosa-serialize", flatbuffer, "-o", validated],
    )
    return made


def _session(read: IntegerModel, program: TosaProgram) -> Session:
    """onnxruntime on the integer model, giving all that the program takes and gives."""
    model = onnx.ModelProto()
    model.CopyFrom(read.model)
    given = {value.name for value in model.graph.input}
    ends = {end.tensor: end for end in (*program.inputs, *program.outputs)}
    del model.graph.output[:]
    model.graph.output.extend(
        helper.make_tensor_value_info(name, _type_of(read, name), None)
        for name in ends
        if name not in given
    )
    return Session(model, optimize=False)


def _type_of(read: IntegerModel, name: str) -> int:
    for constant in read.model.graph.initializer:
        if constant.name == name:
            return int(constant.data_type)
    written = {tensor.name: tensor for node in read.graph.nodes for tensor in node.outputs}
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(written[name].dtype)))


def _run(
    tool: Path,
    serialized: Path,
    program: TosaProgram,
    known: Mapping[str, NDArray[Any]],
    folder: Path,
) -> list[NDArray[Any]]:
    """The outputs of the program, as the types that the ONNX model has."""
    given = [folder / f"input_{k}.npy" for k in range(len(program.inputs))]
    for path, end in zip(given, program.inputs, strict=True):
        np.save(path, _as_bytes(known[end.tensor], end))
    made = [folder / f"output_{k}.npy" for k in range(len(program.outputs))]
    _called(
        "TOSA's reference model fails",
        [
            *(tool, "--tosa_file", serialized),
            *("--ifm_name", _listed(f"TosaInput_{k}" for k in range(len(given)))),
            *("--ifm_file", _listed(map(str, given))),
            *("--ofm_name", _listed(f"TosaOutput_{k}" for k in range(len(made)))),
            *("--ofm_file", _listed(map(str, made))),
        ],
    )
    return [
        _from_bytes(np.load(path), end)
        for path, end in zip(made, program.outputs, strict=True)
    ]


def _listed(names: Iterable[str]) -> str:
    return ",".join(names)


def _as_bytes(values: NDArray[Any], end: End) -> NDArray[Any]:
    whole = np.ascontiguousarray(values).reshape(end.shape)
    if end.unsigned:
        return whole.view(np.int8)
    return whole.astype(np.int32) if whole.dtype == np.int64 else whole


def _from_bytes(values: NDArray[Any], end: End) -> NDArray[Any]:
    return values.astype(np.int8).view(np.uint8) if end.unsigned else values


def _first_differing(
    read: IntegerModel,
    known: Mapping[str, NDArray[Any]],
    opt: Path,
    tool: Path,
    feed: Any,
    folder: Path,
) -> str:
    """The first node, in order, one of whose stored results differs."""
    writers = {
        tensor.name: str(node.name)
        for node in read.graph.nodes
        if node.op not in QUANTIZING
        for tensor in node.outputs
        if np.dtype(tensor.dtype) in (np.uint8, np.int8)
    }
    program = emit_tosa(read.graph, [*writers])
    serialized = _serialized(opt, program.text, folder / "shown")
    session = _session(read, program)
    whole = dict(zip(session.outputs, session.run(session.outputs, feed), strict=True))
    found = _run(tool, serialized, program, {**known, **whole}, folder)
    by_name = {end.tensor: ours for end, ours in zip(program.outputs, found, strict=True)}
    for name, node in writers.items():
        ours, theirs = by_name[name], whole[name]
        if (ours.reshape(theirs.shape) != theirs).any():
            return node
    return "none of those stored in 8 bits"
