"""Write legalized_words.json: multipliers that MLIR's own legalization makes of int16 layers.

Not run by tests. It needs what write_tosa_tables.py says, in a venv of its own. Scales are
random, and a third of them are beside a multiplier of 15 bits that a tie lies next to.
"""

import json
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

EACH, CHANNELS = 24, 3
BESIDE = Path(__file__).parent / "legalized_words.json"
SUMS = {"ADD": schema.AddOptionsT, "SUB": schema.SubOptionsT, "MUL": schema.MulOptionsT}


def tensor(name, shape, kind, scale, buffer=0):
    found = schema.TensorT()
    found.name, found.shape, found.type, found.buffer = name, [*shape], kind, buffer
    scales = [float(each) for each in np.atleast_1d(scale)]
    found.quantization = schema.QuantizationParametersT()
    found.quantization.scale, found.quantization.zeroPoint = scales, [0] * len(scales)
    return found


def flat_model(name, tensors, buffers, options):
    """One operator that reads all tensors but the last, which it writes."""
    code = getattr(schema.BuiltinOperator, name)
    kind = schema.OperatorCodeT()
    kind.builtinCode, kind.deprecatedBuiltinCode, kind.version = code, min(code, 127), 7
    operator = schema.OperatorT()
    operator.opcodeIndex, operator.inputs = 0, list(range(len(tensors) - 1))
    operator.outputs, operator.builtinOptions = [len(tensors) - 1], options
    form = type(options).__name__.removesuffix("T")
    operator.builtinOptionsType = getattr(schema.BuiltinOptions, form)
    graph, model = schema.SubGraphT(), schema.ModelT()
    graph.tensors, graph.operators, graph.outputs = tensors, [operator], operator.outputs
    graph.inputs = [place for place in operator.inputs if not tensors[place].buffer]
    model.version, model.operatorCodes, model.subgraphs = 3, [kind], [graph]
    model.buffers = [schema.BufferT()]
    for array in buffers:
        model.buffers.append(schema.BufferT())
        model.buffers[-1].data = np.frombuffer(array.tobytes(), np.uint8)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def legalized(model):
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder) / "x.tflite", Path(folder) / "x.mlir"
        before.write_bytes(model)
        tflite_flatbuffer_to_tosa_mlir(str(before), str(after), TosaConverterOutputFormat.Text)
        return after.read_text()


def rescales(text):
    """Of each RESCALE: whether its input was shifted, scale32, multipliers, shifts."""
    constants = {
        name: [int(each) for each in re.findall(r"-?\d+", values)]
        for name, values in re.findall(
            r"(%\d+) = \"tosa.const\"\(\) <{values = dense<(.*?)>", text
        )
    }
    lifted = set(re.findall(r"(%\d+) = tosa.logical_left_shift", text))
    pattern = r"tosa.rescale (%\w+), (%\d+), (%\d+), .*?scale32 = (\w+)"
    for x, multiplier, shift, is_wide in re.findall(pattern, text):
        yield x in lifted, is_wide == "true", constants[multiplier], constants[shift]


def layers(random):
    """conv2d and fully connected layers of int16."""
    words, bytes_, long = (getattr(schema.TensorType, n) for n in ("INT16", "INT8", "INT64"))
    for place in range(EACH):
        x, y = (np.float32(10 ** random.uniform(-6, -2)) for _ in range(2))
        w = np.float32(10 ** random.uniform(-4, -1, CHANNELS))
        if place % 3 == 0:  # beside a tie of the rounding to 15 bits
            near = (random.integers(1 << 14, 1 << 15, CHANNELS) + 0.5) / (1 << 24)
            w = np.float32(near * float(y) / float(x))
        weights = random.integers(-127, 128, (CHANNELS, 1, 1, 4)).astype(np.int8)
        bias = random.integers(-(10**6), 10**6, CHANNELS).astype(np.int64)
        options = schema.Conv2DOptionsT()
        options.strideW = options.strideH = 1
        options.dilationWFactor = options.dilationHFactor = options.padding = 1
        ends = [
            tensor("x", [1, 2, 2, 4], words, x),
            tensor("w", weights.shape, bytes_, w, 1),
            tensor("b", [CHANNELS], long, x * w, 2),
            tensor("y", [1, 2, 2, CHANNELS], words, y),
        ]
        ((_, is_wide, *pair),) = rescales(
            legalized(flat_model("CONV_2D", ends, [weights, bias], options))
        )
        assert not is_wide
        scales = {"x": float(x), "w": [float(each) for each in w], "y": float(y)}
        yield {**scales, "multiplier": pair[0], "shift": pair[1]}


def sums(name, random):
    """Sums and products of two tensors of int16: the RESCALE of each operand, and the last."""
    words = schema.TensorType.INT16
    for _ in range(EACH):
        a, b, y = (np.float32(10 ** random.uniform(-6, -3)) for _ in range(3))
        ends = [
            tensor(n, [2, 4], words, each) for n, each in zip("aby", (a, b, y), strict=True)
        ]
        found = list(rescales(legalized(flat_model(name, ends, [], SUMS[name]()))))
        assert len(found) == 3 and all(each[1] for each in found)
        pairs = [[bool(each[0]), each[2][0], each[3][0]] for each in found]
        yield {"a": float(a), "b": float(b), "y": float(y), "rescales": pairs}


def main():
    random = np.random.default_rng(0)
    found = {"CONV_2D": list(layers(random))} | {n: list(sums(n, random)) for n in SUMS}
    about = {
        "written by": f"tosa-converter-for-tflite {version.__version__}",
        "of TensorFlow": version.__tensorflow_commit__,
    }
    lines = [f'"{key}": {json.dumps(value)}' for key, value in about.items()]
    for name, cases in found.items():
        rows = ",\n".join(json.dumps(each) for each in cases)
        lines.append(f'"{name}": [\n{rows}\n]')
    BESIDE.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main()
