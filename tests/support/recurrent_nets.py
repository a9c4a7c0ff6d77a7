"""Random LSTM, GRU and RNN nodes, whatever ONNX lets them say."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
FUNCTIONS = {"LSTM": 3, "GRU": 2, "RNN": 1}

ALPHA = ("Affine", "Elu", "HardSigmoid", "LeakyRelu", "ScaledTanh", "ThresholdedRelu")
BETA = ("Affine", "HardSigmoid", "ScaledTanh")
NAMES = (*ALPHA, "Relu", "Sigmoid", "Softplus", "Softsign", "Tanh")

WAYS = ("forward", "reverse", "bidirectional")
HOW_GIVEN = ("absent", "zero", "expanded", "constant", "input")
"""An initial state: as zeros of the size that a Shape gives, too."""


@dataclass
class Net:
    """A model of one recurrent node, what it is fed with, and what the node says."""

    op: str
    way: str = "forward"
    steps: int = 4
    rows: int = 2
    size: int = 3
    hidden: int = 2
    has_bias: bool = True
    lengths: str = "absent"
    first_h: str = "absent"
    first_c: str = "absent"
    peepholes: str = "absent"
    outputs: frozenset[str] = frozenset({"y"})
    said: dict[str, Any] = field(default_factory=dict)
    seed: int = 0

    def made(self) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
        """The model, and a feed."""
        return _Writer(self).made()


class _Writer:
    def __init__(self, net: Net) -> None:
        self.net, self.rng = net, np.random.default_rng(net.seed)
        self.ways = 2 if net.way == "bidirectional" else 1
        self.feed: dict[str, np.ndarray] = {}
        self.weights: dict[str, np.ndarray] = {}
        self.nodes: list[onnx.NodeProto] = []

    def made(self) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
        net, ways, gates = self.net, self.ways, GATES[self.net.op]
        self.feed["x"] = self._numbers(net.steps, net.rows, net.size)
        self.weights["w"] = self._numbers(ways, gates * net.hidden, net.size)
        self.weights["r"] = self._numbers(ways, gates * net.hidden, net.hidden)
        inputs = ["x", "w", "r"]
        inputs.append(self._given("b", "constant" if net.has_bias else "absent", 2 * gates))
        inputs.append(self._lengths())
        inputs.append(self._state("first_h", net.first_h))
        if net.op == "LSTM":
            inputs.append(self._state("first_c", net.first_c))
            inputs.append(self._given("p", net.peepholes, 3))
        names = ("y", "h", "c") if net.op == "LSTM" else ("y", "h")
        outputs = [name if name in net.outputs else "" for name in names]
        said = {"hidden_size": net.hidden, "direction": net.way, **net.said}
        self.nodes.append(helper.make_node(net.op, inputs, outputs, "net", **said))
        graph = helper.make_graph(
            self.nodes,
            "recurrent",
            [_value(name, values) for name, values in self.feed.items()],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs if n],
            [numpy_helper.from_array(values, name) for name, values in self.weights.items()],
        )
        imports = [helper.make_opsetid("", 21)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10), self.feed

    def _numbers(self, *shape: int) -> np.ndarray:
        return self.rng.normal(size=shape).astype(np.float32)

    def _given(self, name: str, how: str, count: int) -> str:
        if how == "absent":
            return ""
        values = self._numbers(self.ways, count * self.net.hidden)
        self.weights[name] = np.zeros_like(values) if how == "zero" else values
        return name

    def _state(self, name: str, how: str) -> str:
        shape = self.ways, self.net.rows, self.net.hidden
        if how == "absent":
            return ""
        if how == "expanded":
            ends = np.array([self.ways]), np.array([self.net.hidden]), np.zeros((1, 1, 1))
            self.weights[f"{name}_ways"], self.weights[f"{name}_size"] = ends[:2]
            self.weights[f"{name}_zero"] = ends[2].astype(np.float32)
            self.nodes += [
                helper.make_node("Shape", ["x"], [f"{name}_rows"], start=1, end=2),
                helper.make_node(
                    "Concat",
                    [f"{name}_ways", f"{name}_rows", f"{name}_size"],
                    [f"{name}_sizes"],
                    axis=0,
                ),
                helper.make_node("Expand", [f"{name}_zero", f"{name}_sizes"], [name]),
            ]
        elif how == "input":
            self.feed[name] = self._numbers(*shape)
        else:
            values = self._numbers(*shape)
            self.weights[name] = np.zeros_like(values) if how == "zero" else values
        return name

    def _lengths(self) -> str:
        net, how = self.net, self.net.lengths
        if how == "absent":
            return ""
        values = self.rng.integers(0, net.steps + 1, net.rows).astype(np.int32)
        values = np.full_like(values, net.steps) if how == "full" else values
        (self.feed if how == "input" else self.weights)["lengths"] = values
        return "lengths"


def _value(name: str, values: np.ndarray) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(values.dtype)
    return helper.make_tensor_value_info(name, kind, values.shape)


@st.composite
def nets(draw: Any) -> Net:
    """Any of them."""
    op, way = draw(st.sampled_from([*GATES])), draw(st.sampled_from(WAYS))
    given = st.sampled_from(HOW_GIVEN)
    outputs = ("y", "h", "c") if op == "LSTM" else ("y", "h")
    return Net(
        op,
        way,
        draw(st.integers(1, 5)),
        draw(st.integers(1, 3)),
        draw(st.integers(1, 3)),
        draw(st.integers(1, 3)),
        draw(st.booleans()),
        draw(st.sampled_from(["absent", "full", "constant", "input"])),
        draw(given),
        draw(given),
        draw(st.sampled_from(["absent", "zero", "constant"])),
        draw(st.frozensets(st.sampled_from(outputs), min_size=1)),
        draw(_said(op, 2 if way == "bidirectional" else 1)),
        draw(st.integers(0, 1000)),
    )


@st.composite
def _said(draw: Any, op: str, ways: int) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if draw(st.booleans()):
        names = [st.sampled_from(NAMES)] * (FUNCTIONS[op] * ways)
        said["activations"] = list(draw(st.tuples(*names)))
        quarters = st.integers(-2, 4).map(lambda n: n / 4)
        for what, takers in (("alpha", ALPHA), ("beta", BETA)):
            most = sum(name in takers for name in said["activations"])
            if values := draw(st.lists(quarters, max_size=most)):
                said[f"activation_{what}"] = values
    if draw(st.booleans()):
        said["clip"] = draw(st.sampled_from([0.25, 1.0, 4.0]))
    if op == "GRU":
        said["linear_before_reset"] = draw(st.integers(0, 1))
    if op == "LSTM":
        said["input_forget"] = draw(st.integers(0, 1))
    return said
