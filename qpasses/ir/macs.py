"""Multiply-accumulates per node and sizes of tensors, for the sizes of a real sample."""

from collections.abc import Mapping, Sequence
from math import prod

import onnx

from qpasses.ir.graph import Graph, Node, import_graph, prepared_model
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
    sized = import_graph(infer_shapes(model))
    tensors = [*sized.inputs, *(t for node in sized.nodes for t in node.outputs)]
    unknown = {t.name: t for t in tensors if t.name and not _is_known(t.shape)}
    for name, sizes in run_sizes(model, context.record.sizes, [*unknown]).items():
        unknown[name].shape = sizes
    context.record.macs = {
        node.name: _count(node) for node in sized.nodes if node.op in COUNTED
    }
    context.sizes = {t.name: list(t.shape) for t in tensors if _is_known(t.shape)}


def _is_known(shape: Sequence[int | str] | None) -> bool:
    return shape is not None and all(isinstance(size, int) for size in shape)


def _count(node: Node) -> int:
    x, weights, y = node.inputs[0].shape, node.inputs[1].shape, node.outputs[0].shape
    shapes = [x, weights, y]
    if not all(map(_is_known, shapes)):
        return 0
    if node.op == "Conv":
        return int(prod(y) * prod(weights[1:]))
    if node.op == "ConvTranspose":
        return int(prod(x) * prod(weights[1:]))
    inner = x[-2] if node.op == "Gemm" and node.attrs.get("transA", 0) else x[-1]
    return int(prod(y) * inner)


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
