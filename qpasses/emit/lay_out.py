"""Channels last: an integer graph as onnxruntime's fast kernels and ours read pictures.

Every tensor keeps its name, its numbers and its nodes; what changes is the order in which its
axes lie in memory. Convolutions and pools ask for channels last, what works number by number
takes the order that it finds, axes are counted anew, a Transpose of the model becomes nothing,
and what knows no other order gets ONNX's own. Inputs and outputs keep theirs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opsets.either_layout import ATTRIBUTE, layout_of
from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from qpasses.emit.layouts import (
    Laid,
    Layouts,
    Order,
    channels_last,
    in_order,
    regrouped,
    without,
)
from qpasses.evidence.bodies import constants_of
from qpasses.ir.by_number import BY_NUMBER
from qpasses.ir.graph import (
    Graph,
    Node,
    Taken,
    Tensor,
    constant,
    fresh,
    input_at,
    is_float,
    is_graph,
    is_graph_output,
    names,
    new_constant,
    new_tensor,
    varies,
)
from qpasses.ir.interchange import is_tensor
from qpasses.ir.record import Record

PICTURES = frozenset(op.name for op in OPS.values() if ATTRIBUTE in op.attributes)
"""Ops that take either layout."""


def laid_out(graph: Graph, record: Record) -> Graph:
    """``graph`` with its axes in the order that its convolutions and pools want.

    The record says in which order the axes of tensors lie, and the layouts of nodes. A graph
    is itself that has no node of this kind, or bodies of nodes, which read what they like.
    """
    if not any(each.op in PICTURES for each in graph.nodes) or any(map(_is_odd, graph.nodes)):
        return graph
    graph = graph.copy()
    nodes = list(graph.nodes)
    kept = _channels_first(graph)
    laying = _Laying(graph=graph, record=record, taken=Taken(names(graph)))
    for tensor in graph.inputs:
        laying.write(tensor, tensor, _as_onnx(tensor))
    for node in nodes:
        how = _as_it_is if id(node) in kept else _handler(node)
        if any(_rank(each) is None for each in _ends(node)) or not how(laying, node):
            laying.keep_order(node)
        laying.finish(node)
    laying.leave_out_unread()
    graph.nodes = laying.nodes
    return graph


def _channels_first(graph: Graph) -> set[int]:
    """The nodes, by id, whose results are read as ONNX has them alone, by whoever reads them.

    There onnxruntime knows where a Transpose costs least.
    """
    found = set[int]()

    def asks(reader: Node) -> bool:
        how = _handler(reader)
        if how is _as_it_is or _splits(reader):
            return False
        return how in (_picture, _max_pool, _reshape, _transpose) or id(reader) not in found

    for node in reversed(graph.nodes):
        readers = [each for tensor in node.outputs for each in tensor.outputs]
        if not any(map(asks, readers)):
            found.add(id(node))
    return found


def _splits(node: Node) -> bool:
    """Whether it is a Reshape to more axes, in which channels lie neither first nor last."""
    ranks = [_rank(each) or 0 for each in (*node.inputs[:1], *node.outputs[:1])]
    return node.op == "Reshape" and ranks[0] < ranks[1]


def _handler(node: Node) -> "Callable[[_Laying, Node], bool]":
    return _HANDLERS.get((node.domain or "", node.op), _as_it_is)


def _is_odd(node: Node) -> bool:
    """Whether a node has bodies, or what is no tensor."""
    ends = (*node.inputs, *node.outputs)
    return any(map(is_graph, node.attrs.values())) or not all(map(is_tensor, ends))


def _ends(node: Node) -> list[Tensor]:
    return [each for each in (*node.inputs, *node.outputs) if varies(each)]


def _rank(tensor: Tensor) -> int | None:
    return None if tensor.shape is None else len(tensor.shape)


def _as_onnx(tensor: Tensor) -> Order:
    return in_order(_rank(tensor) or 0)


@dataclass
class _Laying(Layouts[Tensor]):
    """The graph on its way: ``nodes`` so far, the sizes of tensors as ONNX has them."""

    graph: Graph = field(default_factory=Graph)
    record: Record = field(default_factory=Record)
    taken: Taken = field(default_factory=Taken)
    nodes: list[Node] = field(default_factory=list)
    _behind: list[Node] = field(default_factory=list)
    _guessed: list[Node] = field(default_factory=list)
    _sizes: dict[int, list[Any]] = field(default_factory=dict)
    _moved: dict[tuple[int, Order], Tensor] = field(default_factory=dict)

    def transposed(self, value: Tensor, axes: Sequence[int]) -> Tensor:
        """A Transpose behind ``value``."""
        made = self._copy(value, "transposed")
        made.shape = None if value.shape is None else [value.shape[axis] for axis in axes]
        self.nodes.append(self._transpose(value, made, axes))
        return made

    def _copy(self, tensor: Tensor, how: str) -> Tensor:
        """Another tensor of the same codes."""
        made = new_tensor(fresh(f"{tensor.name}_{how}", self.taken), tensor)
        if tensor.name in self.record.tensors:
            self.record.tensors[made.name] = self.record.tensors[tensor.name]
        return made

    def moved_to(self, order: Order, tensor: Tensor) -> Tensor:
        """``tensor`` with its axes in this order."""
        found = super().moved_to(order, tensor)
        if order != in_order(len(order)):
            self.record.orders[found.name] = order
        return found

    def _transpose(self, value: Tensor, made: Tensor, axes: Sequence[int]) -> Node:
        name = fresh(f"{made.name}_transpose", self.taken)
        return Node("Transpose", name, {"perm": [*axes]}, [value], [made])

    def unwritten(self, tensor: Tensor) -> Laid[Tensor]:
        """What no node wrote, in ONNX's order."""
        return Laid(tensor, _as_onnx(tensor))

    def sizes(self, tensor: Tensor) -> list[Any]:
        """Those of ``tensor``, as ONNX has them; where they are free, names."""
        return [*self._sizes.get(id(tensor), tensor.shape)]

    def order(self, tensor: Tensor) -> Order:
        """The order it was written in."""
        return self.laid(tensor).order

    def read(self, node: Node, place: int, order: Order) -> None:
        """Let ``node`` read an input with its axes in this order; a constant is another."""
        tensor = node.inputs[place]
        values = constant(tensor)
        if values is None:
            node.inputs[place] = self.moved_to(order, tensor)
        elif values.ndim and order != in_order(values.ndim):
            node.inputs[place] = self._constant(tensor, order)

    def _constant(self, tensor: Tensor, order: Order) -> Tensor:
        key = id(tensor), order
        if key not in self._moved:
            self.keep(tensor)
            values = np.ascontiguousarray(np.transpose(tensor.values, order))
            made = new_constant(fresh(f"{tensor.name}_transposed", self.taken), values)
            self._moved[key] = made
            self.record.orders[made.name] = order
            if tensor.name in self.record.tensors:
                self.record.tensors[made.name] = self.record.tensors[tensor.name]
        return self._moved[key]

    def own_constant(self, node: Node, place: int, values: Any) -> None:
        """Let ``node`` read these numbers in place of those it has."""
        old = node.inputs[place]
        if not np.array_equal(values, old.values):
            name = fresh(f"{old.name}_transposed", self.taken)
            node.inputs[place] = new_constant(name, np.asarray(values, old.dtype))

    def put(self, node: Node, order: Order, place: int = 0) -> None:
        """``node`` writes an output with its axes in this order."""
        tensor = node.outputs[place]
        self._sizes[id(tensor)] = tensor.shape
        self.write(tensor, tensor, order)
        if order != in_order(len(order)):
            self.record.orders[tensor.name] = order
            tensor.shape = [tensor.shape[axis] for axis in order]

    def keep_order(self, node: Node) -> None:
        """``node`` reads and writes axes as ONNX has them."""
        for place, tensor in enumerate(node.inputs):
            if varies(tensor):
                node.inputs[place] = self.moved_to(_as_onnx_of(self, tensor), tensor)
        for tensor in node.outputs:
            if not tensor.is_empty():
                self.write(tensor, tensor, _as_onnx(tensor))

    def write_behind(self, node: Node, order: Order) -> None:
        """``node`` writes as ONNX has it, and a Transpose behind it in this order."""
        tensor = node.outputs[0]
        made = self._copy(tensor, "transposed")
        made.shape = [tensor.shape[axis] for axis in order]
        self.record.orders[made.name] = order
        self.write(tensor, made, order)
        self._laid[id(tensor)].append(Laid(tensor, in_order(len(order))))
        self._behind.append(self._transpose(tensor, made, order))

    def leave_out_unread(self) -> None:
        """Take away Transposes for readers that there were not."""
        unread = [node for node in self._guessed if not node.outputs[0].outputs]
        for node in unread:
            name = node.outputs[0].name
            node.inputs.clear()
            self.record.orders.pop(name)
            self.record.tensors.pop(name, None)
        gone = {id(node) for node in unread}
        self.nodes = [node for node in self.nodes if id(node) not in gone]

    def finish(self, node: Node) -> None:
        """Go on behind ``node``; what leaves the graph gets ONNX's order under its name."""
        self.nodes += [node, *self._behind]
        self._guessed += self._behind
        self._behind.clear()
        for place, tensor in enumerate(node.outputs):
            if tensor.is_empty() or not is_graph_output(self.graph, tensor):
                continue
            order = self.order(tensor)
            if order == in_order(len(order)):
                continue
            made = self._copy(tensor, "channels_last")
            node.outputs[place] = made
            self.record.orders[made.name] = self.record.orders.pop(tensor.name)
            tensor.shape = self._sizes[id(tensor)]
            back = [order.index(axis) for axis in range(len(order))]
            self.nodes.append(self._transpose(made, tensor, back))
            self._laid[id(tensor)] = [Laid(made, order), Laid(tensor, in_order(len(order)))]


