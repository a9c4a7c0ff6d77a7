"""Held weights: large constants lie beside a model, once for all copies of it.

A model of more than 2 GB is no message that protobuf can write, and each copy of one would
take its size in memory. So where weights are many, a model names its large ones (``held``),
and what they hold is found by that name: mapped from the file that they lie in, or an array.
"""

import mmap
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import ExternalDataInfo

HELD_FROM = 16 << 20
"""Weights of so many bytes are held."""

MANY = 256 << 20
"""Of weights of so many bytes there is no second copy, packed or freed and not given back."""

LARGE = 1 << 10
"""Of them those of more bytes: shapes and axes stay in the model."""

_PLACE = "held by qpasses: "

PLAIN = frozenset(
    {
        TensorProto.FLOAT,
        TensorProto.DOUBLE,
        TensorProto.INT8,
        TensorProto.UINT8,
        TensorProto.INT16,
        TensorProto.UINT16,
        TensorProto.INT32,
        TensorProto.INT64,
    }
)
"""Types whose elements fill whole bytes."""

_arrays: dict[str, NDArray[Any]] = {}
_names: dict[int, str] = {}
_maps: list[mmap.mmap] = []
_counts = [0]


@contextmanager
def holding() -> Iterator[None]:
    """While it lasts weights may be held; then those that were held meanwhile are let go."""
    arrays, maps = set(_arrays), len(_maps)
    try:
        yield
    finally:
        for place in _arrays.keys() - arrays:
            _names.pop(id(_arrays.pop(place)), None)
        del _maps[maps:]


def hold(name: str, values: NDArray[Any]) -> TensorProto:
    """A tensor that stands for ``values``, the same place for the same array."""
    if id(values) not in _names:
        _counts[0] += 1
        _names[id(values)] = f"{_PLACE}{_counts[0]}"
        _arrays[_names[id(values)]] = values
    kind = helper.np_dtype_to_tensor_dtype(values.dtype)
    shell = TensorProto(name=name, data_type=kind, dims=values.shape)
    shell.data_location = TensorProto.EXTERNAL
    shell.external_data.add(key="location", value=_names[id(values)])
    return shell


def tensor_of(name: str, values: NDArray[Any]) -> TensorProto:
    """``values``, held where others are and they are large."""
    if any_held() and can_be_held(values):
        return hold(name, values)
    return numpy_helper.from_array(values, name)


def can_be_held(values: NDArray[Any]) -> bool:
    """Whether ``values`` are many, of a type that is held."""
    return values.nbytes > LARGE and helper.np_dtype_to_tensor_dtype(values.dtype) in PLAIN


def is_large(tensor: TensorProto) -> bool:
    """Whether ``tensor`` has many elements, of a type that is held."""
    return tensor.data_type in PLAIN and size_of(tensor) > LARGE


def any_held() -> bool:
    """Whether there are held weights: then other large ones are held too."""
    return bool(_arrays)


def is_held(tensor: TensorProto) -> bool:
    """Whether ``tensor`` only names its values."""
    entries = tensor.external_data
    return len(entries) == 1 and entries[0].value in _arrays


def names_held(model: onnx.ModelProto) -> bool:
    """Whether some weights of ``model`` are held."""
    return any(map(is_held, model.graph.initializer))


def values_of(tensor: TensorProto) -> NDArray[Any]:
    """The values of a tensor of a model, held or not; held ones cannot be written to."""
    if is_held(tensor):
        return _arrays[tensor.external_data[0].value]
    values: NDArray[Any] = numpy_helper.to_array(tensor)
    return values


def size_of(tensor: TensorProto) -> int:
    """About so many bytes: four for each element."""
    return 4 * int(prod(tensor.dims))


def weight_bytes(model: onnx.ModelProto) -> int:
    """About how much the initializers of the main graph take."""
    return sum(map(size_of, model.graph.initializer))


def are_many(model: onnx.ModelProto) -> bool:
    """Whether its weights are so many that memory goes before time."""
    return weight_bytes(model) >= MANY


