"""The bytes of a .tflite file, by the schema classes that the interpreter itself brings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.errors import UsageError

INSTALL = "pip install 'qpasses[tflite]'"

_TYPES = {
    "i8": "INT8",
    "ui8": "UINT8",
    "i16": "INT16",
    "i32": "INT32",
    "i64": "INT64",
    "i1": "BOOL",
    "f32": "FLOAT32",
}

_LATEST_OLD_CODE = 127
"""The field for the code of an operator that old readers know has a byte with a sign."""


@dataclass(frozen=True)
class Scales:
    """Of a tensor, or of the slices along ``axis``: real = (stored - zeros) * scales."""

    scales: tuple[float, ...]
    zeros: tuple[int, ...] = (0,)
    axis: int = 0

    @property
    def scale(self) -> float:
        """The only one."""
        (found,) = self.scales
        return found

    @property
    def zero(self) -> int:
        """That of all."""
        return self.zeros[0]


@dataclass
class FileTensor:
    """A tensor of the file; ``values`` of a constant.

    ``is_kept``: a variable, which an operator reads and writes; it starts at its zero point.
    """

    name: str
    shape: tuple[int, ...]
    element: str
    values: NDArray[Any] | None = None
    meaning: Scales | None = None
    is_kept: bool = False


@dataclass(frozen=True)
class FileOperator:
    """An operator: its name and version, tensors by place, -1 for none, and its options.

    ``between``: tensors that say what it computes between inputs and outputs.
    """

    name: str
    version: int
    inputs: Sequence[int]
    outputs: Sequence[int]
    options: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    between: Sequence[int] = ()


@dataclass(frozen=True)
class FileContent:
    """All that a file says. ``metadata``: texts by name; inputs and outputs by place."""

    tensors: Sequence[FileTensor]
    operators: Sequence[FileOperator]
    inputs: Sequence[tuple[str, int]]
    outputs: Sequence[tuple[str, int]]
    metadata: Mapping[str, str]


def schema() -> Any:
    """The classes. Raises UsageError, saying how to install them."""
    try:
        import flatbuffers  # noqa: F401
        from ai_edge_litert import schema_py_generated
    except ImportError as error:
        raise UsageError(f"TFLite files need ai-edge-litert: {INSTALL}") from error
    return schema_py_generated


def packed(content: FileContent) -> bytes:
    """The file."""
    import flatbuffers

    known = schema()
    model = known.ModelT()
    model.version = 3
    model.description = "qpasses"
    model.buffers = [known.BufferT()]
    codes = sorted({(each.name, each.version) for each in content.operators})
    model.operatorCodes = [_code(known, *each) for each in codes]
    graph = known.SubGraphT()
    graph.name = "main"
    graph.tensors = [_tensor(known, model.buffers, each) for each in content.tensors]
    graph.operators = [
        _operator(known, codes.index((each.name, each.version)), each)
        for each in content.operators
    ]
    graph.inputs, graph.outputs = (
        np.array([place for _, place in ends], np.int32)
        for ends in (content.inputs, content.outputs)
    )
    model.subgraphs = [graph]
    model.signatureDefs = [_signature(known, content)]
    model.metadata = [_note(known, model.buffers, *each) for each in content.metadata.items()]
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _code(known: Any, name: str, version: int) -> Any:
    made = known.OperatorCodeT()
    made.builtinCode = getattr(known.BuiltinOperator, name)
    made.deprecatedBuiltinCode = min(made.builtinCode, _LATEST_OLD_CODE)
    made.version = version
    return made


def _buffer(known: Any, buffers: list[Any], raw: NDArray[np.uint8]) -> int:
    made = known.BufferT()
    made.data = raw
    buffers.append(made)
    return len(buffers) - 1


def _tensor(known: Any, buffers: list[Any], tensor: FileTensor) -> Any:
    made = known.TensorT()
    made.name, made.shape = tensor.name, np.array(tensor.shape, np.int32)
    made.type = getattr(known.TensorType, _TYPES[tensor.element])
    made.hasRank = True
    made.isVariable = tensor.is_kept
    if tensor.values is not None:
        raw = np.ascontiguousarray(tensor.values).reshape(-1).view(np.uint8)
        made.buffer = _buffer(known, buffers, raw)
    if tensor.meaning is not None:
        made.quantization = known.QuantizationParametersT()
        made.quantization.scale = np.array(tensor.meaning.scales, np.float32)
        count = len(tensor.meaning.scales)
        zeros = np.broadcast_to(np.array(tensor.meaning.zeros, np.int64), (count,))
        made.quantization.zeroPoint = np.ascontiguousarray(zeros)
        made.quantization.quantizedDimension = tensor.meaning.axis
    return made


def _operator(known: Any, code: int, operator: FileOperator) -> Any:
    made = known.OperatorT()
    made.opcodeIndex = code
    made.inputs = np.array(operator.inputs, np.int32)
    made.outputs = np.array(operator.outputs, np.int32)
    if operator.between:
        made.intermediates = np.array(operator.between, np.int32)
    if operator.options:
        made.builtinOptionsType = getattr(known.BuiltinOptions, operator.options)
        made.builtinOptions = getattr(known, f"{operator.options}T")()
        for name, number in operator.numbers.items():
            assert hasattr(made.builtinOptions, name)
            setattr(made.builtinOptions, name, _number(known, number))
    return made


def _number(known: Any, given: Any) -> Any:
    """What an option is; words stand for the schema's own, by kind: ``Padding.VALID``."""
    if not isinstance(given, str):
        return given
    kind, word = given.split(".")
    return getattr(getattr(known, kind), word)


def _signature(known: Any, content: FileContent) -> Any:
    """By names: ``interpreter.get_signature_runner()`` takes and gives them."""
    made = known.SignatureDefT()
    made.signatureKey = "serving_default"
    made.inputs, made.outputs = [], []
    for found, ends in ((made.inputs, content.inputs), (made.outputs, content.outputs)):
        for name, place in ends:
            end = known.TensorMapT()
            end.name, end.tensorIndex = name, place
            found.append(end)
    return made


def _note(known: Any, buffers: list[Any], name: str, text: str) -> Any:
    made = known.MetadataT()
    made.name = name
    raw = np.frombuffer(text.encode("utf-8"), np.uint8)
    made.buffer = _buffer(known, buffers, raw)
    return made
