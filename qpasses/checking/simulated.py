"""The Q/DQ graph: the float graph, rounding wherever the integer graph stores a tensor.

Cut at each of these tensors: what reads one reads the codes that the integer graph has there,
so that a code that differs is of the nodes right before it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from qpasses.checking.meaning import Pair, Site, is_integer
from qpasses.graph import Node, constant, dequantized, export_graph, nested_graphs
from qpasses.record import Quantization
from qpasses.runtime import IR_VERSION


@dataclass(frozen=True)
class Simulated:
    """A Q/DQ model; by stored tensor of the integer graph, input and output for its codes."""

    model: onnx.ModelProto
    given: Mapping[str, str]
    codes: Mapping[str, str]


def simulated(pair: Pair) -> Simulated:
    """The float graph of ``pair`` in float arithmetic, on the numbers that integers stand for.

    Each tensor that is stored is rounded and saturated behind what writes it, at the first of
    its scales; weights and biases of Conv, Gemm and MatMul are those of the integer graph,
    as are constants that a node left in float dequantizes.
    """
    model = export_graph(pair.real)
    model.ir_version = IR_VERSION
    graph = model.graph
    known = {name for node in graph.node for name in node.output}
    known |= {value.name for value in graph.input}
    stored = {
        meaning.real: (ours, meaning.stored)
        for ours, meaning in reversed(pair.meanings.items())
        if meaning.stored and ours in pair.record.tensors and meaning.real in known
    }
    _take_weights(graph, pair)
    for each in nested_graphs(graph):
        for node in each.node:
            node.input[:] = [_given(name) if name in stored else name for name in node.input]
    before: list[onnx.NodeProto] = []
    behind: list[onnx.NodeProto] = []
    for real, (_, how) in stored.items():
        kind = helper.np_dtype_to_tensor_dtype(how.zero.dtype)
        graph.input.append(helper.make_tensor_value_info(_codes(_given(real)), kind, None))
        graph.output.append(helper.make_tensor_value_info(_codes(real), kind, None))
        before += _meaning(real, how)
        behind += _rounding(real, how)
    nodes = [*before, *graph.node, *behind]
    del graph.node[:]
    del graph.value_info[:]
    graph.node.extend(nodes)
    names = {ours: real for real, (ours, _) in stored.items()}
    return Simulated(
        model,
        {ours: _codes(_given(real)) for ours, real in names.items()},
        {ours: _codes(real) for ours, real in names.items()},
    )


def _given(name: str) -> str:
    """A stored tensor as who reads it has it."""
    return f"{name}::given"


def _codes(name: str) -> str:
    return f"{name}::codes"


def _meaning(real: str, how: Quantization) -> Iterator[onnx.NodeProto]:
    """What the codes of the integer graph stand for."""
    yield _constant(f"{real}::scale", np.array(how.scale, np.float32))
    yield _constant(f"{real}::zero", how.zero)
    ends = [_codes(_given(real)), f"{real}::scale", f"{real}::zero"]
    yield helper.make_node("DequantizeLinear", ends, [_given(real)])


def _rounding(real: str, how: Quantization) -> Iterator[onnx.NodeProto]:
    """The codes of what was computed."""
    ends, codes = [real, f"{real}::scale", f"{real}::zero"], _codes(real)
    if how.limits == how.type_limits:
        yield helper.make_node("QuantizeLinear", ends, [codes])
        return
    yield helper.make_node("QuantizeLinear", ends, [f"{codes}::unclipped"])
    limits = [f"{real}::low", f"{real}::high"]
    for name, end in zip(limits, how.limits, strict=True):
        yield _constant(name, np.array(end, how.dtype))
    yield helper.make_node("Clip", [f"{codes}::unclipped", *limits], [codes])


def _constant(name: str, value: NDArray[Any]) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value))


def _take_weights(graph: onnx.GraphProto, pair: Pair) -> None:
    """Let what multiplies by constants multiply by those of the integer graph."""
    protos = {node.name: node for node in graph.node}
    for node in pair.integer.nodes:
        if node.name in protos and not is_integer(node):
            _take_dequantized(graph, node, protos[node.name])
        if node.op not in ("IntConv", "IntGemm"):
            continue
        entry = pair.record.nodes[node.name]
        chain = [pair.float_nodes[name] for name in entry.source]
        given = Site(node, chain, pair).given
        x, w = (np.array(entry.scales[name]) for name in "xw")
        behind = given["w"].ndim - 1 if node.op == "IntConv" else 0
        real = {
            "weights": given["w"] * w.reshape(-1, *[1] * behind),
            "bias": given["bias"] * (x * w),
        }
        for name, value in real.items():
            tensor = numpy_helper.from_array(value.astype(np.float32), f"{node.name}::{name}")
            graph.initializer.append(tensor)
        first = protos[chain[0].name]
        first.input[1] = f"{node.name}::weights"
        if len(first.input) > 2:
            first.input[2] = f"{node.name}::bias"
        elif len(chain) > 1 and chain[1].op == "Add":
            row = int(chain[1].inputs[0] is chain[0].outputs[0])
            protos[chain[1].name].input[row] = f"{node.name}::bias"


def _take_dequantized(graph: onnx.GraphProto, node: Node, real: onnx.NodeProto) -> None:
    """Let ``real`` read the constants that ``node``, which is the same, has stored."""
    for place, tensor in enumerate(node.inputs):
        view = dequantized(tensor)
        stored = None if view is None else constant(view.stored)
        if view is None or stored is None:
            continue
        column = [1] * stored.ndim
        if view.scale.size > 1:
            column[view.axis] = -1
        scale, zero = (each.reshape(column) for each in (view.scale, view.zero_point))
        values = (stored.astype(np.int64) - zero.astype(np.int64)).astype(np.float32) * scale
        name = f"{node.name}::{place}"
        graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), name))
        real.input[place] = name