def with_held(model: onnx.ModelProto, folder: Path | None = None) -> onnx.ModelProto:
    """``model``, or where its weights are many a copy in which they are held.

    ``folder``: that of its external data, if it has any that are not loaded yet; where they
    are held they are mapped. Raises ValueError for files that do not hold what the model says.
    """
    many, made = weight_bytes(model) >= HELD_FROM, model
    kept = [_held_of(tensor, folder, many) for tensor in model.graph.initializer]
    if any(shell is not None for shell in kept):
        made = emptied(model)
        pairs = zip(model.graph.initializer, kept, strict=True)
        made.graph.initializer.extend(old if new is None else new for old, new in pairs)
    return made


def _held_of(tensor: TensorProto, folder: Path | None, many: bool) -> TensorProto | None:
    """``tensor`` as a name of its values, if it is large and its values can be held."""
    is_outside = tensor.data_location == TensorProto.EXTERNAL and not is_held(tensor)
    if not many or not is_large(tensor):
        return None
    dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    if is_outside and folder is not None:
        content = _mapped(tensor, folder, int(prod(tensor.dims)) * dtype.itemsize)
    elif len(tensor.raw_data) == int(prod(tensor.dims)) * dtype.itemsize and not is_outside:
        content = memoryview(tensor.raw_data)
    else:
        return None
    values = np.frombuffer(content, dtype).reshape(tuple(tensor.dims))
    return described_as(tensor, hold(tensor.name, values))


def described_as(tensor: TensorProto, shell: TensorProto) -> TensorProto:
    """``shell`` with what is said of ``tensor``."""
    if tensor.HasField("doc_string"):
        shell.doc_string = tensor.doc_string
    shell.metadata_props.extend(tensor.metadata_props)
    return shell


def _mapped(tensor: TensorProto, folder: Path, size: int) -> memoryview:
    """The bytes of a tensor in a file of ``folder``, read as they are asked for."""
    about = ExternalDataInfo(tensor)
    start = about.offset or 0
    with (folder / about.location).open("rb") as file:
        length = os.fstat(file.fileno()).st_size
        if about.length not in (None, size) or start + size > length:
            raise ValueError(
                f"tensor {tensor.name!r} of {size} bytes has {about.length or length - start} "
                f"in {about.location}"
            )
        page = start // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        whole_pages = start - page + size
        found = mmap.mmap(file.fileno(), whole_pages, access=mmap.ACCESS_READ, offset=page)
    _maps.append(found)
    return memoryview(found)[start - page :]


def unmap() -> None:
    """Let go of the pages of mapped weights: they come back when they are asked for."""
    for each in _maps:
        if hasattr(mmap, "MADV_DONTNEED"):
            each.madvise(mmap.MADV_DONTNEED)


def emptied(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of ``model`` without the initializers of its main graph, which are not copied."""
    made = onnx.ModelProto()
    for message, copy, left in (
        (model, made, "graph"),
        (model.graph, made.graph, "initializer"),
    ):
        for field, value in message.ListFields():
            if field.name != left:
                _put(copy, field, value)
    return made


def _put(message: Any, field: Any, value: Any) -> None:
    """Set a field of a protobuf message to what another one has in it."""
    if field.is_repeated:
        getattr(message, field.name).extend(value)
    elif field.message_type is not None:
        getattr(message, field.name).CopyFrom(value)
    else:
        setattr(message, field.name, value)


def hollow(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` for ONNX's checker: what is held stands there without values."""
    if not names_held(model):
        return model
    made = emptied(model)
    for tensor in model.graph.initializer:
        if is_held(tensor):
            none = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=[0])
            none.raw_data = b""
            made.graph.initializer.append(none)
        else:
            made.graph.initializer.append(tensor)
    return made


def let_go(model: onnx.ModelProto, others: Iterable[onnx.ModelProto]) -> None:
    """Forget the weights that ``model`` names and none of ``others`` does: it is loaded."""
    needed = {place for other in others for place in _places(other)}
    for place in _places(model) - needed:
        _names.pop(id(_arrays.pop(place)), None)


def _places(model: onnx.ModelProto) -> set[str]:
    return {t.external_data[0].value for t in model.graph.initializer if is_held(t)}


