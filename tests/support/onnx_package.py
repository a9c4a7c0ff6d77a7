"""The classic networks that the onnx package brings along, with random weights."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"

ROLES = {
    ("BatchNormalization", 1): (1, 0.2),
    ("BatchNormalization", 4): (1, 0.2),
    ("Mul", 1): (1, 0.2),
}
"""Mean and deviation of what an op reads at an input, where it is no weight or bias."""


def classic(name: str, seed: int = 0, until: str = "") -> onnx.ModelProto:
    """The logits of a network with random weights: in the package all are equal.

    ``until``: the tensor to end with instead; what stands behind it is left away.
    """
    model = onnx.load(DATA / "light" / f"light_{name}.onnx")
    if until:
        _cut(model.graph, until)
    elif model.graph.node[-1].op_type == "Softmax":
        model.graph.output[0].name = model.graph.node.pop().input[0]
    rng = np.random.default_rng(seed)
    sizes = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    readers = {name: node for node in reversed(model.graph.node) for name in node.input}
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape":
            continue
        shape, name = sizes[node.input[0]].tolist(), node.output[0]
        while readers[name].op_type == "Unsqueeze":
            name = readers[name].output[0]
        reader = readers[name]
        place = ROLES.get((reader.op_type, list(reader.input).index(name)))
        mean, deviation = place or (0, np.sqrt(2 / max(np.prod(shape[1:]), 20)))
        values = (mean + deviation * rng.standard_normal(shape)).astype(np.float32)
        values = np.abs(values) if place else values
        model.graph.initializer.append(numpy_helper.from_array(values, node.output[0]))
    left = [node for node in model.graph.node if node.op_type != "ConstantOfShape"]
    del model.graph.node[:]
    model.graph.node.extend(left)
    return model


def _cut(graph: onnx.GraphProto, last: str) -> None:
    used, kept = {last}, []
    for node in reversed(graph.node):
        if used & {*node.output}:
            kept.append(node)
            used.update(node.input)
    del graph.node[:]
    graph.node.extend(reversed(kept))
    (output,) = graph.output
    output.CopyFrom(helper.make_tensor_value_info(last, TensorProto.FLOAT, [*"NCHW"]))
