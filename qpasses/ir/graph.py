"""The graph as passes see and change it: thin, typed helpers over onnx-graphsurgeon."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any, TypeAlias

import numpy as np
import onnx_graphsurgeon as gs
from numpy.typing import NDArray
from onnx_graphsurgeon.util.misc import SynchronizedList

from calibration.held_weights import any_held, can_be_held
from opsets.errors import ModelError
from qpasses.ir.runtime import IR_VERSION


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


def _copied(self: gs.Variable) -> gs.Variable:
    """A copy without ends; graphsurgeon forgets which tensors are sequences."""
    made = gs.Variable(self.name, self.dtype, self.shape, self.type)
    if hasattr(self, "declared"):
        made.declared = self.declared
    return made


SynchronizedList._remove_from_elem = _forget_reader
gs.Variable.copy = _copied

Graph: TypeAlias = gs.Graph
Node: TypeAlias = gs.Node
Tensor: TypeAlias = gs.Variable | gs.Constant


class Taken(set[str]):
    """Names that are taken, for good, and how far the numbers behind each were tried.

    So ``fresh`` goes on from there: thousands of nodes without a name want that of their op.
    """

    def __init__(self, known: Iterable[str] = ()) -> None:
        super().__init__(known)
        self.tried: dict[str, int] = {}


def fresh(wanted: str, taken: set[str]) -> str:
    """``wanted``, or the first free ``wanted_2``, ``wanted_3``...; adds it to ``taken``."""
    tried = taken.tried if isinstance(taken, Taken) else {}
    name, count = wanted, tried.get(wanted, 1)
    while name in taken:
        count += 1
        name = f"{wanted}_{count}"
    taken.add(name)
    if count > 1:
        tried[wanted] = count
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
    reader: Node = tensor.outputs[0]  # who reads it twice stands there twice
    return reader


def constant(tensor: Tensor | None) -> NDArray[Any] | None:
    """The value of a constant tensor, else None."""
    return np.asarray(tensor.values) if isinstance(tensor, gs.Constant) else None


def varies(tensor: Tensor) -> bool:
    """Whether it is neither constant nor left out."""
    return not isinstance(tensor, gs.Constant) and not tensor.is_empty()


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
    return _is_floating(tensor.dtype)


@cache
def _is_floating(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype | type) and np.issubdtype(dtype, np.floating)


@cache
def type_name(dtype: np.dtype[Any]) -> str:
    """What numpy calls ``dtype``: it puts the name together each time it is asked for it."""
    return dtype.name


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
