"""Graphs of many small nodes, in shapes that a walk may find quadratic: for what time costs.

Each is a float model of about as many nodes as are asked for, on few and small numbers: what
is measured is the graph.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import FunctionProto, NodeProto, TensorProto, helper, numpy_helper

SHAPE = (1, 2, 4, 4)
"""Of every tensor but those that are joined."""

OPSET = helper.make_opsetid("", 21)
LOCAL = helper.make_opsetid("local", 1)


@dataclass
class Draft:
    """Nodes and weights of a graph that reads x; ``add`` gives the name of what is new."""

    nodes: list[NodeProto] = field(default_factory=list)
    weights: list[TensorProto] = field(default_factory=list)
    functions: list[FunctionProto] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(0)

    def add(self, op: str, inputs: Sequence[str], domain: str = "", **attributes: Any) -> str:
        """A node."""
        name = f"t{len(self.nodes)}"
        node = helper.make_node(op, inputs, [name], name, domain=domain or None, **attributes)
        self.nodes.append(node)
        return name

    def conv(self, x: str) -> str:
        """A pointwise Conv that neither lets the numbers grow nor vanish."""
        turn = self._rng.uniform(0.5, 1.1, (2, 2, 1, 1)) * [[[[1]], [[-1]]], [[[1]], [[1]]]]
        w, b = f"w{len(self.nodes)}", f"b{len(self.nodes)}"
        self.weights += [
            numpy_helper.from_array((turn / np.sqrt(1.4)).astype(np.float32), w),
            numpy_helper.from_array(self._rng.normal(0, 0.1, 2).astype(np.float32), b),
        ]
        return self.add("Conv", [x, w, b])

    def model(self, channels: int = SHAPE[1]) -> onnx.ModelProto:
        """The model that gives what the last node writes, of so many channels."""
        self.nodes[-1].output[0] = "y"
        ends = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size, *SHAPE[2:]])
            for name, size in (("x", SHAPE[1]), ("y", channels))
        ]
        graph = helper.make_graph(self.nodes, "large", ends[:1], ends[1:], self.weights)
        imports = [OPSET, LOCAL] if self.functions else [OPSET]
        return helper.make_model(
            graph, functions=self.functions, opset_imports=imports, ir_version=10
        )


def convs(count: int) -> onnx.ModelProto:
    """One Conv behind the other."""
    draft, t = Draft(), "x"
    for _ in range(count):
        t = draft.conv(t)
    return draft.model()


def relus(count: int) -> onnx.ModelProto:
    """One Relu behind the other: a single table."""
    draft, t = Draft(), "x"
    for _ in range(count):
        t = draft.add("Relu", [t])
    return draft.model()


ELEMENTWISE = ("Tanh", "Sigmoid", "Relu", "LeakyRelu", "HardSwish", "Neg")


def functions_of_one(count: int) -> onnx.ModelProto:
    """Elementwise functions of all kinds in a row."""
    draft, t = Draft(), "x"
    for position in range(count):
        t = draft.add(ELEMENTWISE[position % len(ELEMENTWISE)], [t])
    return draft.model()


def mixed(count: int) -> onnx.ModelProto:
    """Conv, Relu, Conv, Tanh: tables between convolutions."""
    draft, t = Draft(), "x"
    for position in range(count // 2):
        t = draft.add(("Relu", "Tanh")[position % 2], [draft.conv(t)])
    return draft.model()


def residuals(count: int) -> onnx.ModelProto:
    """Convs whose results are added to what they read."""
    draft, t = Draft(), "x"
    for _ in range(count // 3):
        t = draft.add("Tanh", [draft.add("Add", [t, draft.conv(t)])])
    return draft.model()


def sums(count: int) -> onnx.ModelProto:
    """One stream to which a few tensors are added again and again."""
    draft = Draft()
    parts = [draft.conv("x") for _ in range(8)]
    t = parts[0]
    for position in range(count - 8):
        t = draft.add(("Add", "Sub")[position % 2], [t, parts[position % 8]])
    return draft.model()


def wide_join(count: int) -> onnx.ModelProto:
    """One Concat of the results of all others."""
    draft = Draft()
    parts = [draft.conv("x") for _ in range(count - 2)]
    draft.add("Relu", [draft.add("Concat", parts, axis=1)])
    return draft.model(2 * len(parts))


def dense(count: int) -> onnx.ModelProto:
    """As in DenseNet: each Concat joins what was computed last."""
    draft, names = Draft(), ["x"]
    while len(draft.nodes) < count:
        joined = names[-12:]
        window = [len(joined), 1]
        t = draft.add("Concat", joined, axis=2)
        t = draft.add("MaxPool", [t], kernel_shape=window, strides=window)
        names.append(draft.conv(t))
    return draft.model()


def shared_joins(count: int) -> onnx.ModelProto:
    """Many Concats of the same few tensors, joined in the end."""
    draft = Draft()
    parts = [draft.conv("x") for _ in range(16)]
    joins = [
        draft.add("Concat", [parts[k % 16], parts[(3 * k + 1) % 16]], axis=1)
        for k in range(count - 17)
    ]
    draft.add("Concat", joins, axis=1)
    return draft.model(4 * len(joins))


def moved(count: int) -> onnx.ModelProto:
    """Nodes that only move what is stored."""
    draft, t = Draft(), "x"
    for position in range(count):
        t = draft.add("Transpose", [t], perm=[0, 1, 3, 2]) if position % 50 else draft.conv(t)
    return draft.model()


def fan_out(count: int) -> onnx.ModelProto:
    """One tensor that thousands of nodes read, summed as a tree."""
    draft = Draft()
    found = [draft.conv("x") for _ in range(count // 2)]
    while len(found) > 1:
        pairs = zip(found[::2], found[1::2], strict=False)
        odd = found[-1:] if len(found) % 2 else []
        found = [draft.add("Add", pair) for pair in pairs] + odd
    return draft.model()


def nested_functions(count: int) -> onnx.ModelProto:
    """Calls of functions that call functions, in five floors of eight calls."""
    draft = Draft()
    imports = [OPSET, LOCAL]
    inner = [helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Tanh", ["b"], ["c"])]
    draft.functions.append(helper.make_function("local", "F0", ["a"], ["c"], inner, imports))
    floors = 0
    while 2 * 8 ** (floors + 2) <= count:
        calls = [
            helper.make_node(f"F{floors}", [f"a{k}"], [f"a{k + 1}"], domain="local")
            for k in range(8)
        ]
        floors += 1
        made = helper.make_function("local", f"F{floors}", ["a0"], ["a8"], calls, imports)
        draft.functions.append(made)
    t = "x"
    for _ in range(count // (2 * 8**floors)):
        t = draft.add(f"F{floors}", [t], domain="local")
    return draft.model()


SHAPES: Mapping[str, Callable[[int], onnx.ModelProto]] = {
    each.__name__: each
    for each in (
        *(convs, relus, functions_of_one, mixed, residuals, sums, wide_join, dense),
        *(shared_joins, moved, fan_out, nested_functions),
    )
}
"""By name, what makes a model of so many nodes."""
