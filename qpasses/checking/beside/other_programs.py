"""Another program beside onnxruntime: the same samples, the same integers, or not."""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, get_args

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from calibration import Samples, Session
from calibration.inputs import Feed, tensors
from opsets.errors import ModelError, UsageError
from qpasses.checking.beside.iree_tools import Iree
from qpasses.checking.beside.tools import Runner
from qpasses.checking.beside.tosa_tools import ReferenceModel
from qpasses.emit.tosa.emit import End, TosaProgram, emit_tosa
from qpasses.emit.tosa.lowering import fits_int32
from qpasses.emit.tosa.profile import PRO_INT_8K, Profile
from qpasses.emit.whole_files import write_whole
from qpasses.ir.choices import OtherProgram
from qpasses.ir.edges import Edges
from qpasses.ir.graph import Node
from qpasses.ir.metadata import read_record
from qpasses.ir.progress import Progress
from qpasses.load.input_sizes import with_input_shapes
from qpasses.load.integer_model import IntegerModel, read_integer_model

_Known = Mapping[str, NDArray[Any]]
"""Stored tensors by name, as onnxruntime gives them."""


@dataclass
class OtherCheck:
    """What another program gave: of ``samples``, ``elements`` of outputs, how many differ.

    ``operations`` and ``transposes`` are those of one program; there is one for each size of
    the samples. ``tensors``: how many were compared in each sample, outputs and what is
    between. ``first``: the first node whose integers differ, if any does; ``saved``: the file
    that holds what it was given.
    """

    program: str
    operations: int = 0
    transposes: int = 0
    samples: int = 0
    tensors: int = 0
    elements: int = 0
    differences: int = 0
    first: str = ""
    saved: str = ""
    problems: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """In ``checks`` of a report."""
        return {name: value for name, value in vars(self).items() if name != "problems"}


@dataclass(frozen=True)
class _Loaded:
    """A program for samples of one size, and onnxruntime giving all it takes and gives."""

    read: IntegerModel
    program: TosaProgram
    prepared: Path
    session: Session


@dataclass(frozen=True)
class _Other:
    """A program to be run, and where: ``folder`` is a temporary one."""

    runner: Runner
    profile: Profile
    folder: Path

    def load(self, read: IntegerModel, place: str, *, all_tensors: bool) -> _Loaded:
        """Export and prepare."""
        program = emit_tosa(read.graph, profile=self.profile, all_tensors=all_tensors)
        prepared = self.runner.prepared(program, self.folder / place)
        return _Loaded(read, program, prepared, _session(read, program))

    def run(self, loaded: _Loaded, known: _Known) -> dict[str, NDArray[Any]]:
        """The outputs of the program by their tensors, as the ONNX model has them."""
        program = loaded.program
        given = [_as_bytes(known[end.tensor], end) for end in program.inputs]
        count = len(program.outputs)
        found = self.runner.run(loaded.prepared, given, count, self.folder)
        return {
            end.tensor: _from_bytes(each, end, known[end.tensor])
            for end, each in zip(program.outputs, found, strict=True)
        }


def runner_of(name: OtherProgram, profile: Profile) -> Runner:
    """Raises UsageError if there is none of this name, or it is not installed."""
    known = get_args(OtherProgram)
    if name not in known:
        raise UsageError(f"--with {name!r}: use one of {', '.join(known)}")
    return ReferenceModel(profile) if name == "tosa-reference" else Iree()


def check_with(
    runner: Runner,
    model: onnx.ModelProto,
    path: Path,
    original: onnx.ModelProto,
    samples: Samples,
    progress: Progress,
    *,
    profile: Profile = PRO_INT_8K,
    all_tensors: bool = False,
) -> OtherCheck:
    """Export, prepare and run ``samples``; compare outputs, or all tensors, with onnxruntime.

    ``samples`` are those of the ``original``, which may take floats where the ``model`` takes
    integers. Where a result differs, all tensors are compared, and what the first node that
    differs was given is saved beside the file ``path``, if there is one.

    Raises ModelError for what cannot be exported or what the program refuses.
    """
    done, loaded = OtherCheck(runner.title), dict[str, _Loaded]()
    edges = Edges.between(original, model, read_record(model)[0])
    advance = progress(f"run in {runner.title}", len(samples))
    with tempfile.TemporaryDirectory(prefix="qpasses-") as name:
        other = _Other(runner, profile, Path(name))
        for sample, real in samples:
            feed = edges.feed(real)
            shapes = {name: array.shape for name, array in tensors(feed).items()}
            key = str(shapes)
            if key not in loaded:
                read, place = sized(model, path, shapes), f"program_{len(loaded)}"
                loaded[key] = other.load(read, place, all_tensors=all_tensors)
                counts = loaded[key].program.operations
                done.operations = sum(counts.values())
                done.transposes = loaded[key].program.transposes
            _compare(done, other, loaded[key], (sample, feed), path)
            advance()
    return done


def sized(
    model: onnx.ModelProto, path: Path, shapes: Mapping[str, Sequence[int]]
) -> IntegerModel:
    """The model for inputs of these sizes."""
    given = {value.name for value in model.graph.input}
    texts = [
        f"{name}:{','.join(map(str, sizes))}"
        for name, sizes in shapes.items()
        if name in given
    ]
    return read_integer_model(with_input_shapes(model, texts, path), str(path))


