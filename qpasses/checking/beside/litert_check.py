"""The exported TFLite file in LiteRT beside onnxruntime: the same integers, or not."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from calibration import Samples, Session
from calibration.inputs import Feed, tensors
from opsets.errors import ModelError
from qpasses.checking.beside.litert_tools import (
    JUDGES,
    OTHERS,
    REFERENCE,
    LitertProcess,
    Resolver,
)
from qpasses.checking.beside.other_programs import (
    OtherCheck,
    differing,
    giving,
    known_tensors,
    sized,
)
from qpasses.emit.tflite.emit_tflite import FileEnd, TfliteFile, emit_tflite
from qpasses.emit.tosa.lowering import fits_int32
from qpasses.emit.whole_files import write_together
from qpasses.ir.choices import TfliteRuntime
from qpasses.ir.edges import Edges
from qpasses.ir.metadata import read_record
from qpasses.ir.progress import Progress
from qpasses.load.integer_model import IntegerModel

_Known = Mapping[str, NDArray[Any]]


@dataclass
class LitertCheck(OtherCheck):
    """The same of what runs TFLite files: one judges, ``others`` are reported.

    By resolver: how many elements of outputs differ, by how much at most, and what went wrong.
    """

    others: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Loaded:
    """The file for samples of one size, in the interpreters that run it."""

    read: IntegerModel
    file: TfliteFile
    session: Session
    judge: Resolver
    running: Mapping[Resolver, LitertProcess]


def check_litert(
    model: onnx.ModelProto,
    path: Path,
    original: onnx.ModelProto,
    samples: Samples,
    progress: Progress,
    *,
    runtime: TfliteRuntime = "litert",
    all_tensors: bool = False,
) -> LitertCheck:
    """Export, run ``samples``, compare outputs, or all stored tensors, with onnxruntime's.

    ``samples`` are those of the ``original``; ``runtime``: for whose kernels it is exported.
    What these give otherwise, or that they do not run the file, is among the problems. Raises
    ModelError for what cannot be exported.
    """
    _, title = JUDGES[runtime]
    done, loaded = LitertCheck(title), dict[str, _Loaded]()
    edges = Edges.between(original, model, read_record(model)[0])
    advance = progress("run in LiteRT", len(samples))
    with tempfile.TemporaryDirectory(prefix="qpasses-") as name, ExitStack() as running:
        for sample, real in samples:
            feed = edges.feed(real)
            shapes = {end: array.shape for end, array in tensors(feed).items()}
            key = str(shapes)
            with _problems(done, sample):
                if key not in loaded:
                    read, folder = sized(model, path, shapes), Path(name) / str(len(loaded))
                    folder.mkdir()
                    loaded[key] = _load(done, read, runtime, folder, all_tensors, running)
                _compare(done, loaded[key], (sample, feed), all_tensors)
            if len(done.problems) > bool(done.first):  # it does not run
                break
            advance()
    return done


class _RunError(ModelError):
    """What the reference kernels do not run."""


@contextmanager
def _problems(done: LitertCheck, sample: str) -> Iterator[None]:
    try:
        yield
    except _RunError as error:
        done.problems.append(f"{error}, on {sample}")


def _load(
    done: LitertCheck,
    read: IntegerModel,
    runtime: TfliteRuntime,
    folder: Path,
    all_tensors: bool,
    running: ExitStack,
) -> _Loaded:
    file, judge = emit_tflite(read, runtime=runtime), JUDGES[runtime][0]
    place = folder / "model.tflite"
    write_together({place: file.content()})
    done.operations, done.transposes = sum(file.operations.values()), file.transposes
    found = dict[Resolver, LitertProcess]()
    for resolver in dict.fromkeys((judge, REFERENCE, *OTHERS)):
        keep = all_tensors and resolver == judge
        try:
            process = LitertProcess(place, resolver, folder, keep=keep)
        except ModelError as error:
            if resolver == judge:
                raise _RunError(str(error)) from error
            _other(done, resolver)["problem"] = str(error)
            continue
        found[resolver] = running.enter_context(closing(process))
    return _Loaded(read, file, giving(read, _ends(file)), judge, found)


def _ends(file: TfliteFile) -> Sequence[str]:
    """The stored tensors that it takes and gives, and those between."""
    ends = (*file.inputs, *file.outputs, *file.stored)
    return list(dict.fromkeys(end.tensor for end in ends))


def _other(done: LitertCheck, resolver: Resolver) -> dict[str, Any]:
    empty = {"differences": 0, "largest": 0, "problem": ""}
    return done.others.setdefault(resolver, empty)


def _compare(
    done: LitertCheck, loaded: _Loaded, sample: tuple[str, Feed], all_tensors: bool
) -> None:
    name, feed = sample
    known = known_tensors(loaded.read, loaded.session, feed, name)
    file = loaded.file
    given = {end.place: as_laid(known[end.tensor], end) for end in file.inputs}
    ends = file.stored if all_tensors else file.outputs
    for resolver, process in loaded.running.items():
        watched = ends if resolver == loaded.judge else file.outputs
        try:
            made = process.run(given, [end.place for end in watched])
        except ModelError as error:
            if resolver == loaded.judge:
                raise _RunError(str(error)) from error
            _other(done, resolver)["problem"] = str(error)
            continue
        found = {end.tensor: as_onnx(made[end.place], end) for end in watched}
        if resolver == loaded.judge:
            _judge(done, loaded.read, found, known, name)
        else:
            _count(_other(done, resolver), found, known)


def _judge(
    done: LitertCheck, read: IntegerModel, found: _Known, known: _Known, name: str
) -> None:
    wrong = {tensor: differing(ours, known[tensor]) for tensor, ours in found.items()}
    done.samples, done.tensors = done.samples + 1, len(found)
    done.elements += sum(each.size for each in found.values())
    done.differences += sum(wrong.values())
    if any(wrong.values()) and not done.first:
        written = [(node, tensor) for node in read.graph.nodes for tensor in node.outputs]
        first = next((node for node, tensor in written if wrong.get(str(tensor.name))), None)
        done.first = "an input" if first is None else str(first.name)
        done.problems.append(
            f"{done.program} give {sum(wrong.values())} other integers than onnxruntime on "
            f"{name}: first at node {done.first!r}"
        )


def _count(counted: dict[str, Any], found: _Known, known: _Known) -> None:
    for tensor, ours in found.items():
        counted["differences"] += differing(ours, known[tensor])
        apart = np.abs(ours.astype(np.int64) - known[tensor].astype(np.int64))
        counted["largest"] = max(counted["largest"], int(apart.max(initial=0)))


_TYPES = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i1": np.bool_}


def as_laid(values: NDArray[Any], end: FileEnd) -> NDArray[Any]:
    """What the file takes for a tensor that onnxruntime has."""
    laid = np.asarray(np.transpose(values, end.order), order="C")
    if laid.dtype == np.int64 and not fits_int32(laid):
        raise ModelError(f"input {end.name!r} has numbers beyond int32, which the file takes")
    if end.dtype == np.uint8:
        return (laid.astype(np.int16) - 128).astype(np.int8)
    return laid.astype(_TYPES[end.element])


def as_onnx(values: NDArray[Any], end: FileEnd) -> NDArray[Any]:
    """A tensor of the file as onnxruntime has it."""
    found = values
    if end.columns is not None:
        found = np.empty_like(values)
        found[:, end.columns] = values
    found = np.transpose(found, [end.order.index(axis) for axis in range(len(end.order))])
    if end.dtype == np.uint8:
        return (found.astype(np.int16) + 128).astype(np.uint8)
    return found.astype(end.dtype)
