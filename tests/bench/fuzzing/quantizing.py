"""Putting QuantizeLinear and DequantizeLinear into a float graph, in ways drawn at random."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.bench.fuzzing import codes
from tests.bench.fuzzing.builder import Arrays, Builder
from tests.bench.fuzzing.codes import Stored

WEIGHTED = {"Conv": 0, "ConvTranspose": 1, "Gemm": 1, "MatMul": -1}
"""Ops with weights, and the axis of their output channels."""

OPERANDS = {*("Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu", "Concat", "Where"), *WEIGHTED}
"""Ops whose constants may be stored."""

STYLES = ("everywhere", "everywhere", "weighted", "most", "some")


@dataclass(frozen=True)
class Habits:
    """What an exporter does: where it stores tensors, in which types, and how it says so."""

    style: str
    types: Sequence[Any]
    without: str  # an op beside which nothing is stored
    one_reader: bool  # a DequantizeLinear for each reader
    constants: str  # "initializer", "identity" or "node"
    integer_edges: bool
    absorbs: bool  # a Relu into the range behind it

    @classmethod
    def drawn(cls, b: Builder, ops: Sequence[str]) -> "Habits":
        """At random, for a graph of ``ops``."""
        bytes_ = [[np.uint8], [np.uint8], [np.int8], [np.int8], [np.uint8, np.int8]]
        types = b.one_of(bytes_)
        if b.opset >= 21 and b.chance(0.3):
            types = [*types, *types, np.int16, np.uint16]
        return cls(
            b.one_of(STYLES),
            types,
            b.one_of(ops) if b.chance(0.25) else "",
            b.chance(0.4),
            b.one_of(["initializer"] * 4 + ["identity", "node"]),
            b.chance(0.25),
            b.chance(0.3),
        )


class Quantizing:
    """``graph``, rebuilt node by node with what is stored between."""

    def __init__(self, b: Builder, model: onnx.ModelProto, seen: Sequence[Arrays]) -> None:
        self.b, self.model = b, model
        self.habits = Habits.drawn(b, [node.op_type for node in model.graph.node])
        self.seen = seen
        self.constants: Arrays = {
            each.name: numpy_helper.to_array(each) for each in model.graph.initializer
        }
        self.made: Arrays = dict(self.constants)
        self.nodes: list[onnx.NodeProto] = []
        self.stored: dict[str, tuple[str, Stored]] = {}
        self.real: dict[str, str] = {}
        self.decided: dict[str, bool] = {}
        self.absorbed: dict[str, str] = {}
        self._count = 0

    def run(self) -> None:
        """All nodes; outputs are stored, dequantized, or left as they are."""
        for node in self.model.graph.node:
            if node.op_type in ("Relu", "Clip") and self._absorb(node):
                continue
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            x = w = None
            for index, name in enumerate(node.input):
                if name in self.constants:
                    copy.input[index], how = self._constant(node, index, x, w)
                    w = how if index == 1 else w
                elif name:
                    copy.input[index] = self._read(name, node)
                    x = self._how(copy.input[index]) if index == 0 else x
            self.nodes.append(copy)

    def add(self, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Append a node of one output."""
        self._count += 1
        name = f"{op[0].lower()}q{self._count}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=f"{name}_n", **attributes))
        return name

    def fixed(self, values: Any) -> str:
        """A constant, as the exporter writes them."""
        self._count += 1
        name = f"k{self._count}"
        if self.habits.constants == "node":
            tensor = numpy_helper.from_array(np.asarray(values), name)
            return self.add("Constant", [], value=tensor)
        self.made[name] = np.asarray(values)
        return self.add("Identity", [name]) if self.habits.constants == "identity" else name

    def store(self, name: str, source: str, how: Stored) -> str:
        """A QuantizeLinear of ``source``; what its integers mean is known by their name."""
        parameters = self._parameters(how)
        stored = self.add("QuantizeLinear", [source, *parameters], **_axis(how))
        self.stored[name] = stored, how
        return stored

    def dequantize(self, stored: str, how: Stored) -> str:
        """A DequantizeLinear."""
        real = self.add("DequantizeLinear", [stored, *self._parameters(how)], **_axis(how))
        self.real[real] = stored
        return real

    def end(self, name: str) -> tuple[str, Any]:
        """What an output of the graph is now called, and its type if it holds integers."""
        if name in self.constants or self._values(name)[0].dtype != np.float32:
            return self.absorbed.get(name, name), None
        kind = self.b.rng.random()
        if name not in self.absorbed and (kind < 0.4 or self.habits.style == "weighted"):
            return name, None
        stored, how = self._known(name)
        if self.habits.integer_edges and kind > 0.5:
            return stored, how.dtype
        return self.dequantize(stored, how), None

    def _parameters(self, how: Stored) -> list[str]:
        """Scale, and zero point where it says more than none."""
        plain = how.dtype in (np.uint8, np.int32) and not how.zero.any() and self.b.chance(0.4)
        return [self.fixed(how.scale), *([] if plain else [self.fixed(how.zero)])]

    def _values(self, name: str) -> Sequence[Any]:
        return [each[name] for each in self.seen]

    def _how(self, real: str) -> Stored | None:
        stored = self.real.get(real)
        return next((how for name, how in self.stored.values() if name == stored), None)

    def _absorb(self, node: onnx.NodeProto) -> bool:
        """Whether the range of what is stored takes the place of a Relu or Clip."""
        if not self.habits.absorbs or self.habits.style == "weighted" or self.b.chance(0.5):
            return False
        if node.input[0] in self.constants:
            return False
        self.absorbed[node.output[0]] = node.input[0]
        return True

    def _wants(self, name: str, reader: onnx.NodeProto) -> bool:
        """Whether ``reader`` reads ``name`` as it is stored."""
        if self._values(name)[0].dtype != np.float32:
            return False
        if name in self.absorbed:
            return True
        if self.habits.style == "weighted":
            return reader.op_type in WEIGHTED
        if self.habits.without == reader.op_type:
            return False
        often = {"everywhere": 1.0, "most": 0.8, "some": 0.45}[self.habits.style]
        wanted = self.decided.setdefault(name, self.b.chance(often))
        return wanted and not self.b.chance(0.04)

    def _read(self, name: str, reader: onnx.NodeProto) -> str:
        """What ``reader`` reads instead of ``name``."""
        if not self._wants(name, reader):
            return name
        stored, how = self._known(name)
        if self.b.chance(0.06):  # the same numbers a second time, in another way
            other = self._drawn(name)
            stored, how = self.store(f"{name} again", self._source(name), other), other
        known = [real for real, source in self.real.items() if source == stored]
        shared = known and not self.habits.one_reader
        real = known[0] if shared else self.dequantize(stored, how)
        if self.b.chance(0.06):  # a chain
            other = self._drawn(name)
            real = self.dequantize(self.store(f"{name} chain", real, other), other)
        return real

    def _known(self, name: str) -> tuple[str, Stored]:
        if name not in self.stored:
            self.store(name, self._source(name), self._drawn(name))
        return self.stored[name]

    def _source(self, name: str) -> str:
        while name in self.absorbed:
            name = self.absorbed[name]
        return name

    def _drawn(self, name: str) -> Stored:
        channels = self.b.opset >= 13 and self.b.chance(0.015)
        dtype = self.b.one_of(self.habits.types)
        return codes.activation(self.b, self._values(name), dtype, channels)

    def _constant(
        self, node: onnx.NodeProto, index: int, x: Stored | None, w: Stored | None
    ) -> tuple[str, Stored | None]:
        """A float constant, its integers behind a DequantizeLinear, or both Q and DQ."""
        name = node.input[index]
        values = self.constants[name]
        if values.dtype != np.float32 or node.op_type not in OPERANDS or self.b.chance(0.12):
            return name, None
        if index == 2 and node.op_type in WEIGHTED:
            if self.b.chance(0.5):
                return name, None
            how = codes.steps_of_bias(self.b, x, w)
            if values.ndim != 1 or how.scale.size not in (1, values.size):
                return name, None
            if self.b.opset < 13 and how.axis is not None:
                return name, None
            return self.dequantize(self.fixed(how.codes(values)), how), how
        how = codes.weights(self.b, values, self._axis_of(node, values.ndim))
        return self._weight(name, values, how), how

    def _axis_of(self, node: onnx.NodeProto, dims: int) -> int | None:
        """Of the output channels, if they have a scale each."""
        if node.op_type not in WEIGHTED or self.b.opset < 13 or dims < 2:
            return None
        turned = any(each.name == "transB" and each.i for each in node.attribute)
        axis = 0 if turned else WEIGHTED[node.op_type] % dims
        return axis if self.b.chance(0.55) else None

    def _weight(self, name: str, values: Any, how: Stored) -> str:
        kind = self.b.rng.random()
        if kind < 0.2:
            stored = self.add(
                "QuantizeLinear", [name, *self._parameters_of(how)], **_axis(how)
            )
            return self.dequantize(stored, how)
        if kind < 0.3 and values.ndim == 2:
            axis = None if how.axis is None else 1 - how.axis
            other = Stored(how.scale, how.zero, axis)
            turned = self.dequantize(self.fixed(how.codes(values).T.copy()), other)
            return self.add("Transpose", [turned], perm=[1, 0])
        if kind < 0.36 and how.axis is None:
            flat = self.dequantize(self.fixed(how.codes(values).reshape(-1)), how)
            return self.add("Reshape", [flat, self.fixed(np.array(values.shape, np.int64))])
        real = self.dequantize(self.fixed(how.codes(values)), how)
        return self.add("Identity", [real]) if kind < 0.42 else real

    def _parameters_of(self, how: Stored) -> list[str]:
        return [self.fixed(how.scale), self.fixed(how.zero)]


def _axis(how: Stored) -> Mapping[str, int]:
    return {} if how.axis is None else {"axis": how.axis}
