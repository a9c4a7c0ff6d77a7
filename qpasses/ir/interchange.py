"""From an ONNX model to a graph and back, without what onnx-graphsurgeon loses on the way."""

from collections.abc import Iterator, Set
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs
from google.protobuf import text_format
from onnx import helper, numpy_helper
from onnx_graphsurgeon.exporters import onnx_exporter
from onnx_graphsurgeon.ir.tensor import LazyValues

from calibration.held_weights import (
    any_held,
    can_be_held,
    hold,
    is_held,
    values_of,
    weight_bytes,
)
from calibration.memory import give_back
from qpasses.ir.cutting import cut
from qpasses.ir.flow import FLOW
from qpasses.ir.graph import STORING, Graph, Taken, Tensor, fresh, names
from qpasses.ir.homes import regions
from qpasses.ir.model_nodes import nested_graphs, nodes_of
from qpasses.ir.order import tidy
from qpasses.ir.runtime import IR_VERSION
from qpasses.ir.splicing import spliced

_number_tensor = onnx_exporter.constant_to_onnx_tensor


def _constant_tensor(tensor: gs.Constant) -> onnx.TensorProto:
    """A constant as ONNX has it, of texts too: graphsurgeon writes their addresses."""
    if tensor.dtype == np.dtype(object):
        return numpy_helper.from_array(np.asarray(tensor.values, object), tensor.name)
    if tensor.export_dtype is not tensor.dtype or (kind := _plain_type(tensor.dtype)) is None:
        made: onnx.TensorProto = _number_tensor(tensor)
        return made
    raw = tensor.values.tobytes()
    return onnx.TensorProto(name=tensor.name, data_type=kind, dims=tensor.shape, raw_data=raw)


@cache
def _plain_type(dtype: np.dtype[Any]) -> int | None:
    """ONNX's type for one of numpy's own; None for others, which graphsurgeon may pack."""
    return helper.np_dtype_to_tensor_dtype(dtype) if dtype.isbuiltin == 1 else None


onnx_exporter.constant_to_onnx_tensor = _constant_tensor


def import_graph(model: onnx.ModelProto, are_apart: bool = False) -> Graph:
    """The graph of ``model`` without its functions, in topological order, names unique.

    What its bodies compute is in it too, unless they ``are_apart``: see flow.py.
    graphsurgeon 0.6 recurses without end over functions where the graph has subgraphs.
    """
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    del plain.functions[:]
    plain = plain if are_apart else spliced(plain)
    _write_types(plain)
    graph = gs.import_onnx(plain)
    _take_held(graph)
    _leave_untyped(graph, plain)
    tidy(graph)
    _tell_apart(graph, set())
    taken = Taken()
    for node in graph.nodes:
        node.name = fresh(node.name or node.op, taken)
    return graph


def export_graph(graph: Graph) -> onnx.ModelProto:
    """``graph`` as a model of its own opset and IR version."""
    return cut(export_spliced(graph))


def export_spliced(graph: Graph) -> onnx.ModelProto:
    """The same, bodies not yet apart."""
    with _held(graph):
        model: onnx.ModelProto = gs.export_onnx(graph, do_type_check=False)
    ends = [*model.graph.input, *model.graph.output]
    for value, tensor in zip(ends, [*graph.inputs, *graph.outputs], strict=True):
        if not is_tensor(tensor):
            value.type.CopyFrom(tensor.declared)
    _read_types(model)
    _write_once(model.graph)
    linear = [n for n in model.graph.node if n.op_type in _LINEAR and not n.domain]
    scales = {node.input[1] for node in linear}
    for tensor in model.graph.initializer:
        if tensor.name in scales and tensor.data_type == onnx.TensorProto.DOUBLE:
            value = values_of(tensor).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
    return model


def inside_bodies(graph: Graph) -> Set[str]:
    """The nodes that stand in a body, and the tensors that they write, by name."""
    if not any(node.domain == FLOW for node in graph.nodes):
        return frozenset()
    homes = regions(export_spliced(graph))
    return {
        name
        for node in graph.nodes
        for tensor in node.outputs
        if homes.get(tensor.name)
        for name in (node.name, tensor.name)
    }


def prepared_model(graph: Graph, are_apart: bool = True) -> onnx.ModelProto:
    """The float graph as a model that onnxruntime loads; what is stored is not rounded.

    Bodies are not ``are_apart``: it is spliced, and does not load if there are any.
    """
    model = export_spliced(graph)
    for node in model.graph.node:
        if node.domain == STORING:
            node.op_type, node.domain = "Identity", ""
    model = cut(model) if are_apart else model
    model.ir_version = IR_VERSION
    give_back(weight_bytes(model))
    return model


def is_tensor(end: Tensor) -> bool:
    """Whether an input or output of a graph is a tensor, that is never absent."""
    return getattr(end, "declared", None) is None


_LINEAR = ("QuantizeLinear", "DequantizeLinear")
"""Their scales are float32 to ONNX; until then they may be double."""


