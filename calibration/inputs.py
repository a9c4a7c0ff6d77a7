"""What a model takes, and whether a feed fits it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from opsets.errors import DataError, ModelError

Arrays = dict[str, NDArray[Any]]
"""Arrays by input name, as they were found."""

Feed = Mapping[str, NDArray[Any]]
"""Arrays by input name that fit the model."""


@dataclass(frozen=True)
class InputSpec:
    """A graph input: name, numpy type, and shape with None where a dimension is free."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | None, ...]

    def __str__(self) -> str:
        sizes = ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.name!r}: {self.dtype}[{sizes}]"


def input_specs(model: onnx.ModelProto) -> list[InputSpec]:
    """The inputs a feed must give (initializers listed as inputs are not among them)."""
    given = {tensor.name for tensor in model.graph.initializer}
    specs = []
    for value in model.graph.input:
        if value.name in given:
            continue
        tensor = value.type.tensor_type
        if not tensor.elem_type:
            raise ModelError(
                f"input {value.name!r} is not a tensor: such models cannot be fed"
            )
        dims = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        specs.append(InputSpec(value.name, dtype, tuple(dims)))
    return specs


def only_input(specs: Sequence[InputSpec], where: str, instead: str) -> InputSpec:
    """The input that data without input names are for; DataError if it is not the only one."""
    if not specs:
        raise DataError(f"{where}: the model has no inputs to feed")
    if len(specs) > 1:
        names = ", ".join(repr(spec.name) for spec in specs)
        raise DataError(f"{where}: the model has {len(specs)} inputs ({names}): use {instead}")
    return specs[0]


def check_names(arrays: Feed, specs: Sequence[InputSpec], where: str) -> None:
    """Raise DataError if there is an array too many or too few."""
    expected = {spec.name for spec in specs}
    listed = "; ".join(map(str, specs))
    for extra in sorted(arrays.keys() - expected, key=str):
        raise DataError(
            f"{where}: the model has no input {extra!r}: leave that array out ({listed})"
        )
    for missing in sorted(expected - arrays.keys()):
        raise DataError(f"{where}: no array for input {missing!r} (inputs: {listed})")


def fitted(arrays: Feed, specs: Sequence[InputSpec], where: str) -> Feed:
    """One array that fits for each input; DataError, naming ``where`` and input, if not."""
    check_names(arrays, specs, where)
    return {spec.name: fitted_array(arrays[spec.name], spec, where) for spec in specs}


def fitted_array(array: NDArray[Any], spec: InputSpec, where: str) -> NDArray[Any]:
    """``array`` as the input takes it: only a batch dimension of 1 is put before it."""
    if array.ndim == len(spec.shape) - 1:
        array = array[None]
    if array.dtype != spec.dtype:
        raise DataError(
            f"{where}: input {spec.name!r} is {array.dtype}, the model takes {spec.dtype}"
            f" (numpy: .astype(np.{spec.dtype}))"
        )
    fits = array.ndim == len(spec.shape) and all(
        want is None or want == have
        for want, have in zip(spec.shape, array.shape, strict=True)
    )
    if not fits:
        raise DataError(
            f"{where}: input {spec.name!r} has shape {list(array.shape)}, the "
            f"model takes {spec}"
        )
    return array


def check_finite(feed: Feed, where: str, unbounded: Collection[str]) -> None:
    """Raise DataError, naming ``where`` and input, for one that must be finite and is not."""
    for name, array in feed.items():
        if array.dtype.kind == "f" and name not in unbounded and not np.isfinite(array).all():
            raise DataError(f"{where}: input {name!r} holds NaN or infinite values")
