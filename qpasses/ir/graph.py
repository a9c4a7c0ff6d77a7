"""Thin, typed helpers over onnx-graphsurgeon: the only file that knows its quirks."""

from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnx.inliner
import onnx_graphsurgeon as gs
from google.protobuf import text_format
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnx_graphsurgeon.exporters import onnx_exporter
from onnx_graphsurgeon.ir.tensor import LazyValues
from onnx_graphsurgeon.util.misc import SynchronizedList

from calibration.held_weights import (
    any_held,
    can_be_held,
    hold,
    is_held,
    values_of,
    weight_bytes,
)
from calibration.memory import give_back
from opsets.errors import ModelError
from qpasses.ir.runtime import IR_VERSION

_number_tensor = onnx_exporter.constant_to_onnx_tensor


def _constant_tensor(tensor: gs.Constant) -> onnx.TensorProto:
    """A constant as ONNX has it, of texts too: graphsurgeon writes their addresses."""
    if tensor.dtype == np.dtype(object):
        return numpy_helper.from_array(np.asarray(tensor.values, object), tensor.name)
    made: onnx.TensorProto = _number_tensor(tensor)
    return made


onnx_exporter.constant_to_onnx_tensor = _constant_tensor


def _forget_reader(self: SynchronizedList, elem: Any) -> None:
    """Take the node that ``self`` belongs to out of the readers, or writers, of a tensor.

    graphsurgeon looks for one that is equal to it, comparing all that both read and write: the
    time to part from a constant that thousands read is a thousand times as long.
    """
    ends = getattr(elem, self.field_name)
    for place, each in enumerate(ends):
        if each is self.parent_obj:
            list.__delitem__(ends, place)
            return
    raise ValueError(f"{self.parent_obj.name!r} is not among the ends of {elem.name!r}")


SynchronizedList._remove_from_elem = _forget_reader

Graph: TypeAlias = gs.Graph
Node: TypeAlias = gs.Node
Tensor: TypeAlias = gs.Variable | gs.Constant


def import_graph(model: onnx.ModelProto) -> Graph:
    """The graph of ``model`` without its functions, in topological order, names unique.

    graphsurgeon 0.6 recurses without end over functions where the graph has subgraphs.
    """
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    del plain.functions[:]
    _write_types(plain)
    graph = gs.import_onnx(plain)
    _take_held(graph)
    _leave_untyped(graph, plain)
    tidy(graph)
    taken: set[str] = set()
    for node in graph.nodes:
        node.name = fresh(node.name or node.op, taken)
    return graph


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
    found = [t for t in graph.tensors().values() if isinstance(t, gs.Constant)]
    large = [(t, t._values) for t in found if any_held() and _can_be_held(t)]
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


def is_tensor(end: Tensor) -> bool:
    """Whether an input or output of a graph is a tensor, that is never absent."""
    return getattr(end, "declared", None) is None


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


def nested_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """``graph`` and the bodies of its If, Loop and Scan nodes, innermost first."""
    for node in graph.node:
        for attribute in node.attribute:
            for body in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from nested_graphs(body)
    yield graph


