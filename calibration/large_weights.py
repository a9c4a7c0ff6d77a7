"""Weights beside a model, in a file that onnxruntime maps into memory instead of copying."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import EncodeError
from onnx import TensorProto

from calibration.held_weights import emptied, is_held, is_large, size_of, values_of
from opsets.errors import ModelError, UsageError

MUCH = 16 << 20
"""Weights of so many bytes are worth some trouble to keep them in memory but once."""


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
                place["length"] = str(stream.write(_content(tensor)))
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
    rest, large = emptied(model), []
    for tensor in model.graph.initializer:
        if is_held(tensor) or (is_large(tensor) and tensor.HasField("raw_data")):
            large.append(tensor)
        else:
            rest.graph.initializer.append(tensor)
    return rest, large


def _content(tensor: onnx.TensorProto) -> bytes | memoryview:
    """Of a tensor that is held or holds bytes."""
    if not is_held(tensor):
        return bytes(tensor.raw_data)
    return np.ascontiguousarray(values_of(tensor)).reshape(-1).view(np.uint8).data
