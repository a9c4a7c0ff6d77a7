"""ONNX's types, tensors and attributes as MLIR's."""

from math import prod

import numpy as np
from onnx import AttributeProto, TensorProto, TypeProto, helper

from calibration.held_weights import values_of
from qpasses.emit import mlir

_LISTED = 100
"""Tensors of more elements are bytes in hex, as in what MLIR prints itself."""

UNKNOWN = "!onnx.Unknown"
"""The type where none is known."""


def attribute(given: AttributeProto, largest: int | None) -> str:
    """An attribute that holds no graph; tensors as ``dense`` writes them."""
    match given.type:
        case AttributeProto.FLOAT:
            return f"{_float32(given.f)} : f32"
        case AttributeProto.INT:
            return mlir.number(given.i, "i64")
        case AttributeProto.STRING:
            return mlir.text(given.s)
        case AttributeProto.TENSOR:
            return dense(given.t, largest)
        case AttributeProto.TYPE_PROTO:
            return value_type(given.tp)
        case AttributeProto.FLOATS:
            return mlir.array(map(_float32, given.floats), "f32")
        case AttributeProto.INTS:
            return mlir.integers(given.ints)
    tensors = (dense(each, largest) for each in given.tensors)
    types = map(value_type, given.type_protos)
    return mlir.several([*map(mlir.text, given.strings), *tensors, *types])


def _float32(value: float) -> str:
    return mlir.real(np.float32(value))


def dense(tensor: TensorProto, largest: int | None) -> str:
    """What ``tensor`` holds, elided where that are more than ``largest`` elements."""
    if largest is not None and prod(tensor.dims) > largest:
        return f"dense_resource<__elided__> : {tensor_type(tensor)}"
    if tensor.data_type == TensorProto.STRING:
        texts = np.array(list(tensor.string_data), object)
        return mlir.dense(texts.reshape(tuple(tensor.dims)))
    return mlir.dense(values_of(tensor), _LISTED)


def tensor_type(tensor: TensorProto) -> str:
    """The type of a constant."""
    return mlir.tensor(tensor.dims, _element(tensor.data_type))


def value_type(kind: TypeProto) -> str:
    """The type of a value, ``UNKNOWN`` where the model does not say it."""
    match kind.WhichOneof("value"):
        case "sequence_type":
            return f"!onnx.Seq<{value_type(kind.sequence_type.elem_type)}>"
        case "optional_type":
            return f"!onnx.Opt<{value_type(kind.optional_type.elem_type)}>"
        case "map_type":
            inner = value_type(kind.map_type.value_type)
            return f"!onnx.Map<{_element(kind.map_type.key_type)}, {inner}>"
        case "tensor_type" if kind.tensor_type.elem_type:
            return _known_tensor(kind.tensor_type)
    return UNKNOWN


def _known_tensor(kind: TypeProto.Tensor) -> str:
    element = _element(kind.elem_type)
    if not kind.HasField("shape"):
        return mlir.tensor("*", element)
    sizes = [each.dim_value if each.HasField("dim_value") else "?" for each in kind.shape.dim]
    return mlir.tensor(sizes, element)


def _element(kind: int) -> str:
    return mlir.ELEMENTS[helper.tensor_dtype_to_np_dtype(kind).name]
