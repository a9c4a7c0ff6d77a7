"""The stored tensors of an integer graph, in its order, and what lies between them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from onnx import TensorProto, helper

from qpasses.ir.flow import BEGUN, CARRIED_OUT, COLLECTED, FLOW, JOINED
from qpasses.ir.graph import Node, Tensor, constant, producer
from qpasses.ir.record import AnyQuantization
from qpasses.load.integer_model import IntegerModel


@dataclass(frozen=True)
class StoredTensors:
    """Those of the inputs, then those that nodes write, in the order of the graph."""

    read: IntegerModel

    @cached_property
    def inputs(self) -> Sequence[str]:
        """The inputs that are stored integers themselves."""
        known = self.read.record.tensors
        return [tensor.name for tensor in self.read.graph.inputs if tensor.name in known]

    @cached_property
    def writers(self) -> Mapping[str, Node]:
        """By stored tensor, the node that writes it, in order."""
        known = self.read.record.tensors
        return {
            tensor.name: node
            for node in self.read.graph.nodes
            for tensor in node.outputs
            if tensor.name in known
        }

    @cached_property
    def names(self) -> Sequence[str]:
        """All of them."""
        return [*self.inputs, *self.writers]

    @cached_property
    def starts(self) -> Mapping[str, Sequence[int | str]]:
        """The stored tensors that inputs are, or become by a QuantizeLinear; their shapes."""
        quantized = [node.outputs[0] for node in self.read.graph.nodes if _starts(node)]
        known = {tensor.name: tensor for tensor in (*self.read.graph.inputs, *quantized)}
        return {name: known[name].shape or () for name in self.names if name in known}

    def meaning(self, name: str) -> AnyQuantization:
        """What its codes mean."""
        return self.read.record.tensors[name]

    def element_type(self, name: str) -> int:
        """ONNX's number for its codes, or for a condition."""
        if name in self.control:
            return self.control[name]
        return int(helper.np_dtype_to_tensor_dtype(np.dtype(self.meaning(name).dtype)))

    @cached_property
    def control(self) -> Mapping[str, int]:
        """What tells which branches run and how often loops turn, where nodes compute it.

        With the types of elements.
        """
        found = dict[str, int]()
        for node in (each for each in self.read.graph.nodes if each.domain == FLOW):
            for tensor, kind in zip(*_control(node), strict=False):
                before = producer(tensor)
                if _varies(tensor) and before is not None and before.op != BEGUN:
                    found[tensor.name] = kind
        return found

    def between(self, name: str, known: Collection[str]) -> tuple[list[str], list[str]]:
        """The nodes that make ``name``, in order, and of what: of ``known``, or of inputs."""
        nodes, starts = dict[str, Node](), dict[str, None]()
        waiting = [self.writers[name]]
        while waiting:
            node = waiting.pop()
            if node.name in nodes:
                continue
            nodes[node.name] = node
            for tensor in filter(_varies, node.inputs):
                before = None if tensor.name in known else producer(tensor)
                if before is None:
                    starts[tensor.name] = None
                else:
                    waiting.append(before)
        order = (node.name for node in self.read.graph.nodes)
        return [each for each in order if each in nodes], sorted(starts)


def _varies(tensor: Tensor) -> bool:
    return bool(tensor.name) and constant(tensor) is None


def _control(node: Node) -> tuple[Sequence[Tensor], Sequence[int]]:
    """What a node of domain FLOW reads that is no value, and its types."""
    if node.op == BEGUN:
        return node.inputs, [TensorProto.INT64, TensorProto.BOOL]
    if node.op == JOINED:
        return node.inputs[:1], [TensorProto.BOOL]
    ends = {CARRIED_OUT: node.inputs[2:], COLLECTED: node.inputs[1:]}
    return ends.get(node.op, []), [TensorProto.BOOL]


def _starts(node: Node) -> bool:
    return node.op == "QuantizeLinear" and producer(node.inputs[0]) is None