def _as_onnx_of(laying: _Laying, tensor: Tensor) -> Order:
    return in_order(len(laying.order(tensor)))


def _as_it_is(_laying: _Laying, _node: Node) -> bool:
    """What knows ONNX's order alone."""
    return False


def _picture(laying: _Laying, node: Node) -> bool:
    """Convolutions and pools: their layout is an attribute."""
    rank = len(laying.order(node.inputs[0]))
    if not layout_of(rank):
        return False
    laying.read(node, 0, channels_last(rank))
    node.attrs[ATTRIBUTE] = 1
    laying.record.nodes[node.name].layout = layout_of(rank)
    laying.put(node, channels_last(rank))
    return True


def _max_pool(laying: _Laying, node: Node) -> bool:
    """Transposes on both sides make onnxruntime take the kernel that wants channels last."""
    rank = len(laying.order(node.inputs[0]))
    given = [each for each in node.outputs if not each.is_empty()]
    if len(given) > 1 or rank != 4 or is_graph_output(laying.graph, given[0]):
        return False
    laying.read(node, 0, in_order(rank))
    laying.write_behind(node, channels_last(rank))
    return True


def _by_number(laying: _Laying, node: Node) -> bool:
    """What looks at one number of each operand at a time, broadcast or not.

    What stays float stays as it was.
    """
    if any(map(is_float, _ends(node))):
        return False
    rank = _rank(node.outputs[0]) or 0
    op = OPS.get(node.op) if node.domain == DOMAIN else None
    places = range(len(node.inputs)) if op is None else _operands(op.name)
    found = [node.inputs[place] for place in places if varies(node.inputs[place])]
    orders = [laying.order(tensor) for tensor in found]
    order = next((each for each in orders if each != in_order(len(each))), in_order(rank))
    if order == in_order(rank) or any(len(each) not in (0, rank) for each in orders):
        return False
    wanted = {}
    for place in places:
        values = constant(node.inputs[place])
        if node.inputs[place].is_empty() or (values is not None and values.size == 1):
            continue
        dims = rank if values is None else values.ndim
        if dims > rank or order[: rank - dims] != in_order(rank - dims):
            return False
        wanted[place] = without(order, range(rank - dims))
    for place, each in wanted.items():
        if varies(node.inputs[place]) and not laying.order(node.inputs[place]):
            continue
        laying.read(node, place, each)
    for place, tensor in enumerate(node.outputs):
        if not tensor.is_empty():
            laying.put(node, order, place)
    return True


