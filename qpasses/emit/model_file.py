"""The file of a model, and where its weights are: in it, or in a file beside it."""

from collections.abc import Mapping
from pathlib import Path

import onnx

from calibration.held_weights import (
    HELD_FROM,
    names_held,
    serialized_parts,
    serialized_size,
    weight_bytes,
)
from calibration.large_weights import alone, weights_apart, without_weights_apart
from qpasses.emit.whole_files import Content

LARGEST = (2 << 30) - 1
"""The bytes that one message of protobuf may have."""


def weights_place(
    model: onnx.ModelProto, output: str | Path | None, apart: bool
) -> Path | None:
    """Where the weights of ``model`` go, if not into ``output``: model.onnx.data beside it.

    ``apart``: also where they need not.
    """
    if output is None or not (apart or _is_too_large(model)):
        return None
    return _beside(Path(output))


def _is_too_large(model: onnx.ModelProto) -> bool:
    """Whether one message does not hold it."""
    is_small = weight_bytes(model) < HELD_FROM and not names_held(model)
    return (model.ByteSize() if is_small else serialized_size(model)) > LARGEST


def expected_place(
    source: onnx.ModelProto, output: str | Path | None, apart: bool
) -> Path | None:
    """``weights_place``, as far as it follows from what the model is made of."""
    if output is None or not (apart or weight_bytes(source) > LARGEST):
        return None
    return _beside(Path(output))


def _beside(output: Path) -> Path:
    return output.parent / f"{output.name}.data"


def too_large(weights: Path | None, apart: bool) -> list[str]:
    """What to know of weights that are in a file of their own without being asked for it."""
    if weights is None or apart:
        return []
    return [
        f"the model is larger than 2 GB: its weights are in {weights.name} beside it, keep "
        "both files together"
    ]


def model_files(
    model: onnx.ModelProto, output: Path, weights: Path | None
) -> Mapping[Path, Content]:
    """What is in the file of ``model``, and in that of its ``weights`` if they have one.

    Raises ModelError, naming ``output``, for one that is too large even without them.
    """
    if weights is not None:
        rest = without_weights_apart(model, weights.name)
        return {weights: weights_apart(model), output: [alone(rest, f"{output}: the model")]}
    if names_held(model):
        return {output: serialized_parts(model)}
    return {output: [model.SerializeToString(deterministic=True)]}
