"""Reading a model, and refusing what the toolkit cannot treat before any work is done."""

import hashlib
import json
from collections.abc import Iterator
from math import prod
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError, Message

from calibration.held_weights import (
    HELD_FROM,
    hollow,
    names_held,
    serialized_parts,
    values_of,
    weight_bytes,
    with_held,
)
from opsets.errors import ModelError, UsageError
from opsets.op import DOMAIN
from opsets.ordinary_files import check_ordinary
from qpasses.ir.model_nodes import is_simplified, nested_graphs, nodes_of
from qpasses.load.external_data import check_external, read_external
from qpasses.load.foreign.qonnx_nodes import DOMAINS as QONNX_DOMAINS
from qpasses.load.leniency import completed
from qpasses.load.refusals import invalid, unreadable


def read_model(path: Path, lenient: bool = False) -> onnx.ModelProto:
    """The model at ``path``, external data included.

    ``lenient``: what runtimes do without may be missing, as in ``checked_model``.

    Raises UsageError if there is no such file, ModelError if it is no valid ONNX model.
    """
    try:
        check_ordinary(path)
        if path.is_dir():
            raise UsageError(f"{path}: is a folder, a model file is needed")
        model = onnx.load(path, format="protobuf", load_external_data=False)
    except FileNotFoundError as error:
        what = "is a link to a file that is not there" if path.is_symlink() else "no such file"
        raise UsageError(f"{path}: {what}") from error
    except OSError as error:
        raise UsageError(f"{path}: {str(error.strerror).lower()}") from error
    except (DecodeError, ValueError) as error:
        raise unreadable(path, error) from error
    if not model.HasField("graph"):
        raise unreadable(path, ValueError("it holds no graph"))
    check_external(model, path)
    try:
        model = with_held(model, path.parent)
    except ValueError as error:
        raise ModelError(f"{path}: {error}") from error
    read_external(model, path)
    return checked_model(model, path, lenient)


def checked_model(
    model: onnx.ModelProto, path: Path, lenient: bool = False
) -> onnx.ModelProto:
    """``model``, called ``path`` in messages; raises ModelError if it is no valid ONNX.

    ``lenient``: what runtimes do without is completed.
    """
    if lenient:
        model = completed(model)
    try:
        _check(hollow(model))
    except (onnx.checker.ValidationError, ValueError) as error:
        raise invalid(path, error) from error
    return model


def _check(model: onnx.ModelProto) -> None:
    """ONNX's checker; as in runtimes, initializers need not be inputs even in IR 3.

    Nor does it know SIMPLIFIED, which onnxruntime has in the domain of ONNX, or accept
    GroupNormalization below opset 21, which is deprecated and runs. Exporters of QONNX leave
    out the import of its domain.
    """
    _check_parts(model)
    old = any(each.domain == "" and each.version < 21 for each in model.opset_import)
    unknown = [
        node
        for node in nodes_of(model)
        if is_simplified(node) or (old and node.op_type == "GroupNormalization")
    ]
    nameless = [node for node in nodes_of(model) if not node.name and node.output]
    shapeless = [value.type.tensor_type for value in _edges(model) if _is_shapeless(value)]
    version, imports = model.ir_version, list(model.opset_import)
    model.ir_version = max(version, 4)
    try:
        for kind in shapeless:
            kind.shape.SetInParent()
        for node in nameless:  # errors have to call it something
            node.name = next(iter(node.output))
        for node in unknown:
            node.domain = DOMAIN
        if unknown and DOMAIN not in [each.domain for each in imports]:
            model.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))
        imported = {each.domain for each in model.opset_import}
        missing = {node.domain for node in nodes_of(model)} & {*QONNX_DOMAINS} - imported
        model.opset_import.extend(onnx.helper.make_opsetid(each, 1) for each in missing)
        onnx.checker.check_model(model)
    finally:
        for kind in shapeless:
            kind.ClearField("shape")
        for node in nameless:
            node.ClearField("name")
        for node in unknown:
            node.domain = ""
        del model.opset_import[len(imports) :]
        model.ir_version = version


