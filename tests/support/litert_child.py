"""The child process of tests.support.litert: writes models, runs them, answers on stdout."""

import pickle
import sys
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from qpasses.emit.mlir import ELEMENTS
from qpasses.emit.tflite.flatbuffer import (
    FileContent,
    FileOperator,
    FileTensor,
    Scales,
    packed,
)
from tests.support.litert import SingleOp, Stored, WholeFile


def tensor(stored: Stored, place: int) -> FileTensor:
    """That of the file."""
    values = None if stored.values is None else np.asarray(stored.values, stored.dtype)
    scales = () if stored.scale is None else tuple(map(float, np.ravel(stored.scale)))
    meaning = Scales(scales, (stored.zero,), stored.axis) if scales else None
    element = ELEMENTS[stored.dtype]
    return FileTensor(f"t{place}", tuple(stored.shape), element, values, meaning)


def written(op: SingleOp) -> bytes:
    """The model of one operator, and of those that requantize its inputs."""
    output = len(op.inputs)
    stored, operators, read = [*op.inputs, op.output], list[FileOperator](), [*range(output)]
    for place, each in enumerate(op.requantized):
        if each is not None:
            read[place] = len(stored)
            stored.append(each)
            operators.append(FileOperator("QUANTIZE", 1, [place], [read[place]]))
    operators.append(FileOperator(op.code, op.version, read, [output], op.options, op.given))
    tensors = [tensor(each, place) for place, each in enumerate(stored)]
    fed = [(f"t{k}", k) for k, each in enumerate(op.inputs) if each.values is None]
    return packed(FileContent(tensors, operators, fed, [(f"t{output}", output)], {}))


ARENA = 1 << 20
"""Bytes in which TensorFlow Lite Micro holds the tensors of a file."""


def run(op: SingleOp | WholeFile, resolver: str) -> list[Any]:
    """The outputs for each feed."""
    if resolver == "TFLM":
        assert isinstance(op, WholeFile)
        return run_micro(op)
    kind = getattr(OpResolverType, resolver)
    content = op.content if isinstance(op, WholeFile) else written(op)
    interpreter = Interpreter(
        model_content=content, experimental_op_resolver_type=kind, num_threads=1
    )
    interpreter.allocate_tensors()
    inputs, found = interpreter.get_input_details(), []
    feeds = [[each] for each in op.feeds] if isinstance(op, WholeFile) else op.feeds
    for feed in feeds:
        interpreter.reset_all_variables()
        for detail, value in zip(inputs, feed, strict=True):
            interpreter.set_tensor(detail["index"], np.asarray(value, detail["dtype"]))
        interpreter.invoke()
        found.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))
    return found


def run_micro(file: WholeFile) -> list[Any]:
    """The same by TensorFlow Lite Micro."""
    from tflite_micro import runtime

    interpreter, found = runtime.Interpreter.from_bytes(file.content, arena_size=ARENA), []
    for feed in file.feeds:
        interpreter.reset()
        interpreter.set_input(feed, 0)
        interpreter.invoke()
        found.append(interpreter.get_output(0))
    return found


def main() -> None:
    """Answer until nothing is asked any more."""
    while True:
        try:
            ops, resolver = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump([run(op, resolver) for op in ops], sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
