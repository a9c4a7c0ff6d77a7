"""Weights beside a model: in a file, or in memory that onnxruntime reads where it is."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import EncodeError
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper

from calibration.held_weights import (
    content_of,
    described_as,
    emptied,
    has_bytes,
    is_held,
    is_large,
    names_held,
    values_of,
    weight_bytes,
)
from opsets.errors import ModelError, UsageError

_IN_MEMORY = "memory"
"""Where weights are said to be that are handed over with their model."""

_MUCH = 1 << 20
"""Weights of so many bytes are worth some trouble not to be copied."""

_PAGE = 4096
"""Weights begin at multiples of it, as ONNX asks of what is to be mapped."""


def handed_over(
    model: onnx.ModelProto, outputs: Sequence[onnx.ValueInfoProto] = ()
) -> tuple[bytes, dict[str, NDArray[Any]]]:
    """``model`` as a message without its large weights, and these, by name, if they are many.

    With ``outputs``, if there are any, instead of its own. ``model`` stays as it is; weights
    that are held are not copied, those that nothing reads left out. Raises ModelError for
    what is still too large.
    """
    is_small = weight_bytes(model) < _MUCH and not names_held(model)
    if is_small and not outputs:
        return alone(model), {}
    rest = _without_weights(model, _IN_MEMORY, outputs)
    weights = {t.name: values_of(t) for t in model.graph.initializer if _is_apart(t)}
    needed = {*names_read(rest.graph.node), *(value.name for value in rest.graph.output)}
    inputs = {value.name for value in rest.graph.input}  # they may be given, or not
    for place in reversed(range(len(rest.graph.initializer))):
        name = rest.graph.initializer[place].name
        if name in weights and name not in needed:  # onnxruntime would look for it in vain
            values = weights.pop(name)
            if name in inputs:
                whole = numpy_helper.from_array(values, name)
                rest.graph.initializer[place].CopyFrom(whole)
            else:
                del rest.graph.initializer[place]
    return alone(rest), weights


def held_in_place(model: onnx.ModelProto) -> dict[str, NDArray[Any]]:
    """By name, the values that ``model`` holds and kernels can read where they are."""
    held = {t.name: values_of(t) for t in model.graph.initializer if is_held(t)}
    flags = {name: values.flags for name, values in held.items()}
    return {n: held[n] for n, each in flags.items() if each.c_contiguous and each.aligned}


def of_products(model: onnx.ModelProto) -> set[str]:
    """The weights that nothing but products of matrices and convolutions reads.

    onnxruntime's optimizer turns the axes of others, under the name that they have: whoever
    shares the values of that name with a session gives it the old ones. Those of a quantized
    product are behind a DequantizeLinear.
    """
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in model.graph.node:
        for name in names_read([node]):
            readers.setdefault(name, []).append(node)

    def is_safe(name: str) -> bool:
        for node in readers.get(name, []):
            is_first = name in [*node.input][:1]
            if node.op_type == "DequantizeLinear" and is_first and is_safe(node.output[0]):
                continue
            if node.domain or node.op_type not in _PRODUCTS or name not in node.input[1:2]:
                return False
        return True

    given = {value.name for value in model.graph.output}
    return {t.name for t in model.graph.initializer if t.name not in given and is_safe(t.name)}


_PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


def put_apart(
    model: onnx.ModelProto, folder: Path, outputs: Sequence[onnx.ValueInfoProto] = ()
) -> Path:
    """Write ``model`` and, beside it, its large weights into ``folder``: the model's path.

    onnxruntime maps the weights, of which it copies those that it is handed. With
    ``outputs`` as above; weights are written one at a time. Raises ModelError for what is
    still too large, UsageError if the disk refuses.
    """
    path, weights = folder / "model.onnx", folder / "model.weights"
    rest = alone(_without_weights(model, weights.name, outputs))
    try:
        with weights.open("wb") as stream:
            stream.writelines(weights_apart(model))
        path.write_bytes(rest)
    except OSError as error:
        raise no_room(folder, error) from error
    return path


def _without_weights(
    model: onnx.ModelProto, location: str, outputs: Sequence[onnx.ValueInfoProto]
) -> onnx.ModelProto:
    rest = without_weights_apart(model, location)
    if outputs:
        del rest.graph.output[:]
        rest.graph.output.extend(outputs)
    return rest


def names_read(nodes: Iterable[onnx.NodeProto]) -> list[str]:
    """What nodes and their subgraphs read, each once; some of it may be a subgraph's own."""
    names: dict[str, None] = {}
    for node in nodes:
        names.update(dict.fromkeys(name for name in node.input if name))
        for attribute in node.attribute:
            if attribute.type not in GRAPHS:
                continue
            for graph in [attribute.g, *attribute.graphs]:
                names.update(dict.fromkeys(names_read(graph.node)))
                names.update(dict.fromkeys(value.name for value in graph.output))
    return list(names)


GRAPHS = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
"""Types of attributes that hold nodes."""


def without_weights_apart(model: onnx.ModelProto, location: str) -> onnx.ModelProto:
    """A copy of ``model`` that says of its large weights where they are: in ``location``.

    Which holds ``weights_apart``.
    """
    rest, end = emptied(model), 0
    for tensor in model.graph.initializer:
        if not _is_apart(tensor):
            rest.graph.initializer.append(tensor)
            continue
        shell = rest.graph.initializer.add(
            name=tensor.name, data_type=tensor.data_type, dims=tensor.dims
        )
        described_as(tensor, shell)
        shell.data_location = TensorProto.EXTERNAL
        start, length = end + _gap(end), len(content_of(tensor))
        place = {"location": location, "offset": str(start), "length": str(length)}
        for key, value in place.items():
            shell.external_data.add(key=key, value=value)
        end = start + length
    return rest


def weights_apart(model: onnx.ModelProto) -> Iterator[bytes | memoryview]:
    """The large weights of ``model``, one at a time, and what lies between them."""
    end = 0
    for tensor in filter(_is_apart, model.graph.initializer):
        yield bytes(_gap(end))
        content = content_of(tensor)
        yield content
        end += _gap(end) + len(content)


def _gap(end: int) -> int:
    return -end % _PAGE


def _is_apart(tensor: TensorProto) -> bool:
    """Whether a tensor is held, or large and holds bytes."""
    return is_held(tensor) or (is_large(tensor) and has_bytes(tensor))


def alone(rest: onnx.ModelProto, called: str = "the model") -> bytes:
    """``rest``, what is left of a model without its large weights, as one message.

    Raises ModelError, saying what it is ``called``, if it is too large for that.
    """
    try:
        content: bytes = rest.SerializeToString(deterministic=True)
    except EncodeError as error:
        raise ModelError(f"{called} without its weights is larger than 2 GB") from error
    return content


def no_room(folder: Path, error: OSError) -> UsageError:
    """What to say where temporary files cannot be written."""
    return UsageError(
        f"{folder}: temporary files cannot be written: {error.strerror} "
        "(TMPDIR names another place)"
    )
