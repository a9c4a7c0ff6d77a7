"""Weights beside a model, in a file that onnxruntime maps into memory instead of copying."""

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import EncodeError
from onnx import TensorProto

from opsets.errors import ModelError, UsageError

MUCH = 16 << 20
"""Weights of so many bytes are worth some trouble to keep them in memory but once."""

_LARGE_BYTES = 1024
"""Smaller tensors stay in the model: shapes and axes must be known when it is loaded."""

_PLAIN = frozenset(
    {
        TensorProto.FLOAT,
        TensorProto.DOUBLE,
        TensorProto.INT8,
        TensorProto.UINT8,
        TensorProto.INT32,
        TensorProto.INT64,
    }
)
"""Types whose elements fill whole bytes."""


def weight_bytes(model: onnx.ModelProto) -> int:
    """About how much the initializers of the main graph take."""
    return sum(_bytes(tensor) for tensor in model.graph.initializer)


def _bytes(tensor: TensorProto) -> int:
    """About so many: four for each element."""
    return 4 * int(prod(tensor.dims))


def save_apart(
    model: onnx.ModelProto, folder: Path, outputs: Sequence[onnx.ValueInfoProto] = ()
) -> Path:
    """Write ``model`` and, beside it, its large weights into ``folder``: the model's path.

    With ``outputs``, if there are any, instead of its own. ``model`` stays as it is, and its
    weights are copied one at a time. Raises ModelError for what is still too large, UsageError
    if the disk refuses.
    """
    rest, large = _split(model)
    if outputs:
        del rest.graph.output[:]
        rest.graph.output.extend(outputs)
    path, weights = folder / "model.onnx", folder / "model.weights"
    try:
        with weights.open("wb") as stream:
            for tensor in large:
                shell = rest.graph.initializer.add(
                    name=tensor.name, data_type=tensor.data_type, dims=tensor.dims
                )
                shell.data_location = TensorProto.EXTERNAL
                place = {"location": weights.name, "offset": str(stream.tell())}
                place["length"] = str(stream.write(tensor.raw_data))
                for key, value in place.items():
                    shell.external_data.add(key=key, value=value)
        path.write_bytes(rest.SerializeToString())
    except EncodeError as error:
        raise ModelError("the model without its weights is larger than 2 GB") from error
    except OSError as error:
        raise no_room(folder, error) from error
    return path


def no_room(folder: Path, error: OSError) -> UsageError:
    """What to say where temporary files cannot be written."""
    return UsageError(
        f"{folder}: temporary files cannot be written: {error.strerror} "
        "(TMPDIR names another place)"
    )


def _split(model: onnx.ModelProto) -> tuple[onnx.ModelProto, list[onnx.TensorProto]]:
    """A copy of ``model`` without its large weights, and these, which are not copied."""
    rest, large = onnx.ModelProto(), []
    for field, value in model.ListFields():
        if field.name != "graph":
            _put(rest, field, value)
    for field, value in model.graph.ListFields():
        if field.name != "initializer":
            _put(rest.graph, field, value)
    for tensor in model.graph.initializer:
        plain = tensor.data_type in _PLAIN and tensor.HasField("raw_data")
        if plain and _bytes(tensor) > _LARGE_BYTES:
            large.append(tensor)
        else:
            rest.graph.initializer.append(tensor)
    return rest, large


def _put(message: Any, field: Any, value: Any) -> None:
    """Set a field of a protobuf message to what another one has in it."""
    if field.is_repeated:
        getattr(message, field.name).extend(value)
    elif field.message_type is not None:
        getattr(message, field.name).CopyFrom(value)
    else:
        setattr(message, field.name, value)
