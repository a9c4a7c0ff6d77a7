"""Tiny ONNX models in ONNX's own text, samples for them, and plain runs in onnxruntime."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper, parser

from qpasses.ir.metadata import read_record

DIGITS = Path(__file__).parents[2] / "models" / "digits_cnn"

CNN = """
cnn (float[N, 1, 8, 8] x) => (float[N, 3] y) {
    a = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
    r = Relu (a)
    p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)
    g = GlobalAveragePool (p)
    f = Flatten (g)
    y = Gemm (f, w2, b2)
}"""
"""Pictures of 8 x 8 in, three scores out: see ``cnn_weights`` and ``pictures``."""

MIDDLE = """
middle (float[N, 1, 8, 8] x) => (float[N, 4, 6, 6] y) {
    [first] a = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
    [middle] m = OPERATOR (a)
    [last] y = Conv (m, w3)
}"""
"""Two convolutions around whatever takes the place of OPERATOR."""

LAYERED = """
layered (float[1, 8, 6, 6] x) => (float[1, 16] y) {
    [one] a = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
    [two] b = Relu (a)
    [flat] f = Flatten (b)
    [three] c = Gemm <transB = 1> (f, w2, b2)
    [four] d = Relu (c)
    [five] y = MatMul (d, w3)
}"""
"""Nearly all of its bytes are weights."""


def model(text, *, opset=17, ir_version=8, domains=(), functions="", **weights):
    """The model of a graph in ONNX's text syntax; ``weights`` become its initializers.

    ``domains`` are imported at version 1; ``functions`` is the text of model-local ones.
    """
    imports = ", ".join([f'"" : {opset}', *(f'"{domain}" : 1' for domain in domains)])
    header = f"<ir_version: {ir_version}, opset_import: [{imports}]>"
    made = parser.parse_model(f"{header}\n{text}\n{functions}")
    for name, values in weights.items():
        made.graph.initializer.append(numpy_helper.from_array(np.asarray(values), name))
    return made


def numbers(*shape, seed=0, dtype=np.float32):
    """Standard normal numbers, the same for the same arguments."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def cnn_weights(seed=0):
    """Weights and biases of ``CNN``."""
    return {
        "w1": numbers(4, 1, 3, 3, seed=seed),
        "b1": numbers(4, seed=seed),
        "w2": numbers(4, 3, seed=seed),
        "b2": numbers(3, seed=seed),
    }


def cnn(seed=0, **options):
    """``CNN`` with weights; ``options`` go to ``model`` and may replace weights."""
    return model(CNN, **{**cnn_weights(seed), **options})


def convolutions_around(operator, **options):
    """``MIDDLE`` with an operator (and its attributes) between the convolutions."""
    weights = {"w1": numbers(4, 1, 3, 3), "b1": numbers(4), "w3": numbers(4, 4, 3, 3)}
    return model(MIDDLE.replace("OPERATOR", operator), **{**weights, **options})


def layered():
    """``LAYERED`` with its weights."""
    weights = {"w1": numbers(8, 8, 3, 3), "w2": numbers(32, 288), "w3": numbers(32, 16)}
    return model(LAYERED, opset=21, **weights, b1=numbers(8), b2=numbers(32))


def one_conv(w, b, *, after="", opset=17, **weights):
    """A 3 x 3 Conv on pictures of 8 x 8, to c; ``after`` makes y of c (default: c is y)."""
    result = "c" if after else "y"
    return model(
        f"""one_conv (float[N, 1, 8, 8] x) => (float[N, C, H, W] y) {{
            [conv] {result} = Conv <pads = [1, 1, 1, 1]> (x, w, b)
            {after}
        }}""",
        opset=opset,
        w=np.asarray(w, np.float32),
        b=np.asarray(b, np.float32),
        **weights,
    )


def pictures(count=8, seed=1):
    """Samples for the models of this file: float32 [count, 1, 8, 8]."""
    return numbers(count, 1, 8, 8, seed=seed)


def save(folder, name, content):
    """Write a model, the bytes of a file, or samples (array: .npy, dict: .npz); its path."""
    path = folder / name
    if isinstance(content, onnx.ModelProto):
        onnx.save(content, path)
    elif isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, dict):
        np.savez(path, **content)
    else:
        np.save(path, content)
    return path


def session(made, *, optimize=True):
    """A quiet onnxruntime session of a model or a file."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1  # nothing here is worth a second one
    if not optimize:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    source = str(made) if isinstance(made, Path) else made.SerializeToString()
    return ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def every_tensor(made, feed, *, optimize=False):
    """What each node of the main graph writes, by name, in one run, its axes as ONNX has them.

    Without what a Transpose writes that lays a tensor out.
    """
    exposed = onnx.ModelProto()
    exposed.CopyFrom(made)
    present = {value.name for value in made.graph.output}
    names = [name for node in made.graph.node for name in node.output if name]
    for name in names:
        if name not in present:
            exposed.graph.output.append(onnx.ValueInfoProto(name=name))
    found = session(exposed, optimize=optimize).run(names, feed)
    record, copies = read_record(made)[0], laid_copies(made)
    return {
        name: record.as_onnx(name, values)
        for name, values in zip(names, found, strict=True)
        if name not in copies
    }


def laid_copies(made):
    """The names of tensors that are others in another order, and names of who writes them."""
    record, found = read_record(made)[0], set()
    outputs = {value.name for value in made.graph.output}
    for node in made.graph.node:
        ends = node.input[0] if node.input else "", node.output[0]
        is_new = node.op_type == "Transpose" and node.name not in record.nodes
        if is_new and not record.orders.keys().isdisjoint(ends):
            found |= {node.name, ends[0] if ends[1] in outputs else ends[1]}
    return found


def nodes_as_onnx(made):
    """The nodes of an integer model, without Transposes that only lay tensors out."""
    copies = laid_copies(made)
    return [node for node in made.graph.node if node.name not in copies]


def recorded(made):
    """Scale and zero point by stored tensor, as an emitted integer model records them."""
    graph, copies = made.graph, laid_copies(made)
    found = {}
    for value in [*graph.value_info, *graph.output, *graph.input]:
        entries = {each.key: json.loads(each.value) for each in value.metadata_props}
        if entries and value.name not in copies:
            found[value.name] = entries["qpasses.scale"], entries["qpasses.zero_point"]
    return found
