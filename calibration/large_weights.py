"""Weights beside a model, in a file that onnxruntime maps into memory instead of copying."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import onnx
from google.protobuf.message import EncodeError
from onnx import TensorProto

from calibration.held_weights import (
    content_of,
    described_as,
    emptied,
    has_bytes,
    is_held,
    is_large,
    size_of,
)
from opsets.errors import ModelError, UsageError

MUCH = 16 << 20
"""Weights of so many bytes are worth some trouble to keep them in memory but once."""

_PAGE = 4096
"""Weights begin at multiples of it, as ONNX asks of what is to be mapped."""


def weight_bytes(model: onnx.ModelProto) -> int:
    """About how much the initializers of the main graph take."""
    return sum(size_of(tensor) for tensor in model.graph.initializer)


def save_apart(
    model: onnx.ModelProto, folder: Path, outputs: Sequence[onnx.ValueInfoProto] = ()
) -> Path:
    """Write ``model`` and, beside it, its large weights into ``folder``: the model's path.

    With ``outputs``, if there are any, instead of its own. ``model`` stays as it is, and its
    weights are copied one at a time. Raises ModelError for what is still too large, UsageError
    if the disk refuses.
    """
    path, weights = folder / "model.onnx", folder / "model.weights"
    rest = without_weights_apart(model, weights.name)
    if outputs:
        del rest.graph.output[:]
        rest.graph.output.extend(outputs)
    try:
        with weights.open("wb") as stream:
            stream.writelines(weights_apart(model))
        path.write_bytes(alone(rest))
    except OSError as error:
        raise no_room(folder, error) from error
    return path


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