def _operands(op: str) -> list[int]:
    """The inputs of an op of ours that are broadcast: data and slopes."""
    return [
        place
        for place, name in enumerate(OPS[op].inputs)
        if name in OPS[op].data or name.startswith("slope_")
    ]


def _per_channel(laying: _Laying, node: Node) -> bool:
    """A table for each channel, along an axis."""
    order = laying.order(node.inputs[0])
    rank = len(order)
    if order != channels_last(rank) or node.attrs["axis"] != 1 or not layout_of(rank):
        return False
    laying.read(node, 0, order)
    node.attrs["axis"] = rank - 1
    laying.record.nodes[node.name].layout = layout_of(rank)
    laying.put(node, order)
    return True


def _reduce(laying: _Laying, node: Node) -> bool:
    """Sums over other axes, if the body that was proved takes them."""
    order, keepdims = laying.order(node.inputs[0]), node.attrs["keepdims"]
    if order == in_order(len(order)):
        return False
    axes = sorted(_place(order, axis) for axis in node.attrs["axes"])
    gone = [] if keepdims else [axis % len(order) for axis in node.attrs["axes"]]
    body = OPS[node.op].overload(laying.record.nodes[node.name].overload)
    takes = body.accepts(constants_of(node), {**node.attrs, "axes": axes})
    if not takes or not _is_usual(without(order, gone)):
        return False
    laying.read(node, 0, order)
    node.attrs["axes"] = axes
    laying.put(node, without(order, gone))
    return True