def nodes_of(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """The nodes of all graphs of ``model``."""
    return (node for graph in nested_graphs(model.graph) for node in graph.node)


SIMPLIFIED = "SimplifiedLayerNormalization"
"""RMSNormalization as onnxruntime has it: in the domain of ONNX, which does not know it."""


def is_simplified(node: onnx.NodeProto) -> bool:
    """Whether it is the normalization that only onnxruntime knows."""
    return bool(node.op_type == SIMPLIFIED and not node.domain)


def export_graph(graph: Graph) -> onnx.ModelProto:
    """``graph`` as a model of its own opset and IR version."""
    with _held(graph):
        model: onnx.ModelProto = gs.export_onnx(graph, do_type_check=False)
    ends = [*model.graph.input, *model.graph.output]
    for value, tensor in zip(ends, [*graph.inputs, *graph.outputs], strict=True):
        if not is_tensor(tensor):
            value.type.CopyFrom(tensor.declared)
    _read_types(model)
    linear = [n for n in model.graph.node if n.op_type in _LINEAR and not n.domain]
    scales = {node.input[1] for node in linear}
    for tensor in model.graph.initializer:
        if tensor.name in scales and tensor.data_type == onnx.TensorProto.DOUBLE:
            value = values_of(tensor).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
    return model


_LINEAR = ("QuantizeLinear", "DequantizeLinear")
"""Their scales are float32 to ONNX; until then they may be double."""


def tidy(graph: Graph) -> None:
    """Drop what nothing reads and restore topological order; the interface stays."""
    _drop_unread(graph)
    sort_nodes(graph)


def _drop_unread(graph: Graph) -> None:
    """Drop the nodes from which no way leads to an output, of bodies too.

    What writes an input goes. It is onnx-graphsurgeon's ``cleanup``, which numbers and names
    everything anew each time.
    """
    for inner in (each for node in graph.nodes for each in _bodies(node)):
        _drop_unread(inner)
    for tensor in graph.inputs:
        tensor.inputs.clear()
    waiting = [writer for tensor in graph.outputs for writer in tensor.inputs]
    used = {id(node) for node in waiting}
    while waiting:
        node = waiting.pop()
        for tensor in _read(node):
            for writer in tensor.inputs:
                if id(writer) not in used:
                    used.add(id(writer))
                    waiting.append(writer)
    unread = [node for node in graph.nodes if id(node) not in used]
    for node in unread:
        node.inputs.clear()
        node.outputs.clear()
    if unread:
        graph.nodes = [node for node in graph.nodes if id(node) in used]


def sort_nodes(graph: Graph) -> None:
    """Restore topological order: by the longest way from an input, then as nodes are found.

    It is onnx-graphsurgeon's, whose own sort recurses and ends at some 250 nodes in a row.
    """
    for node in graph.nodes:
        for inner in _bodies(node):
            sort_nodes(inner)
    own = {id(node): node for node in graph.nodes}
    before = {key: _written_before(node, own) for key, node in own.items()}
    levels = dict[int, int]()
    for root in own:
        if root in levels:
            continue
        path, waiting = [(root, iter(before[root]))], {root}
        while path:
            key, rest = path[-1]
            missing = next((each for each in rest if each not in levels), None)
            if missing is None:
                levels[key] = 1 + max((levels[each] for each in before[key]), default=-1)
                waiting.discard(key)
                path.pop()
            elif missing in waiting:
                raise ModelError(f"node {own[missing].name!r} reads what follows from it")
            else:
                waiting.add(missing)
                path.append((missing, iter(before[missing])))
    graph.nodes = [own[key] for key in sorted(levels, key=levels.__getitem__)]


def _written_before(node: Node, own: Container[int]) -> list[int]:
    """The nodes of ``own``, by id, that write what ``node`` reads, its bodies included."""
    found = dict[int, None]()
    for tensor in _read(node):
        for writer in tensor.inputs:
            if id(writer) in own:
                found[id(writer)] = None
    return list(found)


def _read(node: Node) -> Iterable[Tensor]:
    """What ``node`` reads, its bodies included."""
    read: list[Tensor] = node.inputs
    for inner in _bodies(node):
        read = [*read, *(tensor for each in inner.nodes for tensor in _read(each))]
        read += inner.outputs
    return read


def _bodies(node: Node) -> list[Graph]:
    attributes = node.attrs
    return [value for value in attributes.values() if is_graph(value)] if attributes else []


def fresh(wanted: str, taken: set[str]) -> str:
    """``wanted``, or the first free ``wanted_2``, ``wanted_3``...; adds it to ``taken``."""
    name, count = wanted, 1
    while name in taken:
        count += 1
        name = f"{wanted}_{count}"
    taken.add(name)
    return name


def names(graph: Graph) -> set[str]:
    """The names of all tensors and nodes."""
    ends = [*graph.inputs, *graph.outputs]
    ends += [tensor for node in graph.nodes for tensor in [*node.inputs, *node.outputs]]
    return {tensor.name for tensor in ends} | {node.name for node in graph.nodes}


def is_used(graph: Graph, tensor: Tensor) -> bool:
    """Whether anything reads ``tensor``, or it leaves the graph."""
    return bool(tensor.outputs) or is_graph_output(graph, tensor)


def producer(tensor: Tensor) -> Node | None:
    """The node that writes ``tensor``; None for inputs and constants."""
    return tensor.inputs[0] if tensor.inputs else None


def is_graph_output(graph: Graph, tensor: Tensor) -> bool:
    """Whether ``tensor`` leaves the graph."""
    return any(tensor is output for output in graph.outputs)


def sole_consumer(graph: Graph, tensor: Tensor) -> Node | None:
    """The one node that reads ``tensor``, once; None if others do or it is an output."""
    if len(tensor.outputs) != 1 or is_graph_output(graph, tensor):
        return None
    reader: Node = tensor.outputs[0]
    return reader if sum(t is tensor for t in reader.inputs) == 1 else None


def constant(tensor: Tensor | None) -> NDArray[Any] | None:
    """The value of a constant tensor, else None."""
    return np.asarray(tensor.values) if isinstance(tensor, gs.Constant) else None


def varies(tensor: Tensor) -> bool:
    """Whether it is neither constant nor left out."""
    return constant(tensor) is None and not tensor.is_empty()


def constant_bytes(graph: Graph) -> int:
    """About how much the constants take: four bytes for each element."""
    tensors = graph.tensors().values()
    return sum(4 * int(prod(t.shape)) for t in tensors if isinstance(t, gs.Constant))


def input_at(node: Node, index: int) -> Tensor | None:
    """Input ``index``, or None where it is absent or left empty."""
    if index >= len(node.inputs) or node.inputs[index].is_empty():
        return None
    return node.inputs[index]


def absent() -> Tensor:
    """What stands for an optional input that is left empty."""
    return gs.Variable.empty()


def is_graph(value: Any) -> bool:
    """Whether an attribute is a graph: the body of an If or a Loop."""
    return isinstance(value, gs.Graph)


def is_float(tensor: Tensor) -> bool:
    """Whether the tensor holds float32, float64 or float16 (unknown types do not count)."""
    dtype = tensor.dtype
    return isinstance(dtype, np.dtype | type) and np.issubdtype(dtype, np.floating)


def rank(tensor: Tensor) -> int | None:
    """The number of dimensions, where known."""
    return None if tensor.shape is None else len(tensor.shape)


def spatial_shape(tensor: Tensor) -> tuple[int, ...] | None:
    """The size behind batch and channels, where every dimension of it is a number."""
    if tensor.shape is None or len(tensor.shape) < 2:
        return None
    spatial = tuple(tensor.shape[2:])
    return spatial if all(isinstance(size, int) for size in spatial) else None


def new_constant(name: str, values: NDArray[Any]) -> Tensor:
    """A constant tensor: a copy of ``values``, or these where they are held."""
    is_held = isinstance(values, np.ndarray) and any_held() and can_be_held(values)
    if is_held and values.flags.c_contiguous and not values.flags.writeable:
        return gs.Constant(name, values)
    return gs.Constant(name, np.array(values, order="C"))


def new_tensor(name: str, like: Tensor, dtype: Any = None) -> Tensor:
    """A variable shaped as ``like``, of its type or ``dtype``."""
    return gs.Variable(name, dtype=dtype or like.dtype, shape=like.shape)


def add_node(
    graph: Graph,
    op: str,
    name: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    *,
    attributes: dict[str, Any] | None = None,
    domain: str | None = None,
) -> Node:
    """Append a node; whatever wrote ``outputs`` before no longer does."""
    for output in outputs:
        output.inputs.clear()
    node = gs.Node(op, name, attributes or {}, list(inputs), list(outputs), domain)
    graph.nodes.append(node)
    return node


def single_node(graph: Graph, node: Node) -> Graph:
    """A graph of a copy of ``node`` alone; what it reads are inputs, each called by its place.

    No node of a body may be in its attributes.
    """
    inputs, outputs = (
        [
            gs.Variable.empty() if each.is_empty() else new_tensor(f"{what}{place}", each)
            for place, each in enumerate(tensors)
        ]
        for what, tensors in (("in", node.inputs), ("out", node.outputs))
    )
    copy = gs.Node(node.op, node.name, dict(node.attrs), inputs, outputs, node.domain)
    ends = [[each for each in tensors if each.name] for tensors in (inputs, outputs)]
    return gs.Graph([copy], *ends, opset=graph.opset, ir_version=IR_VERSION)


def write_for(before: Node, node: Node) -> None:
    """Let ``before`` write what ``node`` wrote, which has become a part of it.

    ``node`` was the only reader of what ``before`` wrote. The tensor keeps its name: a name
    stands for the same values in the original graph.
    """
    written = node.outputs[0]
    node.inputs.clear()
    node.outputs.clear()
    before.outputs = [written]


def redirect(graph: Graph, old: Tensor, new: Tensor) -> None:
    """Let every reader of ``old`` read ``new``; a graph output keeps its name."""
    for reader in list(old.outputs):
        for index, tensor in enumerate(reader.inputs):
            if tensor is old:
                reader.inputs[index] = new
    if not is_graph_output(graph, old):
        return
    writer = producer(new)
    if writer is None or is_graph_output(graph, new):
        raise ModelError(f"output {old.name!r} would become a plain copy of {new.name!r}")
    old.inputs.clear()
    for reader in list(new.outputs):
        for index, tensor in enumerate(reader.inputs):
            if tensor is new:
                reader.inputs[index] = old
    writer.outputs[next(i for i, t in enumerate(writer.outputs) if t is new)] = old


@dataclass(frozen=True)
class Dequantized:
    """A DequantizeLinear with constant parameters: the stored tensor and what it means."""

    stored: Tensor
    scale: NDArray[np.floating[Any]]
    zero_point: NDArray[Any]
    axis: int


def dequantized(tensor: Tensor | None) -> Dequantized | None:
    """How ``tensor`` is dequantized, if a DequantizeLinear with constants writes it."""
    node = producer(tensor) if tensor is not None else None
    if node is None or node.op != "DequantizeLinear":
        return None
    scale, zero = constant(input_at(node, 1)), constant(input_at(node, 2))
    if scale is None:
        return None
    if zero is None:
        zero = np.zeros(scale.shape, node.inputs[0].dtype)
    return Dequantized(node.inputs[0], scale, zero, node.attrs.get("axis", 1))


STORE, STORING = "Store", "qpasses.given"
"""Op and domain of what stands in a float graph where the model itself says how a tensor is
stored: for its QuantizeLinear and DequantizeLinear. No pass looks through it."""


def prepared_model(graph: Graph) -> onnx.ModelProto:
    """The float graph as a model that onnxruntime loads; what is stored is not rounded."""
    model = export_graph(graph)
    for node in model.graph.node:
        if node.domain == STORING:
            node.op_type, node.domain = "Identity", ""
    model.ir_version = IR_VERSION
    give_back(weight_bytes(model))
    return model
