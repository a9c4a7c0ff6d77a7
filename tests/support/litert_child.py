"""The child process of tests.support.litert: writes models, runs them, answers on stdout."""

import pickle
import sys
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from tests.support.litert import SingleOp, Stored

TYPES = {"int8": 9, "int16": 7, "int32": 2, "int64": 4, "float32": 0}


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


def code_of(name: str, version: int) -> Any:
    """The schema's code of an operator."""
    code = schema.OperatorCodeT()
    code.builtinCode = getattr(schema.BuiltinOperator, name)
    code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), version
    return code


def operator_of(index: int, inputs: list[int], output: int, options: str, given: Any) -> Any:
    """The schema's operator with the code at ``index``."""
    operator = schema.OperatorT()
    operator.opcodeIndex = index
    operator.inputs, operator.outputs = np.int32(inputs), np.int32([output])
    if options:
        operator.builtinOptionsType = getattr(schema.BuiltinOptions, options)
        operator.builtinOptions = getattr(schema, f"{options}T")()
        for name, value in given.items():
            setattr(operator.builtinOptions, name, value)
    return operator


def written(op: SingleOp) -> bytes:
    """The model of one operator, and of those that requantize its inputs."""
    buffers, output = [schema.BufferT()], len(op.inputs)
    stored, operators, read = [*op.inputs, op.output], [], [*range(output)]
    for place, each in enumerate(op.requantized):
        if each is not None:
            read[place] = len(stored)
            stored.append(each)
            operators.append(operator_of(1, [place], read[place], "QuantizeOptions", {}))
    operators.append(operator_of(0, read, output, op.options, op.given))
    graph = schema.SubGraphT()
    graph.tensors = [tensor(each, place, buffers) for place, each in enumerate(stored)]
    graph.operators = operators
    graph.inputs = np.array([i for i, t in enumerate(op.inputs) if t.values is None], np.int32)
    graph.outputs = np.int32([output])
    model = schema.ModelT()
    model.version, model.subgraphs = 3, [graph]
    model.operatorCodes = [code_of(op.code, op.version), code_of("QUANTIZE", 1)]
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