def _along_axis(laying: _Laying, node: Node) -> bool:
    """Concat and Split."""
    parts = [each for each in node.inputs if varies(each)] if node.op == "Concat" else []
    orders = [laying.order(each) for each in parts or node.inputs[:1]]
    order = next((each for each in orders if each != in_order(len(each))), None)
    if order is None or "axis" not in node.attrs:
        return False
    for place in range(len(node.inputs) if node.op == "Concat" else 1):
        laying.read(node, place, order)
    node.attrs["axis"] = _place(order, node.attrs["axis"])
    for place, tensor in enumerate(node.outputs):
        if not tensor.is_empty():
            laying.put(node, order, place)
    return True


def _place(order: Order, axis: int) -> int:
    """Where an axis lies, counted from the end if it was."""
    rank = len(order)
    return order.index(axis % rank) - (rank if axis < 0 else 0)


def _listed(laying: _Laying, node: Node, at: int, lists: Sequence[int]) -> bool:
    """Axes listed by input ``at``, all without it; the inputs ``lists`` have rows for each."""
    order = laying.order(node.inputs[0])
    given = [input_at(node, place) for place in (at, *lists)]
    values = [None if each is None else constant(each) for each in given]
    unknown = any(a is not None and b is None for a, b in zip(given, values, strict=True))
    if order == in_order(len(order)) or unknown or "axes" in node.attrs:
        return False
    axes, *rows = values
    if axes is None and any(
        row is not None and row.size and row.size % len(order) for row in rows
    ):
        return False
    laying.read(node, 0, order)
    if axes is not None:
        laying.own_constant(node, at, [_place(order, int(axis)) for axis in axes])
    else:
        for place, row in zip(lists, rows, strict=True):
            if row is not None and row.size:
                moved = row.reshape(-1, len(order))[:, list(order)].reshape(-1)
                laying.own_constant(node, place, moved)
    laying.put(node, order)
    return True


def _slice(laying: _Laying, node: Node) -> bool:
    return _listed(laying, node, 3, [1, 2, 4])


def _pad(laying: _Laying, node: Node) -> bool:
    if "pads" in node.attrs or len(node.inputs) < 2:
        return False
    return _listed(laying, node, 3, [1])


def _int_pad(laying: _Laying, node: Node) -> bool:
    order = laying.order(node.inputs[0])
    if order == in_order(len(order)):
        return False
    laying.read(node, 0, order)
    rows = np.reshape(node.attrs["pads"], (2, -1))[:, list(order)]
    node.attrs["pads"] = rows.reshape(-1).tolist()
    laying.put(node, order)
    return True


