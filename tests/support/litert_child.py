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
from tests.support.litert import SingleOp, Stored


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


def run(op: SingleOp, resolver: str) -> list[Any]:
    """The outputs for each feed."""
    kind = getattr(OpResolverType, resolver)
    interpreter = Interpreter(
        model_content=written(op), experimental_op_resolver_type=kind, num_threads=1
    )
    interpreter.allocate_tensors()
    inputs, found = interpreter.get_input_details(), []
    for feed in op.feeds:
        for detail, value in zip(inputs, feed, strict=True):
            interpreter.set_tensor(detail["index"], np.asarray(value, detail["dtype"]))
        interpreter.invoke()
        found.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))
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
