"""An integer model as a TFLite file: its nodes in order, one lowering each."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpasses.emit.integer_walk import lower_nodes, named, stored_inputs, stored_outputs
from qpasses.emit.layouts import Order, channels_last, in_order
from qpasses.emit.operations import Value
from qpasses.emit.tflite.flatbuffer import FileContent, Scales, packed
from qpasses.emit.tflite.litert_arithmetic import runtime_of
from qpasses.emit.tflite.litert_ops import LOWERINGS
from qpasses.emit.tflite.tflite_lowering import TfliteLowering
from qpasses.emit.tflite.tflite_operations import TfliteOperations, place_of
from qpasses.ir.choices import InferenceType, IoLayout, TfliteRuntime
from qpasses.ir.graph import Tensor
from qpasses.ir.metadata import PREFIX
from qpasses.load.integer_model import IntegerModel

_PICTURES = ("IntConv", "IntCountedAveragePool", "MaxPool")

_ELEMENTS: Mapping[InferenceType, str] = {"int8": "i8", "uint8": "ui8", "float32": "f32"}

_OTHER_TYPES: Mapping[str, Sequence[InferenceType]] = {
    "i8": ("uint8", "float32"),
    "i16": ("float32",),
}
"""What the ends of a file may be, of what is stored so."""

_WORDS = {
    **{"i8": "int8", "ui8": "uint8", "i16": "int16", "i32": "int32", "i1": "bool"},
    **{"f32": "float32"},
}


@dataclass(frozen=True)
class FileEnd:
    """A tensor of the file, and the one of the ONNX model that it is.

    ``place``: of the file's tensors; ``order``: the axes of the ONNX tensor as they lie,
    ``columns``: those of rows, where they lie in another order; ``dtype``: as ONNX stores it.
    """

    name: str
    tensor: str
    place: int
    shape: tuple[int, ...]
    element: str
    order: Order
    dtype: np.dtype[Any]
    meaning: Scales | None
    columns: NDArray[np.int64] | None = None

    @property
    def stored_as(self) -> str:
        """What the file takes or gives for it."""
        said = _WORDS[self.element]
        if self.element == "i8" and self.dtype == np.uint8:
            said += ", 128 less than uint8"
        if self.order != in_order(len(self.order)):
            said += f", axes {' '.join(map(str, self.order))} of ONNX's"
        return said


@dataclass(frozen=True)
class TfliteFile:
    """A file and its ends in order; ``stored``: the tensors of the ONNX model in it."""

    program: TfliteOperations
    inputs: Sequence[FileEnd]
    outputs: Sequence[FileEnd]
    stored: Sequence[FileEnd]
    about: str

    def content(self) -> Iterator[bytes]:
        """What a file has. Raises UsageError where the schema is not installed."""
        yield packed(
            FileContent(
                self.program.tensors,
                self.program.operators,
                [(each.name, each.place) for each in self.inputs],
                [(each.name, each.place) for each in self.outputs],
                {"qpasses": self.about},
            )
        )

    @property
    def operations(self) -> Mapping[str, int]:
        """How often it does what."""
        return self.program.counts

    @property
    def transposes(self) -> int:
        """How many there are."""
        return self.operations.get("TRANSPOSE", 0)


def emit_tflite(
    read: IntegerModel,
    *,
    runtime: TfliteRuntime = "litert",
    input_type: InferenceType = "int8",
    output_type: InferenceType = "int8",
    io_layout: IoLayout = "nhwc",
) -> TfliteFile:
    """The integer model as TFLite; ``runtime``: whose kernels give its integers.

    Raises ModelError for what TFLite cannot say, naming the node, UsageError for sizes that
    are free.
    """
    program = TfliteOperations(runtime=runtime_of(runtime))
    graph, inputs = read.graph, []
    to = TfliteLowering(program=program, record=read.record, ends=graph.outputs)
    for name, tensor, sizes in stored_inputs(to, graph):
        with named(to, f"input {name!r}"):
            order = in_order(len(sizes))
            if io_layout == "nhwc" and any(each.op in _PICTURES for each in tensor.outputs):
                order = channels_last(len(sizes))
            inputs.append(
                _entered(to, name, tensor, [sizes[k] for k in order], order, input_type)
            )
    lower_nodes(to, graph, LOWERINGS)
    outputs = []
    for name, tensor in stored_outputs(to, graph, all_tensors=False):
        with named(to, f"output {name!r}"):
            outputs.append(_left(to, name, tensor, output_type, io_layout))
    stored = [
        _end(to, name, tensor, to.laid(tensor).value, to.laid(tensor).order)
        for name, tensor in stored_outputs(to, graph, all_tensors=True)
    ]
    _call_the_rest(program)
    about = {
        each.key: each.value
        for each in read.model.metadata_props
        if each.key.startswith(PREFIX)
    }
    return TfliteFile(program, inputs, outputs, stored, json.dumps(about))


def _entered(
    to: TfliteLowering,
    name: str,
    tensor: Tensor,
    shape: Sequence[int],
    order: Order,
    wanted: InferenceType,
) -> FileEnd:
    dtype, program = np.dtype(tensor.dtype), to.program
    element = to.element_of(dtype, name)
    program.meaning = to.meaning_of(tensor)
    if program.meaning is None or wanted not in _OTHER_TYPES.get(element, ()):
        value = program.argument(shape, element)
        program.tensor(value).meaning = program.meaning
        program.call(value, name)
        to.write(tensor, value, order)
        return _end(to, name, tensor, value, order)
    value = program.argument(shape, _ELEMENTS[wanted])
    program.call(value, name)
    if wanted == "uint8":
        program.tensor(value).meaning = _raised(program.meaning)
    codes = program.operator("QUANTIZE", 2, [value], shape, element, meaning=program.meaning)
    to.write(tensor, codes, order)
    return _end(to, name, tensor, value, order)


def _raised(meaning: Scales) -> Scales:
    """Of uint8 codes, 128 more than those of int8."""
    return Scales(meaning.scales, tuple(zero + 128 for zero in meaning.zeros))


def _left(
    to: TfliteLowering, name: str, tensor: Tensor, wanted: InferenceType, layout: IoLayout
) -> FileEnd:
    program, known = to.program, to.known(tensor)
    program.where = name
    program.meaning = to.meaning_of(tensor)
    order = in_order(len(to.shape(tensor)))
    if known is None and layout == "nhwc" and len(order) == 4:
        laid = to.laid(tensor).order
        order = laid if laid == channels_last(4) else order
    value = to.read(tensor, order)
    meaning = program.tensor(value).meaning
    if meaning is None or wanted not in _OTHER_TYPES.get(value.element, ()):
        if value in (*program.arguments, *program.results) or program.is_known(value):
            given = [value, program.sizes(value.shape)]
            value = program.operator("RESHAPE", 1, given, value.shape, value.element)
    elif wanted == "uint8":
        value = program.operator(
            "QUANTIZE", 2, [value], value.shape, "ui8", meaning=_raised(meaning)
        )
    else:
        version = 2 if value.element == "i8" else 3
        value = program.operator("DEQUANTIZE", version, [value], value.shape, "f32")
    program.results.append(value)
    program.rename(value, name)
    return _end(to, name, tensor, value, order)


def _end(to: TfliteLowering, name: str, tensor: Tensor, value: Value, order: Order) -> FileEnd:
    return FileEnd(
        *(name, str(tensor.name), place_of(value), value.shape, value.element, order),
        np.dtype(tensor.dtype),
        to.program.tensor(value).meaning,
        to.columns.get(id(tensor)),
    )


def _call_the_rest(program: TfliteOperations) -> None:
    """Names for tensors that no tensor of the model is."""
    for place, tensor in enumerate(program.tensors):
        if not tensor.name:
            tensor.name = f"qpasses/{place}"