def _edges(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    return [*model.graph.input, *model.graph.output]


def _is_shapeless(value: onnx.ValueInfoProto) -> bool:
    """Whether it is a tensor of which not even the rank is said, as runtimes accept it."""
    kind = value.type
    return kind.HasField("tensor_type") and not kind.tensor_type.HasField("shape")


def _check_parts(part: Message) -> None:
    """Raise ValueError for texts that are none, and for tensors of other sizes than they say.

    ONNX's checker lets both pass.
    """
    if isinstance(part, onnx.TensorProto) and part.HasField("raw_data"):
        count, size = prod(part.dims), _SIZES.get(part.data_type)
        if size is not None and len(part.raw_data) != count * size:
            raise ValueError(
                f"tensor {part.name!r} of {count} numbers has {len(part.raw_data)} bytes"
            )
    if isinstance(part, onnx.AttributeProto):
        for text in (part.s, *part.strings):
            text.decode("utf-8")
    for field, value in part.ListFields():
        if field.type not in (field.TYPE_STRING, field.TYPE_MESSAGE):
            continue
        for each in [value] if isinstance(value, str | bytes | Message) else value:
            if isinstance(each, Message):
                _check_parts(each)
            elif isinstance(each, bytes):  # what is not UTF-8
                raise ValueError(f"{part.DESCRIPTOR.name}.{field.name} is no text: {each!r}")


_SIZES = {
    kind: onnx.helper.tensor_dtype_to_np_dtype(kind).itemsize
    for name, kind in onnx.TensorProto.DataType.items()
    if name in {*("FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "BOOL")}
    or name.strip("U") in {*("INT8", "INT16", "INT32", "INT64")}
}
"""By type, the bytes of one number."""


def check_float(model: onnx.ModelProto, path: Path) -> None:
    """Raise ModelError for a model without nodes, or as ``check_weights`` does."""
    if not model.graph.node:
        raise ModelError(f"{path}: the model has no nodes")
    if not model.graph.output:
        raise ModelError(f"{path}: the model has no outputs: name those that are wanted")
    check_weights(model, path)


def check_not_ours(model: onnx.ModelProto, path: Path) -> None:
    """Raise ModelError for a model that this tool has made: integers, whatever their form."""
    own = [node for node in nodes_of(model) if node.domain == DOMAIN]
    if own or _is_written_out(model):
        which = f" (node {own[0].name!r} is {own[0].op_type})" if own else ""
        raise ModelError(
            f"{path}: is an integer model of qpasses already{which}: give the float model, or "
            "the quantized one, that it was made from"
        )


def _is_written_out(model: onnx.ModelProto) -> bool:
    """Whether it was emitted as standard ops: its integers are no quantized model's."""
    entries = {entry.key: entry.value for entry in model.metadata_props}
    try:
        made = json.loads(entries.get("qpasses.configuration", "{}"))
    except ValueError:
        return False
    return isinstance(made, dict) and made.get("emit") == "standard"


def check_zero_points(model: onnx.ModelProto, path: Path) -> None:
    """Raise ModelError for a QuantizeLinear to a type that stores no integers of 4 to 16 bits.

    Its zero point says which.
    """
    kinds = {tensor.name: tensor.data_type for tensor in _constants(model)}
    for node in nodes_of(model):
        zero = (
            node.input[2] if node.op_type == "QuantizeLinear" and len(node.input) > 2 else ""
        )
        kind = onnx.TensorProto.DataType.Name(kinds.get(zero, onnx.TensorProto.UINT8))
        if not kind.startswith(("INT", "UINT", "FLOAT8", "FLOAT4")) or kind.endswith("2"):
            raise ModelError(
                f"{path}: QuantizeLinear {node.name or node.output[0]!r}: zero point {zero!r} "
                f"is {kind.lower()}, which is not the type of 4 to 16 bits that it stores"
            )


def check_weights(model: onnx.ModelProto, path: Path) -> None:
    """Raise ModelError for weights of another float type than float32, or that hold NaN."""
    weights = {
        name
        for node in nodes_of(model)
        if node.op_type in _WEIGHTED
        for name in node.input[1:]
    }
    tensors = [*_constants(model)]
    for tensor in tensors:
        if tensor.data_type not in _FLOATS:
            continue
        values = values_of(tensor)
        if np.isnan(values).any() or (tensor.name in weights and np.isinf(values).any()):
            raise ModelError(f"{path}: weights {tensor.name!r} hold NaN or infinite values")
    kinds = {each.data_type for each in tensors if each.name in weights}
    if kinds & {*_FLOATS} and onnx.TensorProto.FLOAT not in kinds:
        kind = onnx.TensorProto.DataType.Name(min(kinds & {*_FLOATS})).lower()
        raise ModelError(
            f"{path}: all its weights are {kind}: convert the model to float32 first"
        )


_WEIGHTED = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul", "BatchNormalization"})


def _constants(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """The weights of all graphs, and what Constant nodes hold, called as these write it."""
    for graph in nested_graphs(model.graph):
        yield from graph.initializer
    for node in nodes_of(model):
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "value":
                tensor = onnx.TensorProto()
                tensor.CopyFrom(attribute.t)
                tensor.name = node.output[0]
                yield tensor


_FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16)


def digest(model: onnx.ModelProto) -> str:
    """SHA-256 of the model with its weights, independent of how the file stores them."""
    if weight_bytes(model) >= HELD_FROM or names_held(model):
        content = hashlib.sha256()
        for part in serialized_parts(model):
            content.update(part)
        return content.hexdigest()
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    for tensor in plain.graph.initializer:
        tensor.ClearField("data_location")
        tensor.ClearField("external_data")
    return hashlib.sha256(plain.SerializeToString(deterministic=True)).hexdigest()
