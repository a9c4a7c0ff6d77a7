"""Models whose weights are float16 or bfloat16, in float32, from which integers follow."""

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from qpasses.ir.model_nodes import nested_graphs, nodes_of
from qpasses.ir.recurrent_nodes import GATES

_HALVES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)

TYPES = ("to", "dtype", "output_dtype", "stash_type")
"""Attributes that name a type of elements."""


_WEIGHTED = frozenset(
    {"Conv", "ConvTranspose", "Gemm", "MatMul", "BatchNormalization", *GATES}
)


def half_type(model: onnx.ModelProto) -> str | None:
    """``float16`` or ``bfloat16`` if the weights of ``model`` are that, and none float32."""
    read = weighted_kinds(model)
    if TensorProto.FLOAT in read:
        return None
    found = next((kind for kind in read if kind in _HALVES), None)
    return None if found is None else TensorProto.DataType.Name(found).lower()


_TURNING = frozenset({"Transpose", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""What stands between weights and the node that reads them, as exporters write it."""


def weighted_kinds(model: onnx.ModelProto) -> list[int | None]:
    """The types of constants that nodes with weights read behind their first input.

    Calls of local functions read weights too: constants of two dimensions or more.
    """
    kinds: dict[str, int] = {}
    large = set[str]()
    for tensor in (t for graph in nested_graphs(model.graph) for t in graph.initializer):
        kinds[tensor.name] = tensor.data_type
        large |= {tensor.name} if len(tensor.dims) > 1 else set()
    local = {(function.domain, function.name) for function in model.functions}
    found = list[int | None]()
    for node in nodes_of(model):
        if node.op_type == "Constant" and node.attribute and node.attribute[0].HasField("t"):
            kinds[node.output[0]] = node.attribute[0].t.data_type
        elif node.op_type in _TURNING and node.input[0] in kinds:
            kinds[node.output[0]] = kinds[node.input[0]]
        elif (node.domain, node.op_type) in local:
            found += [kinds[name] for name in node.input if name in large]
        elif node.op_type in _WEIGHTED:
            found += [kinds.get(name) for name in node.input[1:]]
    return found


def widened(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` in float32, its inputs and outputs too; every number in it is the same."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    nodes = [node for function in made.functions for node in function.node]
    for tensor in _tensors(made, [*nodes_of(made), *nodes]):
        if tensor.data_type in _HALVES:
            values = numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    for node in [*nodes_of(made), *nodes]:
        for attribute in node.attribute:
            if attribute.name in TYPES and attribute.i in _HALVES:
                attribute.i = TensorProto.FLOAT
    for graph in nested_graphs(made.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            is_sequence = value.type.HasField("sequence_type")
            kind = value.type.sequence_type.elem_type if is_sequence else value.type
            if kind.tensor_type.elem_type in _HALVES:
                kind.tensor_type.elem_type = TensorProto.FLOAT
    return made


def _tensors(
    model: onnx.ModelProto, nodes: list[onnx.NodeProto]
) -> Iterator[onnx.TensorProto]:
    for graph in nested_graphs(model.graph):
        yield from graph.initializer
    for attribute in (each for node in nodes for each in node.attribute):
        yield from [attribute.t] if attribute.HasField("t") else attribute.tensors
