"""Building a float graph node by node, with the shape of everything known."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike, NDArray
from onnx import TensorProto, helper, numpy_helper

Shape = tuple[int, ...]
Arrays = dict[str, NDArray[Any]]

MOST_ELEMENTS = 1500
IR_VERSION = 8


def _is_float(values: NDArray[Any]) -> bool:
    return values.dtype == np.float32


class Builder:
    """A graph that grows: ``shapes`` of its float tensors, types and shapes of ``others``."""

    def __init__(self, rng: np.random.Generator, opset: int) -> None:
        self.rng = rng
        self.opset = opset
        self.inputs: list[str] = []
        self.shapes: dict[str, Shape] = {}
        self.others: dict[str, tuple[int, Shape]] = {}
        self.nodes: list[onnx.NodeProto] = []
        self.constants: Arrays = {}
        self._count = 0

    def one_of(self, choices: Sequence[Any]) -> Any:
        """One of ``choices`` at random."""
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, probability: float) -> bool:
        """True so often."""
        return bool(self.rng.random() < probability)

    def whole(self, low: int, high: int) -> int:
        """A number from ``low`` to ``high``, both included."""
        return int(self.rng.integers(low, high, endpoint=True))

    def input(self, shape: Shape) -> str:
        """A new input."""
        name = f"x{len(self.inputs)}"
        self.inputs.append(name)
        self.shapes[name] = shape
        return name

    def whole_input(self, shape: Shape, kind: int) -> str:
        """A new input of conditions or whole numbers."""
        name = f"x{len(self.inputs)}"
        self.inputs.append(name)
        self.others[name] = kind, shape
        return name

    def fixed(self, values: ArrayLike, dtype: Any = np.int64) -> str:
        """A new constant."""
        self._count += 1
        name = f"c{self._count}"
        self.constants[name] = np.array(values, dtype)
        return name

    def weights(self, *shape: int) -> str:
        """A constant of random floats: normal, on a grid of powers of two, or extreme."""
        alike = [n for n, v in self.constants.items() if _is_float(v) and v.shape == shape]
        if alike and self.chance(0.2):
            return str(self.one_of(alike))
        values = self.rng.standard_normal(shape)
        kind = self.rng.random()
        if kind < 0.25:
            values = np.rint(values * 4) * 2.0 ** self.whole(-6, 2)
        elif kind < 0.29:
            values = values * self.one_of([1e-30, 1e30, 1e-12, 1e6])
        elif kind < 0.32:
            values = values * 0 + self.one_of([0, 1, -1])
        return self.fixed(values, np.float32)

    def matrix(self, *shape: int) -> str:
        """A constant of random floats that keeps states small."""
        return self.fixed(self.rng.normal(0, 0.7, shape), np.float32)

    def add(self, op: str, inputs: Sequence[str], outputs: int = 1, **attributes: Any) -> bool:
        """Append a node; False, and nothing happens, if its results have no known size."""
        self._count += 1
        names = [f"t{self._count}_{i}"[: None if i else -2] for i in range(outputs)]
        node = helper.make_node(op, inputs, names, name=f"n{self._count}", **attributes)
        found = self._inferred(node)
        if found is None or any(prod(shape) > MOST_ELEMENTS for _, shape in found):
            return False
        self.nodes.append(node)
        for name, (kind, shape) in zip(names, found, strict=True):
            if kind == TensorProto.FLOAT:
                self.shapes[name] = shape
            else:
                self.others[name] = kind, shape
        return True

    def _inferred(self, node: onnx.NodeProto) -> list[tuple[int, Shape]] | None:
        given = {name for name in node.input if name}
        known = self._known()
        values = [
            helper.make_tensor_value_info(name, *known[name])
            for name in sorted(given - self.constants.keys())
        ]
        ends = [onnx.ValueInfoProto(name=name) for name in node.output]
        graph = helper.make_graph([node], "g", values, ends, self._initializers(given))
        try:
            model = onnx.shape_inference.infer_shapes(
                self._model(graph), check_type=True, strict_mode=True, data_prop=True
            )
        except onnx.shape_inference.InferenceError:
            return None
        found = [each.type.tensor_type for each in model.graph.output]
        sizes = [d for each in found for d in each.shape.dim]
        if any(not each.HasField("shape") for each in found):
            return None
        if any(not d.HasField("dim_value") or d.dim_value < 1 for d in sizes):
            return None
        return [(e.elem_type, tuple(d.dim_value for d in e.shape.dim)) for e in found]

    def _known(self) -> dict[str, tuple[int, Shape]]:
        """By tensor, its type and shape."""
        floats = {name: (int(TensorProto.FLOAT), each) for name, each in self.shapes.items()}
        return floats | self.others

    def _initializers(self, names: set[str]) -> list[TensorProto]:
        used = {name: value for name, value in self.constants.items() if name in names}
        return [numpy_helper.from_array(value, name) for name, value in used.items()]

    def _model(self, graph: onnx.GraphProto) -> onnx.ModelProto:
        imports = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)

    def model(self, outputs: Sequence[str]) -> onnx.ModelProto:
        """The model that gives ``outputs``; the first axis of inputs may be of free size.

        Free sizes of one name are one size, which onnxruntime relies on.
        """
        free = self.chance(0.3)
        found = self._known()
        given = [
            helper.make_tensor_value_info(
                name, kind, [f"N{shape[0]}" if free else shape[0], *shape[1:]]
            )
            for name in self.inputs
            for kind, shape in [found[name]]
        ]
        ends = [
            helper.make_tensor_value_info(name, kind, [None] * len(shape))
            for name in outputs
            for kind, shape in [found[name]]
        ]
        used = {name for node in self.nodes for name in node.input}
        graph = helper.make_graph(self.nodes, "g", given, ends, self._initializers(used))
        return self._model(graph)
