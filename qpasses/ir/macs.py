"""Multiply-accumulates per node and sizes of tensors, for the sizes of a real sample."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import onnx
from onnx import TensorProto, helper, numpy_helper

from qpasses.ir.graph import Graph
from qpasses.ir.interchange import prepared_model
from qpasses.ir.model_nodes import nested_graphs
from qpasses.ir.rewriting import Context
from qpasses.ir.run_sizes import run_sizes
from qpasses.ir.shapes import infer_shapes
from qpasses.ir.splicing import may_splice

MULTIPLYING = frozenset(
    {
        *("Attention", "Conv", "ConvTranspose", "DeformConv", "Einsum", "FusedConv"),
        *("FusedGemm", "FusedMatMul", "GRU", "Gemm", "If", "LSTM", "Loop", "MatMul"),
        *("MultiHeadAttention", "QAttention", "RNN", "Scan"),
    }
)
"""Ops that hold multiply-accumulates, counted or not: none may be left in an integer graph."""


def measure(graph: Graph, context: Context) -> None:
    """Tell ``context`` the multiply-accumulates of a float graph, and its tensors' sizes.

    Counted are Conv, ConvTranspose, Gemm, MatMul, recurrent layers, and what is inside of If
    (its larger branch), Loop and Scan (times how often it runs). Free dimensions take the
    recorded sizes, by input name, and where inference ends, sizes are those of a run on
    made-up numbers. What cannot be counted even then has no entry. Raises ValueError if an
    input has another rank.
    """
    model = _with_sizes(prepared_model(graph), context.record.sizes)
    sized = infer_shapes(model).graph
    graphs = list(nested_graphs(sized))
    values = [v for each in graphs for v in (*each.value_info, *each.output, *each.input)]
    inferred = {value.name: _dims(value) for value in values}
    written = [name for each in graphs for n in each.node for name in n.output if name]
    found = {name: inferred.get(name) for name in [*(x.name for x in sized.input), *written]}
    unknown = [name for name, dims in found.items() if dims is None]
    found |= run_sizes(model, context.record.sizes, unknown)
    context.sizes = {name: dims for name, dims in found.items() if dims is not None}
    known = _Known({}, {}).inside(sized)
    known = _Known({**known.sizes, **context.sizes}, known.scalars)
    if _carry_sizes(model, known):
        sized = infer_shapes(model).graph
    once = dict(_counts(sized, known))
    context.times = dict(_iterated(sized, known, 1))
    context.record.macs = {
        name: count * context.times.get(name, 1)
        for name, count in once.items()
        if count is not None and (not count or context.times.get(name, 1))
    }


def _dims(value: onnx.ValueInfoProto) -> list[int] | None:
    """The sizes of a tensor; None if one of them is not known."""
    if not value.type.tensor_type.HasField("shape"):
        return None
    dims = value.type.tensor_type.shape.dim
    is_known = all(dim.HasField("dim_value") for dim in dims)
    return [dim.dim_value for dim in dims] if is_known else None


@dataclass(frozen=True)
class _Known:
    """Sizes of tensors by name, and the whole numbers and truths among the constants."""

    sizes: Mapping[str, Sequence[int]]
    scalars: Mapping[str, int]

    def inside(self, graph: onnx.GraphProto) -> "_Known":
        """What is known in ``graph``, which may be a body: there it reads what is around."""
        values = [*graph.input, *graph.value_info, *graph.output]
        sizes = {each.name: dims for each in values if (dims := _dims(each)) is not None}
        constants = [*graph.initializer, *_constants(graph.node)]
        sizes |= {each.name: list(each.dims) for each in constants}
        scalars = {
            each.name: int(numpy_helper.to_array(each).item())
            for each in constants
            if each.data_type in _SCALAR and prod(each.dims) == 1
        }
        return _Known({**self.sizes, **sizes}, {**self.scalars, **scalars})


_SCALAR = (TensorProto.INT64, TensorProto.BOOL)


def _constants(nodes: Iterable[onnx.NodeProto]) -> list[TensorProto]:
    """The tensors of Constant nodes, called as these write them."""
    found = []
    for node in nodes:
        for each in node.attribute:
            if node.op_type == "Constant" and each.name == "value":
                found.append(TensorProto())
                found[-1].CopyFrom(each.t)
                found[-1].name = node.output[0]
    return found


def _multiplying(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    return [node for node in graph.node if node.op_type in MULTIPLYING]


def _counts(graph: onnx.GraphProto, known: _Known) -> Iterator[tuple[str, int | None]]:
    """The multiply-accumulates of each node of ``graph``, run once.

    Those of bodies for themselves where these are spliced.
    """
    for node in _multiplying(graph):
        if not may_splice(node):
            yield node.name, _count(node, known)
            continue
        for body in _bodies(node):
            around = known.inside(body)
            if node.op_type != "Scan":
                yield from _counts(body, around)
            else:
                yield from ((each.name, _count(each, around)) for each in _multiplying(body))


def _iterated(graph: onnx.GraphProto, known: _Known, times: int) -> Iterator[tuple[str, int]]:
    """How often each node of an iteration runs, those of ``graph`` so many ``times``."""
    for node in (each for each in graph.node if may_splice(each)):
        for body in _bodies(node):
            if node.op_type == "If":
                yield from _iterated(body, known.inside(body), times)
                continue
            runs = times * (_runs(node, known) or 0)
            yield from ((each.name, runs) for each in body.node)
            if node.op_type == "Loop":
                yield from _iterated(body, known.inside(body), runs)


def _bodies(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    return [each.g for each in node.attribute if each.HasField("g")]


def _count(node: onnx.NodeProto, known: _Known) -> int | None:
    """The multiply-accumulates of a node; None where they are not known."""
    counter = _COUNTERS.get(node.op_type)
    return None if counter is None else counter(node, known)


def _of_product(node: onnx.NodeProto, known: _Known) -> int | None:
    x, weights, y = (known.sizes.get(name) for name in (*node.input[:2], node.output[0]))
    if x is None or weights is None or y is None:
        return None
    if node.op_type in ("Conv", "FusedConv"):
        return prod(y) * prod(weights[1:])
    if node.op_type == "ConvTranspose":
        return prod(x) * prod(weights[1:])
    transposed = node.op_type != "MatMul" and _attributes(node).get("transA")
    return prod(y) * x[-2 if transposed else -1]


def _of_steps(node: onnx.NodeProto, known: _Known) -> int | None:
    """Of a recurrent layer: each step multiplies an input and a state by all weights.

    Gates and directions are in the weights, [directions, gates * hidden, input or hidden];
    the first two sizes of the input are those of sequence and batch, in either order.
    """
    x, weights, recurrence = (known.sizes.get(name) for name in node.input[:3])
    if x is None or weights is None or recurrence is None:
        return None
    return prod(x[:2]) * (prod(weights) + prod(recurrence))


def _of_branches(node: onnx.NodeProto, known: _Known) -> int | None:
    """Of the branch of an If that has more."""
    counts = [_of_graph(each.g, known) for each in node.attribute]
    found = [count for count in counts if count is not None]
    return max(found) if len(found) == len(counts) else None


def _of_iterations(node: onnx.NodeProto, known: _Known) -> int | None:
    """Of all iterations of a Loop or Scan."""
    runs = _runs(node, known)
    return None if runs is None else _times(_of_graph(_attributes(node)["body"], known), runs)


def _carry_sizes(model: onnx.ModelProto, known: _Known) -> bool:
    """Say in the bodies of Loops how large what they carry is at first; whether any are."""
    loops = [node for node in model.graph.node if node.op_type == "Loop"]
    for node in loops:
        for value, name in zip(
            _attributes(node)["body"].input[2:], node.input[2:], strict=True
        ):
            if (sizes := known.sizes.get(name)) is not None:
                kind = value.type.tensor_type
                kind.shape.CopyFrom(onnx.TensorShapeProto())
                kind.shape.dim.extend(
                    onnx.TensorShapeProto.Dimension(dim_value=size) for size in sizes
                )
    return bool(loops)


def _runs(node: onnx.NodeProto, known: _Known) -> int | None:
    """How often the body of a Loop or Scan runs; None if that is not known.

    Nor where what a Loop carries grows.
    """
    given = _attributes(node)
    if node.op_type == "Scan":
        sizes = known.sizes.get(node.input[-given["num_scan_inputs"]])
        axis = given.get("scan_input_axes", [0])[0]
        return None if sizes is None else sizes[axis]
    body = given["body"]
    inner = known.inside(body).sizes
    carried = zip(body.input[2:], body.output[1:], strict=False)
    if any(inner.get(a.name) != inner.get(b.name) for a, b in carried):
        return None
    return _trips(node, body, known)


def _of_graph(graph: onnx.GraphProto, around: _Known) -> int | None:
    """Of all nodes of a body; None if those of one are not known."""
    known, total = around.inside(graph), 0
    for node in _multiplying(graph):
        count = _count(node, known)
        if count is None:
            return None
        total += count
    return total


def _times(once: int | None, steps: int | None) -> int | None:
    """``once`` for each of ``steps``; nothing stays nothing, however often."""
    if once == 0:
        return 0
    return None if once is None or steps is None else once * steps


def _trips(node: onnx.NodeProto, body: onnx.GraphProto, known: _Known) -> int | None:
    """How often a Loop runs: as long as what it collects is, or as its constant says."""
    for name in node.output[len(node.input) - 2 :]:
        if sizes := known.sizes.get(name):
            return sizes[0]
    return known.scalars.get(node.input[0]) if _runs_out(node, body, known) else None


def _runs_out(node: onnx.NodeProto, body: onnx.GraphProto, known: _Known) -> bool:
    """Whether nothing but its trip count ends a Loop: its condition is true, and stays so."""
    start, end = node.input[1], body.output[0].name
    writers = {each.output[0]: each for each in body.node if each.op_type == "Identity"}
    while end in writers:
        end = writers[end].input[0]
    stays = end == body.input[1].name or known.inside(body).scalars.get(end) == 1
    return stays and (not start or known.scalars.get(start) == 1)


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {each.name: helper.get_attribute_value(each) for each in node.attribute}


_COUNTERS: Mapping[str, Callable[[onnx.NodeProto, _Known], int | None]] = {
    **dict.fromkeys(("Conv", "ConvTranspose", "FusedConv"), _of_product),
    **dict.fromkeys(("FusedGemm", "FusedMatMul", "Gemm", "MatMul"), _of_product),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), _of_steps),
    "If": _of_branches,
    "Loop": _of_iterations,
    "Scan": _of_iterations,
}
"""What counts the multiply-accumulates of an op; of other MULTIPLYING ops nothing does."""


def _with_sizes(model: onnx.ModelProto, sizes: Mapping[str, Sequence[int]]) -> onnx.ModelProto:
    for graph in nested_graphs(model.graph):
        del graph.value_info[:]
        for value in graph.output:
            if value.type.HasField("tensor_type"):
                value.type.tensor_type.ClearField("shape")
    for value in model.graph.input:
        if value.name in sizes:
            dims = value.type.tensor_type.shape.dim
            for dim, size in zip(dims, sizes[value.name], strict=True):
                dim.dim_value = size
    return model