def _resize(laying: _Laying, node: Node) -> bool:
    return _listed(laying, node, len(node.inputs), [1, 2, 3])


def _transpose(laying: _Laying, node: Node) -> bool:
    """Nothing moves: the axes have other places. Where nobody gains by it, it stays."""
    order = laying.order(node.inputs[0])
    rank = len(order)
    perm = [*(node.attrs.get("perm") or reversed(range(rank)))]
    made = tuple(perm.index(axis) for axis in order)
    if perm == [*range(rank)]:
        return _in_order_of(laying, node)
    asked = any(reader.op in PICTURES for reader in node.outputs[0].outputs)
    if order == in_order(rank) and not (made == channels_last(rank) and asked):
        return False
    if not _is_usual(made):
        return False
    laying.read(node, 0, order)
    node.op = "Identity"
    node.attrs.clear()
    laying.put(node, made)
    return True


def _is_usual(order: Order) -> bool:
    """Whether channels lie first or last: from others the way back is long."""
    return order in (in_order(len(order)), channels_last(len(order)))


def _in_order_of(laying: _Laying, node: Node) -> bool:
    """What moves nothing writes in the order that it reads."""
    order = laying.order(node.inputs[0])
    laying.read(node, 0, order)
    laying.put(node, order)
    return True


def _squeeze(laying: _Laying, node: Node) -> bool:
    axes, order = constant(input_at(node, 1)), laying.order(node.inputs[0])
    if axes is None or order == in_order(len(order)):
        return False
    laying.read(node, 0, order)
    laying.own_constant(node, 1, [_place(order, int(axis)) for axis in axes])
    laying.put(node, without(order, [int(axis) % len(order) for axis in axes]))
    return True


def _reshape(laying: _Laying, node: Node) -> bool:
    """Reshape and Flatten, where what they join and split lies together."""
    x, y = node.inputs[0], node.outputs[0]
    order, shape, wanted = laying.order(x), [*laying.sizes(x)], [*y.shape]
    rank = len(order)
    if shape[:1] == wanted[:1] and order[:1] == (0,):
        shape[0] = wanted[0] = _ANY if isinstance(shape[0], str) else shape[0]
    if order == in_order(rank) or not all(isinstance(n, int) for n in (*shape, *wanted)):
        return False
    given, made = regrouped(shape, wanted, order)
    if given != order or not _is_usual(made):
        return False
    if node.op == "Flatten":
        if made != in_order(2) or node.attrs.get("axis", 1) != 1:
            return False
    else:
        sizes = constant(node.inputs[1])
        zeros = () if sizes is None else np.flatnonzero(sizes == 0)
        kept = sizes is not None and (len(zeros) == 0 or list(zeros) == [0] == [made[0]])
        if sizes is None or not kept or (len(zeros) and order[0] != 0):
            return False
        laying.own_constant(node, 1, sizes[list(made)])
    laying.read(node, 0, order)
    laying.put(node, made)
    return True


_ANY = 2
"""A size that is free: no other is a part of it."""

_OURS: Mapping[str, Callable[[_Laying, Node], bool]] = {
    **dict.fromkeys(PICTURES, _picture),
    "IntExtreme": _reduce,
    "IntPad": _int_pad,
    "IntReduce": _reduce,
    "LutInterpolatedPerChannel": _per_channel,
    "LutPerChannel": _per_channel,
}
_ONNX: Mapping[str, Callable[[_Laying, Node], bool]] = {
    "Concat": _along_axis,
    "Flatten": _reshape,
    "MaxPool": _max_pool,
    "Pad": _pad,
    "Reshape": _reshape,
    "Resize": _resize,
    "Slice": _slice,
    "Split": _along_axis,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
}
_HANDLERS = {
    **dict.fromkeys(BY_NUMBER, _by_number),
    **{(DOMAIN, name): how for name, how in _OURS.items()},
    **{("", name): how for name, how in _ONNX.items()},
}
"""By domain and op: whether a node was laid out. All others keep ONNX's order."""
