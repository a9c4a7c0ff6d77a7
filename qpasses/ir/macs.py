"""Multiply-accumulates per node and sizes of tensors, for the sizes of a real sample."""

from collections.abc import Mapping, Sequence
from math import prod

import onnx

from qpasses.ir.graph import Graph
from qpasses.ir.interchange import prepared_model
from qpasses.ir.rewriting import Context
from qpasses.ir.run_sizes import run_sizes
from qpasses.ir.shapes import infer_shapes

COUNTED = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
"""Ops whose multiply-accumulates are counted."""

MULTIPLYING = COUNTED | {
    *("Attention", "DeformConv", "Einsum", "FusedConv", "FusedGemm", "FusedMatMul", "GRU"),
    *("If", "LSTM", "Loop", "MultiHeadAttention", "QAttention", "RNN", "Scan"),
}
"""Ops that hold multiply-accumulates, counted or not: none may be left in an integer graph."""


def measure(graph: Graph, context: Context) -> None:
    """Tell ``context`` the multiply-accumulates of a float graph, and its tensors' sizes.

    Counted are Conv, ConvTranspose, Gemm and MatMul. Free dimensions take the recorded sizes,
    by input name, and where inference ends, sizes are those of a run on made-up numbers. A
    node whose output stays of unknown size even then counts 0. Raises ValueError if an input
    has another rank.
    """
    model = _with_sizes(prepared_model(graph), context.record.sizes)
    sized = infer_shapes(model).graph
    values = [*sized.value_info, *sized.output, *sized.input]
    inferred = {value.name: _dims(value) for value in values}
    written = [name for node in sized.node for name in node.output if name]
    found = {name: inferred.get(name) for name in [*(x.name for x in sized.input), *written]}
    unknown = [name for name, dims in found.items() if dims is None]
    found |= run_sizes(model, context.record.sizes, unknown)
    context.sizes = {name: dims for name, dims in found.items() if dims is not None}
    known = {each.name: list(each.dims) for each in sized.initializer} | context.sizes
    counted = [node for node in sized.node if node.op_type in COUNTED]
    context.record.macs = {node.name: _count(node, known) for node in counted}


def _dims(value: onnx.ValueInfoProto) -> list[int] | None:
    """The sizes of a tensor; None if one of them is not known."""
    if not value.type.tensor_type.HasField("shape"):
        return None
    dims = value.type.tensor_type.shape.dim
    is_known = all(dim.HasField("dim_value") for dim in dims)
    return [dim.dim_value for dim in dims] if is_known else None


def _count(node: onnx.NodeProto, known: Mapping[str, Sequence[int]]) -> int:
    x, weights, y = (known.get(name) for name in (*node.input[:2], node.output[0]))
    if x is None or weights is None or y is None:
        return 0
    if node.op_type == "Conv":
        return prod(y) * prod(weights[1:])
    if node.op_type == "ConvTranspose":
        return prod(x) * prod(weights[1:])
    transposed = any(each.name == "transA" and each.i for each in node.attribute)
    return prod(y) * x[-2 if node.op_type == "Gemm" and transposed else -1]


def _with_sizes(model: onnx.ModelProto, sizes: Mapping[str, Sequence[int]]) -> onnx.ModelProto:
    del model.graph.value_info[:]
    for value in model.graph.input:
        if value.name in sizes:
            dims = value.type.tensor_type.shape.dim
            for dim, size in zip(dims, sizes[value.name], strict=True):
                dim.dim_value = size
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return model
