"""Weights in files beside the model: where they are, and reading them, links included."""

from collections.abc import Iterator
from mmap import ACCESS_READ, mmap
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from calibration.held_weights import is_held, serialized_size
from opsets.errors import ModelError, UsageError
from opsets.ordinary_files import check_ordinary
from qpasses.ir.model_nodes import nested_graphs

_PLACE_KEY = b"location"

_LONGEST = 4096
"""No system knows longer paths."""


def external_files(path: Path) -> list[Path]:
    """The files beside the model at ``path`` that hold its weights, if it has such.

    A model that nowhere holds the key of a place is not parsed, which takes as long as its
    weights are many.
    """
    try:
        check_ordinary(path)
        with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
            if content.find(_PLACE_KEY) < 0:
                return []
        model = onnx.load(path, format="protobuf", load_external_data=False)
    except (DecodeError, OSError, ValueError):
        return []  # read_model says what is wrong
    places = {_entries(tensor).get("location", "") for tensor in _external(model)}
    return sorted(path.parent / place for place in places if place)


def file_bytes(model: onnx.ModelProto, path: Path) -> int:
    """The bytes of the files of ``model``, read from ``path``; without any, of the model."""
    if not path.is_file():
        return serialized_size(model)
    return sum(each.stat().st_size for each in (path, *external_files(path)))


def check_external(model: onnx.ModelProto, path: Path) -> None:
    """Raise ModelError, naming file and tensor, for weights that are not where they should be.

    Files lie in the folder of ``path``, from which ``model`` was read, or below it, as it is
    named or where a link at ``path`` leads, as in the caches of model hubs.
    """
    for tensor in _external(model):
        _place(tensor, path)


def read_external(model: onnx.ModelProto, path: Path) -> None:
    """Put the weights of ``model``, which was read from ``path``, where it refers to them.

    But for those that are held. Raises ModelError as ``check_external`` does.
    """
    for tensor in _external(model):
        if is_held(tensor):
            continue
        file, first, count = _place(tensor, path)
        with file.open("rb") as stream:
            stream.seek(first)
            tensor.raw_data = stream.read(count)
        tensor.ClearField("data_location")
        tensor.ClearField("external_data")


def _external(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """The tensors whose numbers are in other files, those of functions too."""
    graphs = list(nested_graphs(model.graph))
    nodes = [node for graph in graphs for node in graph.node]
    nodes += [node for function in model.functions for node in function.node]
    tensors = [tensor for graph in graphs for tensor in graph.initializer]
    for sparse in (each for graph in graphs for each in graph.sparse_initializer):
        tensors += [sparse.values, sparse.indices]
    for attribute in (each for node in nodes for each in node.attribute):
        tensors += [attribute.t, *attribute.tensors]
    return (each for each in tensors if each.data_location == onnx.TensorProto.EXTERNAL)


def _entries(tensor: onnx.TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def _place(tensor: onnx.TensorProto, path: Path) -> tuple[Path, int, int]:
    """The file that holds the bytes of ``tensor``, the first of them, and how many."""
    entries, what = _entries(tensor), f"{path}: the weights {tensor.name!r}"
    place = entries.get("location", "")
    file = _checked_place(place, path, what)
    try:
        check_ordinary(file)
        with file.open("rb"):  # it may be read
            size = file.stat().st_size
    except OSError as error:
        raise UsageError(f"{what} are in {file}: {str(error.strerror).lower()}") from error
    start, length = (_number(entries, key, what) for key in ("offset", "length"))
    first = start or 0
    count = size - first if length is None else length
    if first + count > size or count < 0:
        end = "its end" if length is None else first + count
        raise ModelError(
            f"{what} are the bytes {first} to {end} of {place!r}, which has {size}: was it "
            "copied or downloaded whole?"
        )
    return file, first, count


def _checked_place(place: str, path: Path, what: str) -> Path:
    """The file called ``place``. Raises ModelError if it is none of the model's own."""
    if not place or len(place) > _LONGEST or "\0" in place:
        shown = f"a path of {len(place)} characters" if place else "a file without a name"
        raise ModelError(f"{what} are in {shown}: export the model again")
    file = path.parent / place
    roots = [path.parent.resolve(), path.resolve().parent]
    real = file.resolve()
    if Path(place).is_absolute() or not any(map(real.is_relative_to, roots)):
        raise ModelError(
            f"{what} are in {place!r}, which is not in the model's folder {roots[0]} or below "
            "it: copy the file there (a link has to stay in it), or save the model anew"
        )
    if not file.exists():
        raise ModelError(f"{what} are in a file that is missing: {file}: it belongs there")
    return file


def _number(entries: dict[str, str], key: str, what: str) -> int | None:
    """A count of bytes; None if it is not said."""
    text = entries.get(key)
    if text is None:
        return None
    if not text.isdecimal() or len(text) > 18:
        raise ModelError(f"{what} have an {key} of {text[:20]!r}, which is no number of bytes")
    return int(text)
