"""What a model takes, and whether a feed fits it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray

from opsets.errors import DataError, ModelError

Value: TypeAlias = NDArray[Any] | list[NDArray[Any]] | None
"""What an input takes: a tensor; a sequence of them; or nothing, where it is optional."""

Arrays = dict[str, Value]
"""Values by input name, as they were found."""

Feed = Mapping[str, Value]
"""Values by input name that fit the model."""

Holds = Literal["tensor", "sequence", "optional tensor", "optional sequence"]


LOWEST = np.float32(-(2.0**100))
"""What drops a score wherever it is added."""


@dataclass(frozen=True)
class InputSpec:
    """A graph input: name, numpy type, and shape with None where a dimension is free.

    Of what is no tensor, or may be absent, the type alone is known: that of all its elements.
    ``is_fixed``: the user has fixed free ones. ``drops``: it is a mask, whose minus infinity
    is taken for ``LOWEST``, which drops as well and can be summed.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | None, ...]
    holds: Holds = "tensor"
    is_fixed: bool = False
    drops: bool = False

    @property
    def is_optional(self) -> bool:
        """Whether it may be absent."""
        return self.holds.startswith("optional")

    @property
    def is_sequence(self) -> bool:
        """Whether it takes a list of arrays."""
        return self.holds.endswith("sequence")

    @property
    def advice(self) -> str:
        """How to fix the sizes that are free, but for a batch of 1."""
        first, *others = ["?" if size is None else str(size) for size in self.shape]
        sizes = ",".join(["1" if first == "?" else first, *others])
        return f"--input-shape {self.name}:{sizes}, numbers for ?"

    def __str__(self) -> str:
        if self.holds != "tensor":
            return f"{self.name!r}: {self.holds} of {self.dtype}"
        sizes = ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.name!r}: {self.dtype}[{sizes}]"


def tensors(feed: Feed) -> dict[str, NDArray[Any]]:
    """The inputs of ``feed`` that are given tensors."""
    return {name: value for name, value in feed.items() if isinstance(value, np.ndarray)}


def elements(value: Value) -> list[NDArray[Any]]:
    """The tensors that a value holds."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def input_specs(model: onnx.ModelProto, is_fixed: bool = False) -> list[InputSpec]:
    """The inputs a feed must give (initializers listed as inputs are not among them).

    ``is_fixed``: their sizes are what the user wants.
    """
    given = {tensor.name for tensor in model.graph.initializer}
    specs = []
    for value in model.graph.input:
        if value.name in given:
            continue
        specs.append(_input_spec(value, is_fixed))
    return specs


def _input_spec(value: onnx.ValueInfoProto, is_fixed: bool) -> InputSpec:
    kind, holds = _inner(value.type)
    tensor = kind.tensor_type
    if not tensor.elem_type:
        raise ModelError(
            f"input {value.name!r} holds no tensors (a map, or sequences of sequences): such "
            "models cannot be fed"
        )
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    if holds != "tensor":
        return InputSpec(value.name, dtype, (), holds)
    if not tensor.HasField("shape"):
        raise ModelError(
            f"input {value.name!r} has no shape, not even a number of dimensions: say it with "
            f"--input-shape {value.name}:1,3,224,224"
        )
    dims = [
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None
        for dim in tensor.shape.dim
    ]
    return InputSpec(value.name, dtype, tuple(dims), is_fixed=is_fixed)


def _inner(kind: onnx.TypeProto) -> tuple[onnx.TypeProto, Holds]:
    """The type of the tensors, and what holds them."""
    is_optional = kind.HasField("optional_type")
    if is_optional:
        kind = kind.optional_type.elem_type
    if kind.HasField("sequence_type"):
        inner = kind.sequence_type.elem_type
        return inner, "optional sequence" if is_optional else "sequence"
    return kind, "optional tensor" if is_optional else "tensor"


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
    needed = {spec.name for spec in specs if not spec.is_optional}
    listed = "; ".join(map(str, specs))
    for extra in sorted(arrays.keys() - expected, key=str):
        raise DataError(
            f"{where}: the model has no input {extra!r}: leave that array out ({listed})"
        )
    for missing in sorted(needed - arrays.keys()):
        raise DataError(f"{where}: no array for input {missing!r} (inputs: {listed})")


def fitted(arrays: Feed, specs: Sequence[InputSpec], where: str) -> Feed:
    """What fits for each input; DataError, naming ``where`` and input, if nothing does."""
    check_names(arrays, specs, where)
    return {spec.name: fitted_value(arrays.get(spec.name), spec, where) for spec in specs}


def fitted_value(value: Value, spec: InputSpec, where: str) -> Value:
    """``value`` as the input takes it; an array for a sequence holds its elements."""
    if value is None and spec.is_optional:
        return None
    if spec.is_sequence and value is not None:
        return [_of_type(each, spec, where) for each in value]
    if not isinstance(value, np.ndarray):
        given = "nothing" if value is None else "a list"
        raise DataError(f"{where}: input {spec.name!r} is given {given}, it takes {spec}")
    if spec.is_optional:
        return _of_type(value, spec, where)
    return fitted_array(value, spec, where)


_NARROWER: Mapping[Any, Sequence[Any]] = {
    np.dtype(np.float32): [np.dtype(np.float16)],
    np.dtype(np.float64): [np.dtype(np.float16), np.dtype(np.float32)],
}
"""By the type of an input, those that are widened to it."""


def _of_type(array: NDArray[Any], spec: InputSpec, where: str) -> NDArray[Any]:
    if array.dtype in _NARROWER.get(spec.dtype, ()):  # every number is the same
        array = array.astype(spec.dtype)
    if array.dtype.kind == "U" and spec.dtype == np.dtype(object):  # as numpy.save has texts
        array = array.astype(object)
    if array.dtype != spec.dtype:
        raise DataError(
            f"{where}: input {spec.name!r} is {array.dtype}, the model takes {spec.dtype}"
            f"{_advice(array, spec)}"
        )
    return array


def fitted_array(array: NDArray[Any], spec: InputSpec, where: str) -> NDArray[Any]:
    """``array`` as the input takes it: a batch of 1 is put before it, halves are widened."""
    if array.ndim == len(spec.shape) - 1:
        array = array[None]
    array = _of_type(array, spec, where)
    fits = array.ndim == len(spec.shape) and all(
        want is None or want == have
        for want, have in zip(spec.shape, array.shape, strict=True)
    )
    if not fits:
        raise DataError(
            f"{where}: input {spec.name!r} has shape {list(array.shape)}, the "
            f"model takes {spec}{', as --input-shape says' if spec.is_fixed else ''}"
        )
    return np.where(np.isneginf(array), LOWEST, array) if spec.drops else array


def _advice(array: NDArray[Any], spec: InputSpec) -> str:
    """How numpy makes one type of the other, where both are numbers of numpy's own."""
    if not all(each.kind in "fiub" and each.isbuiltin for each in (array.dtype, spec.dtype)):
        return ""
    return f" (numpy: .astype(np.{spec.dtype}))"


def check_finite(feed: Feed, where: str, unbounded: Collection[str]) -> None:
    """Raise DataError, naming ``where`` and input, for one that must be finite and is not."""
    for name, value in feed.items():
        if name not in unbounded and not all(map(_is_finite, elements(value))):
            raise DataError(f"{where}: input {name!r} holds NaN or infinite values")


def _is_finite(array: NDArray[Any]) -> bool:
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())