def materialized(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` with the values of what is held in it, one tensor after the other."""
    for tensor in filter(is_held, model.graph.initializer):
        _take_in(tensor)
    return model


def released(model: onnx.ModelProto) -> onnx.ModelProto:
    """``materialized``, and what was held is forgotten as it goes: nothing else needs it."""
    held = [tensor for tensor in model.graph.initializer if is_held(tensor)]
    places = [tensor.external_data[0].value for tensor in held]
    last = {place: index for index, place in enumerate(places)}
    for index, (tensor, place) in enumerate(zip(held, places, strict=True)):
        _take_in(tensor)
        unmap()
        if last[place] == index:
            _names.pop(id(_arrays.pop(place)), None)
    return model


def _take_in(tensor: TensorProto) -> None:
    values = values_of(tensor)
    tensor.ClearField("data_location")
    tensor.ClearField("external_data")
    tensor.raw_data = values.tobytes()


def whole(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model``, or a copy that holds its weights itself."""
    if not names_held(model):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return materialized(copy)


def tensors_of(model: onnx.ModelProto) -> Iterator[TensorProto]:
    """All constants of ``model``: initializers, sparse ones, attributes, those of bodies."""
    holders = [model.graph, *model.functions]
    for each in holders:
        if isinstance(each, onnx.GraphProto):
            yield from each.initializer
            for sparse in each.sparse_initializer:
                yield from (sparse.values, sparse.indices)
        for attribute in (one for node in each.node for one in node.attribute):
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            holders += [attribute.g] if attribute.HasField("g") else attribute.graphs


def serialized_parts(model: onnx.ModelProto) -> Iterator[bytes | memoryview]:
    """What ``model`` would be as bytes, its parts in order, its weights one at a time.

    They are as if they had been loaded: nothing says where they were.
    """
    sizes = [sum(map(len, _tensor_parts(tensor))) for tensor in model.graph.initializer]
    first, last = _around(model.graph, onnx.GraphProto(), "initializer")
    size = len(first) + len(last)
    size += sum(_size_of_field(_INITIALIZER, each) for each in sizes)
    head, tail = _around(model, onnx.ModelProto(), "graph")
    yield head + _key(_GRAPH) + _varint(size) + first
    for tensor, count in zip(model.graph.initializer, sizes, strict=True):
        yield _key(_INITIALIZER) + _varint(count)
        yield from _tensor_parts(tensor)
    yield last + tail


def serialized_size(model: onnx.ModelProto) -> int:
    """The bytes of ``model`` in one message, its weights included."""
    return sum(map(len, serialized_parts(model)))


_GRAPH = onnx.ModelProto.DESCRIPTOR.fields_by_name["graph"].number
_INITIALIZER = onnx.GraphProto.DESCRIPTOR.fields_by_name["initializer"].number
_RAW = TensorProto.DESCRIPTOR.fields_by_name["raw_data"].number


def _tensor_parts(tensor: TensorProto) -> Iterator[bytes | memoryview]:
    if not has_bytes(tensor) or tensor.HasField("segment"):
        plain = TensorProto()
        plain.CopyFrom(tensor)
        plain.ClearField("data_location")
        plain.ClearField("external_data")
        yield plain.SerializeToString(deterministic=True)
        return
    plain = TensorProto(data_type=tensor.data_type, dims=tensor.dims)
    if tensor.HasField("name"):
        plain.name = tensor.name
    yield plain.SerializeToString(deterministic=True)
    content = content_of(tensor)
    yield _key(_RAW) + _varint(len(content))
    yield content
    yield described_as(tensor, TensorProto()).SerializeToString(deterministic=True)


def has_bytes(tensor: TensorProto) -> bool:
    """Whether ``tensor`` is held, or has its values as bytes."""
    return is_held(tensor) or tensor.HasField("raw_data")


def content_of(tensor: TensorProto) -> bytes | memoryview:
    """Of a tensor that ``has_bytes``, these."""
    if not is_held(tensor):
        return bytes(tensor.raw_data)
    return np.ascontiguousarray(values_of(tensor)).reshape(-1).view(np.uint8).data


def _around(message: Any, kind: Any, name: str) -> tuple[bytes, bytes]:
    """The bytes of the fields before and behind the field ``name``: they come by number."""
    number, found = message.DESCRIPTOR.fields_by_name[name].number, []
    for is_before in (True, False):
        part = type(kind)()
        for field, value in message.ListFields():
            if field.number != number and (field.number < number) is is_before:
                _put(part, field, value)
        found.append(part.SerializeToString(deterministic=True))
    return found[0], found[1]


def _size_of_field(number: int, size: int) -> int:
    return len(_key(number)) + len(_varint(size)) + size


def _key(number: int) -> bytes:
    """The tag of a field that says its length."""
    return _varint(number << 3 | 2)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
