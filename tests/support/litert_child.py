"""The child process of tests.support.litert: writes models, runs them, answers on stdout."""

import pickle
import sys
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from tests.support.litert import SingleOp, Stored

TYPES = {"int8": 9, "int16": 7, "int32": 2, "float32": 0}


def tensor(stored: Stored, place: int, buffers: list[Any]) -> Any:
    """The schema's tensor; values go to a buffer of their own."""
    found = schema.TensorT()
    found.shape, found.type, found.name = [*stored.shape], TYPES[stored.dtype], f"t{place}"
    if stored.values is not None:
        buffer = schema.BufferT()
        content = np.asarray(stored.values, stored.dtype).tobytes()
        buffer.data = np.frombuffer(content, np.uint8)
        buffers.append(buffer)
        found.buffer = len(buffers) - 1
    if stored.scale is not None:
        scales = np.float32(np.ravel(stored.scale))
        found.quantization = schema.QuantizationParametersT()
        found.quantization.scale = scales
        found.quantization.zeroPoint = np.full(scales.size, stored.zero, np.int64)
        found.quantization.quantizedDimension = stored.axis
    return found


def written(op: SingleOp) -> bytes:
    """The model of one operator."""
    buffers = [schema.BufferT()]
    tensors = [
        tensor(each, place, buffers) for place, each in enumerate([*op.inputs, op.output])
    ]
    code, operator = schema.OperatorCodeT(), schema.OperatorT()
    code.builtinCode = getattr(schema.BuiltinOperator, op.code)
    code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), op.version
    operator.inputs = np.arange(len(op.inputs), dtype=np.int32)
    operator.outputs = np.array([len(op.inputs)], np.int32)
    if op.options:
        operator.builtinOptionsType = getattr(schema.BuiltinOptions, op.options)
        operator.builtinOptions = getattr(schema, f"{op.options}T")()
        for name, value in op.given.items():
            setattr(operator.builtinOptions, name, value)
    graph = schema.SubGraphT()
    graph.tensors, graph.operators = tensors, [operator]
    graph.inputs = np.array([i for i, t in enumerate(op.inputs) if t.values is None], np.int32)
    graph.outputs = operator.outputs
    model = schema.ModelT()
    model.version, model.operatorCodes, model.subgraphs = 3, [code], [graph]
    model.buffers = buffers
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


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


if __name__ == "__main__":
    ops, resolver = pickle.loads(sys.stdin.buffer.read())
    answer = pickle.dumps([run(op, resolver) for op in ops])
    sys.stdout.buffer.write(answer)
