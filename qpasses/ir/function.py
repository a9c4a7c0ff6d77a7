"""Functions of one real number, as small ONNX models: tables are made of them, and judged."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from calibration import Session
from opsets.errors import ModelError
from opsets.gelu import gelu, sigmoid
from opsets.table_rules import TableRules
from qpasses.ir.graph import Node, Tensor, constant
from qpasses.ir.runtime import IR_VERSION


@dataclass(frozen=True)
class Function:
    """Nodes that make ``y`` of ``x``, or of ``a`` and ``b``, number by number.

    Inputs and y are [N], or [C, N] where constants differ by channel. No name in ``model`` is
    that of a tensor.
    """

    model: onnx.ModelProto

    @classmethod
    def of(
        cls, nodes: Sequence[Node], sources: Sequence[Tensor], end: Tensor, opset: int
    ) -> "Function":
        """``end`` as a function of one or two ``sources``, by ``nodes`` in order."""
        given = ["x"] if len(sources) == 1 else ["a", "b"]
        names = {id(t): name for name, t in zip(given, sources, strict=True)}
        made: list[onnx.NodeProto] = []
        constants: list[TensorProto] = []
        for node in nodes:
            inputs = []
            for tensor in node.inputs:
                value = constant(tensor)
                if tensor.is_empty():
                    inputs.append("")
                elif value is None:
                    inputs.append(names[id(tensor)])
                else:
                    inputs.append(f"c{len(constants)}")
                    number = value.reshape(() if value.size == 1 else (-1, 1))
                    constants.append(numpy_helper.from_array(number, inputs[-1]))
            output = "y" if node.outputs[0] is end else f"t{len(made)}"
            names[id(node.outputs[0])] = output
            attributes = dict(sorted(node.attrs.items()))
            made.append(
                helper.make_node(node.op, inputs, [output], domain=node.domain, **attributes)
            )
        ends = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
            for name in (*given, "y")
        ]
        graph = helper.make_graph(made, "function", ends[:-1], ends[-1:], constants)
        imports = [helper.make_opsetid("", opset)]
        return cls(helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION))

    @classmethod
    def single(
        cls, op: str, domain: str, opset: int, attributes: Mapping[str, Any]
    ) -> "Function":
        """One op of one number, without constants."""
        ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("x", "y")]
        node = helper.make_node(op, ["x"], ["y"], domain=domain, **attributes)
        graph = helper.make_graph([node], "function", ends[:1], ends[1:])
        imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        return cls(helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION))

    @classmethod
    def from_text(cls, text: str) -> "Function":
        """What ``as_text`` made. Raises ValueError for anything else."""
        try:
            return cls(onnx.ModelProto.FromString(base64.b64decode(text, validate=True)))
        except (binascii.Error, DecodeError, UnicodeEncodeError) as error:
            raise ValueError(f"no function: {error}") from error

    def as_text(self) -> str:
        """Base 64 of the serialized model."""
        content = self.model.SerializeToString(deterministic=True)
        return base64.b64encode(content).decode("ascii")

    @property
    def channels(self) -> int:
        """How many channels the constants differ in; 0 where they are numbers."""
        return max((t.dims[0] for t in self.model.graph.initializer if t.dims), default=0)

    def inputs(self, x: NDArray[Any], channels: int = 0) -> NDArray[Any]:
        """All ``x`` [N] for each channel, of those it has or ``channels``."""
        count = self.channels or channels
        return np.tile(x, (count, 1)) if count else x

    def of_channel(self, channel: int) -> "Function":
        """That of one channel: constants that differ are its own."""
        if not self.channels:
            return self
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        for tensor in model.graph.initializer:
            if tensor.dims:
                value = numpy_helper.to_array(tensor)[channel, 0]
                tensor.CopyFrom(numpy_helper.from_array(np.asarray(value), tensor.name))
        return Function(model)

    @property
    def ops(self) -> list[str]:
        """The op types, in order."""
        return [node.op_type for node in self.model.graph.node]

    @property
    def slopes(self) -> NDArray[np.float64]:
        """What it makes of -1, negated: the slopes of a LeakyRelu or PRelu, [1] or [C]."""
        return -self.real(self.inputs(np.array([-1.0]))).ravel()

    def _feed(self, values: Sequence[NDArray[Any]]) -> dict[str, NDArray[Any]]:
        names = [value.name for value in self.model.graph.input]
        if len(names) != len(values):
            raise ModelError(f"a function of {len(names)} numbers where it is {len(values)}")
        return dict(zip(names, values, strict=True))

    def run(self, *x: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
        """y of each x, by onnxruntime in float32, without its optimizations."""
        session = _session(self.model.SerializeToString(deterministic=True))
        found: NDArray[np.float32] = session.run(["y"], self._feed(x))[0]
        return found

    def computed(self, *x: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """``run`` of float32, ``real`` of float64."""
        return self.run(*x) if x[0].dtype == np.float32 else self.real(*x)

    def computed_by(
        self, rules: TableRules, *x: NDArray[np.floating[Any]]
    ) -> NDArray[np.floating[Any]]:
        """y of each x, which are in ``rules.floats``, as the rules of a target want it."""
        if rules.functions == "runtime":
            return self.computed(*x)
        if rules.functions == "tflite" and self.ops == ["Sigmoid"]:
            return sigmoid(x[0])
        return self.legalized(*x)

    def legalized(self, *x: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """y of each x in double, rounded to their type once; GELU as its formula is written.

        So MLIR's legalization to TOSA computes the functions that it knows. Raises ModelError
        as ``real`` does.
        """
        nodes = self.model.graph.node
        if [node.op_type for node in nodes] == ["Gelu"]:
            given = {
                each.name: helper.get_attribute_value(each) for each in nodes[0].attribute
            }
            return gelu(x[0], given.get("approximate", b"none").decode())
        found = self.real(*(each.astype(np.float64) for each in x))
        with np.errstate(over="ignore"):
            return np.asarray(found.astype(x[0].dtype))

    def real(self, *x: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """y of each x in float64, by onnx's reference evaluator.

        Raises ModelError if it cannot.
        """
        from onnx.reference import ReferenceEvaluator  # its hundreds of ops take 13 MB

        double = onnx.ModelProto()
        double.CopyFrom(self.model)
        for tensor in double.graph.initializer:
            value = numpy_helper.to_array(tensor)
            if value.dtype == np.float32:
                tensor.CopyFrom(numpy_helper.from_array(value.astype(np.float64), tensor.name))
        numbers = {tensor.name for tensor in double.graph.initializer}
        for node in double.graph.node:
            if node.op_type == "Mean":  # the evaluator adds to its first operand, in place
                node.input[:] = sorted(node.input, key=numbers.__contains__)
        try:
            with np.errstate(all="ignore"):
                (found,) = ReferenceEvaluator(double).run(["y"], self._feed(x))
        except Exception as error:  # whatever its many implementations raise
            raise ModelError(f"onnx cannot evaluate {', '.join(self.ops)}: {error}") from error
        if np.shape(found) != np.shape(x[0]):
            raise ModelError(f"{', '.join(self.ops)} is no function of single numbers")
        return np.asarray(found, np.float64)


@lru_cache(maxsize=64)
def _session(content: bytes) -> Session:
    """That of a function, which tables of a network share and ask many times."""
    return Session(content, optimize=False, threads=1)