def _compare(
    done: OtherCheck, other: _Other, loaded: _Loaded, sample: tuple[str, Feed], path: Path
) -> None:
    name, feed = sample
    known = _known(loaded, feed, name)
    try:
        found = other.run(loaded, known)
    except ModelError as error:
        given = {end.tensor: known[end.tensor] for end in loaded.program.inputs}
        raise ModelError(f"{error}{_saved(done, path, given)}, on {name}") from error
    wrong = {tensor: differing(ours, known[tensor]) for tensor, ours in found.items()}
    done.samples, done.tensors = done.samples + 1, len(found)
    done.elements += sum(each.size for each in found.values())
    done.differences += sum(wrong.values())
    if any(wrong.values()) and not done.first:
        done.first = "none of those whose results are stored"
        first = _first_differing(other, loaded.read, feed)
        saved = ""
        if first is not None:
            done.first, saved = str(first[0].name), _saved(done, path, first[1])
        done.problems.append(
            f"{other.runner.title} gives {sum(wrong.values())} other integers than "
            f"onnxruntime on {name}: first at node {done.first!r}{saved}"
        )


def differing(ours: NDArray[Any], theirs: NDArray[Any]) -> int:
    """How many elements do."""
    return int(np.count_nonzero(ours.reshape(theirs.shape) != theirs))


def _known(loaded: _Loaded, feed: Feed, name: str) -> dict[str, NDArray[Any]]:
    return known_tensors(loaded.read, loaded.session, feed, name)


def known_tensors(
    read: IntegerModel, session: Session, feed: Feed, name: str
) -> dict[str, NDArray[Any]]:
    """What onnxruntime takes and gives on ``feed``, called ``name``, as ONNX has it."""
    expected = zip(session.outputs, session.run(session.outputs, feed, name), strict=True)
    return {**tensors(feed), **{each: read.record.as_onnx(each, v) for each, v in expected}}


def _session(read: IntegerModel, program: TosaProgram) -> Session:
    return giving(read, [end.tensor for end in (*program.inputs, *program.outputs)])


def giving(read: IntegerModel, names: Iterable[str]) -> Session:
    """onnxruntime on the integer model, giving these of its tensors."""
    model = onnx.ModelProto()
    model.CopyFrom(read.model)
    given = {value.name for value in model.graph.input}
    del model.graph.output[:]
    model.graph.output.extend(
        helper.make_tensor_value_info(name, _type_of(read, name), None)
        for name in dict.fromkeys(names)
        if name not in given
    )
    return Session(model, optimize=False)


def _type_of(read: IntegerModel, name: str) -> int:
    for constant in read.model.graph.initializer:
        if constant.name == name:
            return int(constant.data_type)
    written = {tensor.name: tensor for node in read.graph.nodes for tensor in node.outputs}
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(written[name].dtype)))


def _as_bytes(values: NDArray[Any], end: End) -> NDArray[Any]:
    whole = np.ascontiguousarray(values).reshape(end.shape)
    if end.unsigned:
        return whole.view(np.int8)
    if whole.dtype == np.int64 and not fits_int32(whole):
        raise ModelError(f"input {end.name!r} has numbers beyond int32, TOSA has none")
    return whole.astype(np.int32) if end.element == "i32" else whole


def _from_bytes(values: NDArray[Any], end: End, like: NDArray[Any]) -> NDArray[Any]:
    found = values.astype(np.int8).view(np.uint8) if end.unsigned else values
    return found.reshape(like.shape)


def _first_differing(
    other: _Other, read: IntegerModel, feed: Feed
) -> tuple[Node, dict[str, NDArray[Any]]] | None:
    """The first node, in order, one of whose stored results differs, and what is about it.

    That is its stored inputs by name, and each result, as onnxruntime has it and as the other
    program.
    """
    whole = other.load(read, "all", all_tensors=True)
    known = _known(whole, feed, "a sample")
    found = other.run(whole, known)
    for node in read.graph.nodes:
        names = [tensor.name for tensor in node.outputs if tensor.name in found]
        if any(differing(found[name], known[name]) for name in names):
            given = {each.name: known[each.name] for each in node.inputs if each.name in known}
            results = {f"onnxruntime.{name}": known[name] for name in names}
            others = {f"{other.runner.key}.{name}": found[name] for name in names}
            return node, given | results | others
    return None


def _saved(done: OtherCheck, path: Path, arrays: Mapping[str, NDArray[Any]]) -> str:
    """Write them beside the model, and say where, or why not."""
    if not path.is_file():
        return ""
    place = path.with_suffix(".differing.npz")
    content = BytesIO()
    named = {name.replace("/", "."): each for name, each in arrays.items()}
    np.savez(content, allow_pickle=False, **named)
    try:
        write_whole(place, content.getvalue())
    except UsageError as error:  # what was found is to be said all the same
        return f"; what it was given is not saved: {error}"
    done.saved = str(place)
    return f"; what it was given is in {done.saved}"
