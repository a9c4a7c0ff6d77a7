"""Write tosa_tables.json: tables that MLIR's own legalization makes of TFLite functions.

Not run by tests. It needs packages that go with no others, so a venv of its own:

    python3 -m venv /tmp/legalize
    /tmp/legalize/bin/pip install tosa-converter-for-tflite==2026.2.0 ai-edge-litert==2.3.0
    /tmp/legalize/bin/python tests/opsets/write_tosa_tables.py

Half of the scales are random. The other half put one code within a rounding of a tie: there
alone float and double, quotients and products with an inverse, or two ways to write a function
give different tables.
"""

import json
import math
import re
import tempfile
from pathlib import Path

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from tosa_converter_for_tflite import (
    TosaConverterOutputFormat,
    tflite_flatbuffer_to_tosa_mlir,
    version,
)

EACH = 12
BESIDE = Path(__file__).parent / "tosa_tables.json"


def gelu(x):
    return 0.5 * x * math.erfc(-x * math.sqrt(0.5))


def gelu_tanh(x):
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def hard_swish(x):
    return x * min(max(x + 3, 0), 6) / 6


FUNCTIONS = {
    "LOGISTIC": lambda x: 1 / (1 + math.exp(-x)),
    "TANH": math.tanh,
    "GELU": gelu,
    "GELU tanh": gelu_tanh,
    "EXP": math.exp,
    "LOG": lambda x: math.log(max(x, 1e-6)),
    "HARD_SWISH": hard_swish,
}
OPTIONS = {
    "GELU": (schema.BuiltinOptions.GeluOptions, schema.GeluOptionsT, False),
    "GELU tanh": (schema.BuiltinOptions.GeluOptions, schema.GeluOptionsT, True),
    "EXP": (schema.BuiltinOptions.ExpOptions, schema.ExpOptionsT, None),
    "HARD_SWISH": (schema.BuiltinOptions.HardSwishOptions, schema.HardSwishOptionsT, None),
}


def tensor(name, scale, zero_point):
    found = schema.TensorT()
    found.name, found.shape, found.type = name, [1, 4], schema.TensorType.INT8
    found.buffer, found.quantization = 0, schema.QuantizationParametersT()
    found.quantization.scale = [float(scale)]
    found.quantization.zeroPoint = [zero_point]
    return found


def flat_model(name, x, y):
    code = getattr(schema.BuiltinOperator, name.split()[0])
    kind = schema.OperatorCodeT()
    kind.builtinCode, kind.deprecatedBuiltinCode, kind.version = code, min(code, 127), 1
    operator = schema.OperatorT()
    operator.opcodeIndex, operator.inputs, operator.outputs = 0, [0], [1]
    if name in OPTIONS:
        operator.builtinOptionsType, form, approximate = OPTIONS[name]
        operator.builtinOptions = form()
        if approximate is not None:
            operator.builtinOptions.approximate = approximate
    graph, model = schema.SubGraphT(), schema.ModelT()
    graph.tensors, graph.operators = [tensor("x", *x), tensor("y", *y)], [operator]
    graph.inputs, graph.outputs = [0], [1]
    model.version, model.operatorCodes, model.subgraphs = 3, [kind], [graph]
    model.buffers = [schema.BufferT()]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def table_of(name, x, y):
    """The 256 bytes in the order of the codes, as hexadecimal digits."""
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder) / "x.tflite", Path(folder) / "x.mlir"
        before.write_bytes(flat_model(name, x, y))
        tflite_flatbuffer_to_tosa_mlir(str(before), str(after), TosaConverterOutputFormat.Text)
        return re.search(r'dense<"0x([0-9A-F]{512})"> : tensor<256xi8>', after.read_text())


def cases(name, random):
    real, places = FUNCTIONS[name], 0
    while places < 2 * EACH:
        x_scale = np.float32(10 ** random.uniform(-2.5, -0.5))
        x_zero, y_zero = (int(each) for each in random.integers(-100, 101, 2))
        value = abs(real(float(x_scale) * int(random.integers(-128 - x_zero, 128 - x_zero))))
        if places < EACH:
            y_scale = np.float32(10 ** random.uniform(-2.5, -1))
        elif 1e-3 < value < 30:
            y_scale = np.float32(value / (int(random.integers(1, 100)) + 0.5))
        else:
            continue
        if name == "HARD_SWISH" and not x_scale / 128 < y_scale < 16 * x_scale:
            continue
        if name == "EXP" and real(float(x_scale) * (127 - x_zero)) / y_scale > 2**30:
            continue  # C++ does not say what a float beyond int32 becomes
        x, y = (float(x_scale), x_zero), (float(y_scale), y_zero)
        found = table_of(name, x, y)
        if found is None:
            continue  # all entries alike
        places += 1
        yield {"x": x, "y": y, "table": found[1].lower()}


def main():
    random = np.random.default_rng(0)
    found = {name: list(cases(name, random)) for name in FUNCTIONS}
    about = {
        "written by": f"tosa-converter-for-tflite {version.__version__}",
        "of TensorFlow": version.__tensorflow_commit__,
    }
    lines = [f'"{key}": {json.dumps(value)}' for key, value in about.items()]
    for name, tables in found.items():
        rows = ",\n".join(json.dumps(each) for each in tables)
        lines.append(f'"{name}": [\n{rows}\n]')
    BESIDE.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main()
