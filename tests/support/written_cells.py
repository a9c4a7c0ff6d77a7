"""Cells of recurrent nets as exporters write them: nodes for one step, in many ways."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import NodeProto, TensorProto, helper, numpy_helper

GATES = {"LSTM": "iofc", "GRU": "zrh", "RNN": "h"}


@dataclass
class Writing:
    """How a cell is written. ``order`` of the gates among the columns of one product.

    ``product``: one for x and h beside each other, one for each of the two, or one for each
    gate; ``blend``: the way in which a GRU mixes old and new.
    """

    op: str = "LSTM"
    rows: int = 2
    size: int = 3
    hidden: int = 2
    steps: int = 4
    order: str = ""
    product: str = "two"
    is_gemm: bool = False
    has_bias: bool = True
    peepholes: bool = False
    is_coupled: bool = False
    linear_before_reset: bool = False
    blend: int = 0
    swaps: int = 0
    inner: str = "Sigmoid"
    outer: str = "Tanh"
    seed: int = 0

    @property
    def is_said_by_onnx(self) -> bool:
        """Whether LSTM and GRU can say it: 1 minus a gate is a gate of few functions."""
        takes = self.is_coupled if self.op == "LSTM" else self.blend == 2 and self.op == "GRU"
        return not takes or self.inner in ("Sigmoid", "HardSigmoid")


BLENDS = 4


@dataclass
class Step:
    """Nodes of steps, their weights, and names."""

    how: Writing
    prefix: str = ""
    nodes: list[NodeProto] = field(default_factory=list)
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    flips: int = 0

    def __post_init__(self) -> None:
        how, gates = self.how, GATES[self.how.op]
        rng = np.random.default_rng(how.seed)
        order = how.order or gates

        def numbers(*shape: int) -> np.ndarray:
            return rng.normal(size=shape).astype(np.float32)

        parts = {gate: {} for gate in gates}
        for gate in gates:
            parts[gate] = {
                "w": numbers(how.size, how.hidden),
                "r": numbers(how.hidden, how.hidden),
                "b": numbers(how.hidden),
                "q": numbers(how.hidden),
            }
        for gate in gates:
            for what, values in parts[gate].items():
                self.weights[f"{what}_{gate}"] = values
        for what in "wrbq":
            whole = np.concatenate([parts[gate][what] for gate in order], -1)
            self.weights[what] = whole
        self.weights["wr"] = np.concatenate([self.weights["w"], self.weights["r"]])
        self.weights["one"] = np.array(1, np.float32)
        self.weights["sizes"] = np.full(len(gates), how.hidden, np.int64)
        for place, gate in enumerate("iof"):
            self.weights[f"p_{gate}"] = numbers(how.hidden) + place

    def add(self, op: str, *inputs: str, y: str = "", **attributes: Any) -> str:
        y = y or f"{self.prefix}t{len(self.nodes)}"
        if op in ("Add", "Mul") and len(inputs) == 2:
            self.flips += 1
            if self.how.swaps >> (self.flips % 8) & 1:
                inputs = inputs[::-1]
        self.nodes.append(helper.make_node(op, inputs, [y], f"{y}_node", **attributes))
        return y

    def product(self, x: str, what: str, bias: str = "") -> str:
        if self.how.is_gemm:
            return self.add("Gemm", x, what, *([bias] if bias else []))
        found = self.add("MatMul", x, what)
        return self.add("Add", found, bias) if bias else found

    def split(self, x: str) -> dict[str, str]:
        gates = self.how.order or GATES[self.how.op]
        names = [f"{self.prefix}{x}_{gate}" for gate in gates]
        if len(names) == 1:
            return {gates: x}
        self.nodes.append(
            helper.make_node("Split", [x, "sizes"], names, f"{x}_split", axis=-1)
        )
        return dict(zip(gates, names, strict=True))

    def sums(self, x: str, h: str) -> dict[str, str]:
        how, bias = self.how, "b" if self.how.has_bias else ""
        if how.product == "joined":
            both = self.add("Concat", x, h, axis=-1)
            return self.split(self.product(both, "wr", bias))
        if how.product == "two":
            first, second = self.product(x, "w", bias), self.product(h, "r")
            return self.split(self.add("Add", first, second))
        found = {}
        for gate in GATES[how.op]:
            own = f"b_{gate}" if how.has_bias else ""
            first, second = self.product(x, f"w_{gate}", own), self.product(h, f"r_{gate}")
            found[gate] = self.add("Add", first, second)
        return found

    def lstm(self, x: str, h: str, c: str, h_new: str, c_new: str) -> None:
        how, sums = self.how, self.sums(x, h)
        if how.peepholes:
            for gate in "if":
                sums[gate] = self.add("Add", sums[gate], self.add("Mul", c, f"p_{gate}"))
        i = self.add(how.inner, sums["i"])
        f = self.add("Sub", "one", i) if how.is_coupled else self.add(how.inner, sums["f"])
        g = self.add(how.outer, sums["c"])
        kept, new = self.add("Mul", f, c), self.add("Mul", i, g)
        self.add("Add", kept, new, y=c_new)
        if how.peepholes:
            sums["o"] = self.add("Add", sums["o"], self.add("Mul", c_new, "p_o"))
        o = self.add(how.inner, sums["o"])
        self.add("Mul", o, self.add("Tanh", c_new), y=h_new)

    def gru(self, x: str, h: str, h_new: str) -> None:
        how = self.how
        before = self.split(self.product(x, "w", "b" if how.has_bias else ""))
        if how.linear_before_reset:
            inside = self.split(self.product(h, "r", "q" if how.has_bias else ""))
        else:
            inside = {gate: self.product(h, f"r_{gate}") for gate in "zr"}
        z, r = (
            self.add(how.inner, self.add("Add", before[gate], inside[gate])) for gate in "zr"
        )
        if how.linear_before_reset:
            reset = self.add("Mul", r, inside["h"])
        else:
            reset = self.product(self.add("Mul", r, h), "r_h")
        n = self.add(how.outer, self.add("Add", before["h"], reset))
        if how.blend == 0:  # z * h + (1 - z) * n
            new = self.add("Mul", self.add("Sub", "one", z), n)
            self.add("Add", self.add("Mul", z, h), new, y=h_new)
        elif how.blend == 1:  # n + z * (h - n)
            self.add("Add", n, self.add("Mul", z, self.add("Sub", h, n)), y=h_new)
        elif how.blend == 2:  # (1 - z) * h + z * n
            old = self.add("Mul", self.add("Sub", "one", z), h)
            self.add("Add", old, self.add("Mul", z, n), y=h_new)
        else:  # n - z * n + z * h
            left = self.add("Sub", n, self.add("Mul", z, n))
            self.add("Add", left, self.add("Mul", z, h), y=h_new)

    def cell(self, x: str, h: str, c: str, h_new: str, c_new: str) -> None:
        if self.how.op == "LSTM":
            self.lstm(x, h, c, h_new, c_new)
        elif self.how.op == "GRU":
            self.gru(x, h, h_new)
        else:
            self.add(self.how.outer, self.sums(x, h)["h"], y=h_new)

    @property
    def states(self) -> str:
        """The names of the states, a letter each."""
        return "hc" if self.how.op == "LSTM" else "h"

    def used(self) -> list[TensorProto]:
        """The weights that nodes read."""
        read = {name for node in self.nodes for name in node.input}
        return [numpy_helper.from_array(v, k) for k, v in self.weights.items() if k in read]


def value(name: str, *shape: Any, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


@st.composite
def writings(draw: Any) -> Writing:
    op = draw(st.sampled_from([*GATES]))
    return Writing(
        op,
        draw(st.integers(1, 3)),
        draw(st.integers(1, 3)),
        draw(st.integers(1, 3)),
        draw(st.integers(1, 4)),
        "".join(draw(st.permutations(GATES[op]))),
        draw(st.sampled_from(["joined", "two", "each"])),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.integers(0, BLENDS - 1)),
        draw(st.integers(0, 255)),
        draw(st.sampled_from(["Sigmoid", "HardSigmoid", "Tanh", "Relu"])),
        draw(st.sampled_from(["Tanh", "Relu", "Softsign", "LeakyRelu"])),
        seed=draw(st.integers(0, 1000)),
    )