def _write_types(model: onnx.ModelProto) -> None:
    """Write types among the attributes, as an empty Optional has one, as text: else lost."""
    for node in nodes_of(model):
        for each in node.attribute:
            if each.type == onnx.AttributeProto.TYPE_PROTO:
                text = text_format.MessageToString(each.tp)
                each.CopyFrom(helper.make_attribute(each.name, text))


def _read_types(model: onnx.ModelProto) -> None:
    """The types that ``_write_types`` wrote."""
    for node in (
        each for each in nodes_of(model) if each.op_type == "Optional" and not each.domain
    ):
        for each in node.attribute:
            if each.name == "type" and each.type == onnx.AttributeProto.STRING:
                kind = text_format.Parse(each.s.decode(), onnx.TypeProto())
                each.CopyFrom(helper.make_attribute(each.name, kind))


def _tell_apart(graph: Graph, around: set[str]) -> None:
    """Give other names to what bodies write under names of ``around``, which they would hide.

    onnxruntime takes a branch that calls its result as the If does.
    """
    inner = list(graph.subgraphs())
    known = around | names(graph) if inner else around
    for body in inner:
        taken = known | names(body)
        own = [*body.inputs, *(each for node in body.nodes for each in node.outputs)]
        for tensor in {id(each): each for each in own}.values():
            if tensor.name in known and not tensor.is_empty():
                tensor.name = fresh(tensor.name, taken)
        _tell_apart(body, known)


def _write_once(graph: onnx.GraphProto) -> None:
    """Constants that several graphs read stand once, in the outermost.

    graphsurgeon writes them into each body, which doubles weights and hides those outside.
    """
    *bodies, _ = nested_graphs(graph)
    outside = {tensor.name: tensor for tensor in graph.initializer}
    varying = {value.name for each in (*bodies, graph) for value in each.input}
    varying |= {o for each in (*bodies, graph) for node in each.node for o in node.output}
    found: dict[str, list[onnx.TensorProto]] = {}
    for tensor in (each for body in bodies for each in body.initializer):
        found.setdefault(tensor.name, []).append(tensor)
    for name, (first, *others) in found.items():
        others += [outside[name]] if name in outside else []
        if not others or name in varying or any(each != first for each in others):
            found[name] = []
        elif name not in outside:
            graph.initializer.append(first)
    for body in bodies if any(found.values()) else []:
        kept = [each for each in body.initializer if not found[each.name]]
        del body.initializer[:]
        body.initializer.extend(kept)


def _take_held(graph: Graph) -> None:
    """Give constants the arrays that the model only names."""
    for tensor in graph.tensors().values():
        if isinstance(tensor, gs.Constant) and isinstance(tensor._values, LazyValues):
            named = tensor._values.tensor
            if isinstance(named, onnx.TensorProto) and is_held(named):
                tensor.values, tensor.data_location = values_of(named), None


@contextmanager
def _held(graph: Graph) -> Iterator[None]:
    """Large constants are named in what is exported meanwhile, if any are held."""
    found = graph.tensors().values() if any_held() else ()
    constants = [tensor for tensor in found if isinstance(tensor, gs.Constant)]
    large = [(tensor, tensor._values) for tensor in constants if _can_be_held(tensor)]
    for tensor, values in large:
        tensor.values = LazyValues(hold(tensor.name, values))
    yield
    for tensor, values in large:
        tensor.values = values


def _can_be_held(tensor: Tensor) -> bool:
    values = tensor._values
    if not isinstance(values, np.ndarray) or tensor.export_dtype != values.dtype:
        return False
    return can_be_held(values)


def _leave_untyped(graph: Graph, model: onnx.ModelProto) -> None:
    """Take the types away that graphsurgeon cannot write; inputs and outputs get theirs back.

    It knows tensors and sequences of them. Of optional values and of maps, as ZipMap gives
    them, runtimes infer the types.
    """
    graphs = list(nested_graphs(model.graph))
    values = [v for g in graphs for v in (*g.input, *g.output, *g.value_info)]
    types = {value.name: value.type for value in values if not _is_of_tensors(value.type)}
    for each in [graph, *graph.subgraphs(recursive=True)] if types else []:
        for tensor in each.tensors().values():
            if tensor.name in types:
                tensor.dtype, tensor.type = None, "tensor_type"
    ends = [*model.graph.input, *model.graph.output]
    for value, tensor in zip(ends, [*graph.inputs, *graph.outputs], strict=True):
        if not value.type.HasField("tensor_type"):  # it writes sequences with other shapes
            tensor.declared = value.type


def _is_of_tensors(kind: onnx.TypeProto) -> bool:
    inner = kind.sequence_type.elem_type if kind.HasField("sequence_type") else kind
    return any(map(inner.HasField, ("tensor_type", "sparse_tensor_type")))


_NUMBERS = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}
"""Attributes of Constant that hold numbers, and their types."""


def numbers_as_tensors(model: onnx.ModelProto) -> None:
    """Give Constant nodes of ``model`` tensors: graphsurgeon takes floats for double."""
    constants = [node for node in nodes_of(model) if node.op_type == "Constant"]
    for attribute in (each for node in constants for each in node.attribute):
        if dtype := _NUMBERS.get(attribute.name):
            value = np.array(helper.get_attribute_value(attribute), dtype)
            attribute.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(value)))
