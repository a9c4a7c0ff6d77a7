"""ONNX's order back: what the nodes of a file whose channels lie last mean.

The record of a file says in which order the axes of its tensors lie. From that follows what
each node does to tensors as ONNX has them: which node of the float model it is can be judged,
and every proof reads the same graph, however its tensors lie. Nothing of what laid them out is
asked; a node that cannot mean anything in the orders it has is damaged.
"""

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from itertools import accumulate
from math import prod
from operator import mul
from typing import Any

import numpy as np

from opsets.either_layout import ATTRIBUTE, layout_of
from opsets.errors import ModelError
from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from qpasses.ir.by_number import BY_NUMBER
from qpasses.ir.graph import (
    Graph,
    Node,
    Tensor,
    constant,
    is_graph,
    is_graph_output,
    new_constant,
    producer,
    redirect,
    varies,
)
from qpasses.ir.record import NodeRecord, Record

Order = tuple[int, ...]


class _MeaninglessError(Exception):
    """Why the orders of a node's tensors cannot be."""


def restore_order(graph: Graph, record: Record) -> list[str]:
    """Rewrite ``graph``, as it was read, to tensors whose axes lie as ONNX has them.

    Gives what is wrong with the record of copies, which are no part of it then. Raises
    ModelError, naming the node, where orders contradict each other.
    """
    if not record.orders and not any(entry.layout for entry in record.nodes.values()):
        return []
    for node in graph.nodes:
        if any(map(is_graph, node.attrs.values())):
            raise ModelError(
                f"node {node.name!r} has bodies, beside which nothing lies otherwise"
            )
    lying = _Lying(graph, record)
    for node in list(graph.nodes):
        try:
            lying.restore(node)
        except _MeaninglessError as error:
            raise ModelError(
                f"node {node.name!r} ({node.op}) has tensors in orders that cannot be: {error}"
            ) from error
    lying.finish()
    return lying.unlike


class _Lying:
    """A graph whose tensors lie in the orders of ``record``."""

    def __init__(self, graph: Graph, record: Record) -> None:
        self.graph, self.record = graph, record
        self._constants: dict[int, tuple[Tensor, Order]] = {}
        self._read: Counter[int] = Counter()
        self._copies: list[Node] = []
        self.unlike: list[str] = []
        for tensor in (*graph.inputs, *graph.outputs):
            if tensor.name in record.orders:
                raise ModelError(f"{tensor.name!r} does not lie as inputs and outputs do")
        for name, order in record.orders.items():
            if sorted(order) != list(range(len(order))):
                raise ModelError(f"the order of tensor {name!r} is none")

    def order(self, tensor: Tensor) -> Order | None:
        """The order of its axes; None where not even their number is known."""
        known = self.record.orders.get(tensor.name)
        if tensor.shape is not None and known is not None and len(known) != len(tensor.shape):
            raise _MeaninglessError(f"{tensor.name!r} has {len(tensor.shape)} axes")
        if known is None and tensor.shape is not None:
            return tuple(range(len(tensor.shape)))
        return known

    def known(self, tensor: Tensor) -> Order:
        """The order of a tensor whose rank is known."""
        found = self.order(tensor)
        if found is None or tensor.shape is None:
            raise _MeaninglessError(f"the file does not say the shape of {tensor.name!r}")
        return found

    def entry(self, node: Node) -> NodeRecord:
        """What is recorded of a node."""
        found = self.record.nodes.get(node.name)
        if found is None:
            raise _MeaninglessError("there is no record of it")
        return found

    def sizes(self, tensor: Tensor) -> list[Any]:
        """Those it has as ONNX has them."""
        order = self.known(tensor)
        return [tensor.shape[order.index(axis)] for axis in range(len(order))]

    def restore(self, node: Node) -> None:
        """What ``node`` means, in place."""
        ends = [each for each in (*node.inputs, *node.outputs) if each.name]
        laid = any(each.name in self.record.orders for each in ends)
        entry = self.record.nodes.get(node.name)
        if not laid and ATTRIBUTE not in node.attrs and not (entry and entry.layout):
            return
        if entry and entry.layout and (node.domain != DOMAIN or node.op not in _LAID):
            raise _MeaninglessError(f"its body is for {entry.layout}")
        how = _HANDLERS.get((node.domain or "", node.op))
        if how is None:
            raise _MeaninglessError("it knows ONNX's order alone")
        how(self, node)

    def alike(self, tensors: Sequence[Tensor]) -> Order:
        """The one order of these."""
        first, *others = (self.known(each) for each in tensors)
        if any(each != first for each in others):
            raise _MeaninglessError("they are not alike")
        return first

    def as_onnx(self, tensor: Tensor, wanted: Order) -> None:
        """A constant, which has to lie in this order, becomes one that lies as in ONNX."""
        usual = tuple(range(len(wanted)))
        if self.record.orders.get(tensor.name, usual) != wanted or len(tensor.shape) != len(
            usual
        ):
            raise _MeaninglessError(f"constant {tensor.name!r} lies in another")
        if wanted != usual:
            self._constants[id(tensor)] = tensor, wanted
            self._read[id(tensor)] += 1

    def number(self, node: Node, place: int, values: Sequence[int]) -> None:
        """Other numbers in a constant of ``node`` alone."""
        old = node.inputs[place]
        if np.array_equal(values, old.values):
            return
        if len(old.outputs) != 1:
            raise _MeaninglessError(f"{old.name!r} is also another's")
        node.inputs[place] = new_constant(old.name, np.asarray(values, old.dtype))

    def copies(self, node: Node) -> None:
        """``node`` only gives a tensor another order in memory."""
        self._copies.append(node)
        given, copy = node.inputs[0].name, node.outputs[0].name
        if self.record.tensors.get(given) != self.record.tensors.get(copy):
            self.unlike.append(
                f"tensor {copy!r} is recorded unlike {given!r}, which it copies"
            )

    def finish(self) -> None:
        """Let all tensors have the sizes that ONNX has them in, each of them once."""
        for tensor in self.graph.tensors().values():
            is_laid = tensor.name in self.record.orders and not varies(tensor)
            if is_laid and self._read[id(tensor)] != len(tensor.outputs):
                raise ModelError(f"constant {tensor.name!r} is read in another order too")
        for tensor, order in self._constants.values():
            tensor.values = np.ascontiguousarray(
                np.transpose(tensor.values, [order.index(axis) for axis in range(len(order))])
            )
        for tensor in self.graph.tensors().values():
            if varies(tensor) and tensor.name in self.record.orders:
                tensor.shape = self.sizes(tensor)
        for node in self._copies:
            source, copy = node.inputs[0], node.outputs[0]
            node.inputs.clear()
            node.outputs.clear()
            if is_graph_output(self.graph, copy):
                writer = producer(source)
                if writer is None:
                    raise ModelError(f"output {copy.name!r} is an input")
                redirect(self.graph, source, copy)
                place = next(k for k, each in enumerate(writer.outputs) if each is source)
                writer.outputs[place] = copy
                self.record.tensors.pop(source.name, None)
            else:
                redirect(self.graph, copy, source)
                self.record.tensors.pop(copy.name, None)
        gone = {id(node) for node in self._copies}
        self.graph.nodes = [node for node in self.graph.nodes if id(node) not in gone]


def _picture(lying: _Lying, node: Node) -> None:
    order, entry = (
        lying.alike([node.inputs[0], node.outputs[0]]),
        lying.entry(node),
    )
    rank = len(order)
    if order != (0, *range(2, rank), 1) or not layout_of(rank):
        raise _MeaninglessError("neither channels first nor last")
    if _integer(node, ATTRIBUTE) != 1:
        raise _MeaninglessError("it does not say that channels are last")
    del node.attrs[ATTRIBUTE]
    entry.layout = layout_of(rank)


def _integer(node: Node, name: str) -> int | None:
    """An attribute that is a number, None for others and without it."""
    found = node.attrs.get(name)
    return found if type(found) is int else None


def _per_channel(lying: _Lying, node: Node) -> None:
    order, entry = (
        lying.alike([node.inputs[0], node.outputs[0]]),
        lying.entry(node),
    )
    axis, rank = _integer(node, "axis"), len(order)
    if axis is None or not 0 <= axis < rank or order != (0, *range(2, rank), 1):
        raise _MeaninglessError(f"axis {axis!r}")
    if entry.layout not in ("", layout_of(rank)) or order[axis] != 1:
        raise _MeaninglessError(f"its body is for {entry.layout}, axis {order[axis]}")
    node.attrs["axis"], entry.layout = order[axis], layout_of(rank)


def _by_number(lying: _Lying, node: Node) -> None:
    written = [each for each in node.outputs if not each.is_empty()]
    order = lying.alike(written)
    rank = len(order)
    op = OPS[node.op] if node.domain == DOMAIN else None
    for place, tensor in enumerate(node.inputs):
        name = "" if op is None else [*op.inputs][place]
        if op is not None and name not in op.data and not name.startswith("slope_"):
            continue
        values = constant(tensor)
        if values is None and not tensor.is_empty():
            if lying.known(tensor) not in ((), order):
                raise _MeaninglessError("they are not alike")
        elif values is not None and (values.size != 1 or tensor.name in lying.record.orders):
            missing = rank - values.ndim
            if missing < 0 or order[:missing] != tuple(range(missing)):
                raise _MeaninglessError(f"constant {tensor.name!r} has {values.ndim} axes")
            lying.as_onnx(tensor, tuple(axis - missing for axis in order[missing:]))


def _identity(lying: _Lying, node: Node) -> None:
    """A Transpose of the model that moves nothing."""
    before, after = lying.known(node.inputs[0]), lying.known(node.outputs[0])
    if before != after:
        node.op, node.attrs = (
            "Transpose",
            {"perm": _permutation(before, after, range(len(after)))},
        )


def _permutation(before: Order, after: Order, moved: Sequence[int]) -> list[int]:
    """By which axes as ONNX has them change, where axes in memory do so by ``moved``."""
    plain = isinstance(moved, list | range) and all(type(each) is int for each in moved)
    if not plain or not sorted(moved) == [*range(len(before))] == [*range(len(after))]:
        raise _MeaninglessError("it is no permutation")
    made = {after[place]: before[axis] for place, axis in enumerate(moved)}
    return [made[axis] for axis in range(len(after))]


def _transpose(lying: _Lying, node: Node) -> None:
    before, after = lying.known(node.inputs[0]), lying.known(node.outputs[0])
    moved = node.attrs.get("perm", list(reversed(range(len(before)))))
    perm = _permutation(before, after, moved)
    if perm == list(range(len(perm))) and node.name not in lying.record.nodes:
        given, copy = node.inputs[0], node.outputs[0]
        if lying.sizes(given) != lying.sizes(copy):
            raise _MeaninglessError(f"{copy.name!r} is said to have other sizes")
        lying.copies(node)
    node.attrs["perm"] = perm


def _reduce(lying: _Lying, node: Node) -> None:
    before, after = lying.known(node.inputs[0]), lying.known(node.outputs[0])
    axes = node.attrs.get("axes")
    if not isinstance(axes, list) or not axes or not all(type(each) is int for each in axes):
        raise _MeaninglessError("its axes are none")
    summed = sorted(_axis(before, axis) for axis in axes)
    gone = set() if _integer(node, "keepdims") else {axis % len(before) for axis in summed}
    if after != _without(before, gone):
        raise _MeaninglessError("what is left has another order")
    node.attrs["axes"] = summed


def _without(order: Order, gone: Container[int]) -> Order:
    """The order of the axes that are left."""
    left = [axis for axis in order if axis not in gone]
    return tuple(sorted(left).index(axis) for axis in left)


def _along_axis(lying: _Lying, node: Node) -> None:
    data = node.inputs if node.op == "Concat" else node.inputs[:1]
    written = [each for each in node.outputs if not each.is_empty()]
    order = lying.alike([*filter(varies, data), *written])
    for tensor in data:
        if not varies(tensor):
            lying.as_onnx(tensor, order)
    node.attrs["axis"] = _axis(order, _integer(node, "axis"))


def _axis(order: Order, place: Any) -> int:
    """The axis that lies at ``place``, counted from the end if that is."""
    rank = len(order)
    if not isinstance(place, int | np.integer) or not -rank <= place < rank:
        raise _MeaninglessError(f"axis {place!r}")
    return order[int(place) % rank] - (rank if place < 0 else 0)


def _listed(at: int | None, lists: Sequence[int]) -> Callable[[_Lying, Node], None]:
    """Ops with axes listed by input ``at``, or rows for all axes in the inputs ``lists``."""

    def restore(lying: _Lying, node: Node) -> None:
        order = lying.alike([node.inputs[0], node.outputs[0]])
        if at is not None and at < len(node.inputs) and not node.inputs[at].is_empty():
            axes = constant(node.inputs[at])
            if axes is None:
                raise _MeaninglessError("its axes vary")
            lying.number(node, at, [_axis(order, axis) for axis in axes.reshape(-1)])
            return
        if "axes" in node.attrs or "pads" in node.attrs:
            raise _MeaninglessError("its axes are attributes")
        for place in lists:
            if place >= len(node.inputs) or node.inputs[place].is_empty():
                continue
            row = constant(node.inputs[place])
            if row is None or row.size % len(order):
                raise _MeaninglessError(f"its input {place} is not of all axes")
            if row.size:
                back = [order.index(axis) for axis in range(len(order))]
                numbers = row.reshape(-1, len(order))[:, back].reshape(-1)
                lying.number(node, place, numbers.tolist())

    return restore


def _int_pad(lying: _Lying, node: Node) -> None:
    order = lying.alike([node.inputs[0], node.outputs[0]])
    pads = node.attrs.get("pads")
    is_list = isinstance(pads, list) and all(type(each) is int for each in pads)
    if not is_list or len(pads) != 2 * len(order):
        raise _MeaninglessError("its pads are not of all axes")
    back = [order.index(axis) for axis in range(len(order))]
    node.attrs["pads"] = np.reshape(pads, (2, -1))[:, back].reshape(-1).tolist()


def _squeeze(lying: _Lying, node: Node) -> None:
    before, after = lying.known(node.inputs[0]), lying.known(node.outputs[0])
    axes = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    if axes is None:
        raise _MeaninglessError("its axes are not known")
    gone = [_axis(before, axis) for axis in axes.reshape(-1)]
    if after != _without(before, {each % len(before) for each in gone}):
        raise _MeaninglessError("what is left has another order")
    lying.number(node, 1, gone)


def _reshape(lying: _Lying, node: Node) -> None:
    x, y = node.inputs[0], node.outputs[0]
    before, after = lying.known(x), lying.known(y)
    shape, made = lying.sizes(x), lying.sizes(y)
    if shape[:1] == made[:1] and isinstance(shape[0], str):
        shape[0] = made[0] = 1  # the same batch, first on both sides or not at all
        if (before[0], after[0]) != (0, 0):
            raise _MeaninglessError("the batch is not first")
    if not all(isinstance(size, int) for size in (*shape, *made)):
        raise _MeaninglessError("its sizes are not known")
    if prod(shape) != prod(made):
        raise _MeaninglessError("its sizes are others")
    if _blocks(shape, made, before, 0) != _blocks(shape, made, after, 1):
        raise _MeaninglessError("it joins or splits what does not lie together")
    if node.op == "Flatten":
        if after != (0, 1) or _integer(node, "axis") not in (None, 1) or before[:1] != (0,):
            raise _MeaninglessError("it is no Flatten")
        return
    sizes = constant(node.inputs[1])
    if sizes is None or len(sizes) != len(after):
        raise _MeaninglessError("its sizes vary")
    if 0 in sizes[1:] or (len(sizes) and sizes[0] == 0 and (before[0], after[0]) != (0, 0)):
        raise _MeaninglessError("it keeps the size of another axis")
    lying.number(node, 1, [int(sizes[after.index(axis)]) for axis in range(len(after))])


def _blocks(before: Sequence[int], after: Sequence[int], order: Order, side: int) -> list[int]:
    """Of axes that are made of one another, the blocks in the order in which they lie.

    Axes of one count nowhere. Raises where the axes of a block do not lie side by side, in
    their order.
    """
    products = [list(accumulate(sizes, mul)) for sizes in (before, after)]
    ends = sorted({*products[0]} & {*products[1]})
    sizes = (before, after)[side]
    found = list[int]()
    last: dict[int, int] = {}
    for axis in order:
        if sizes[axis] == 1:
            continue
        block = next(k for k, end in enumerate(ends) if products[side][axis] <= end)
        if block in last and (found[-1] != block or last[block] > axis):
            raise _MeaninglessError("it joins or splits what does not lie together")
        last[block] = axis
        found += [block] if found[-1:] != [block] else []
    return found


_OURS: Mapping[str, Callable[[_Lying, Node], None]] = {
    **{op.name: _picture for op in OPS.values() if ATTRIBUTE in op.attributes},
    "IntExtreme": _reduce,
    "IntPad": _int_pad,
    "IntReduce": _reduce,
    "LutInterpolatedPerChannel": _per_channel,
    "LutPerChannel": _per_channel,
}
_LAID = frozenset(_OURS) - {"IntExtreme", "IntPad", "IntReduce"}
"""Those whose bodies are for a layout."""

_ONNX: Mapping[str, Callable[[_Lying, Node], None]] = {
    "Concat": _along_axis,
    "Flatten": _reshape,
    "Identity": _identity,
    "Pad": _listed(3, [1]),
    "Reshape": _reshape,
    "Resize": _listed(None, [1, 2, 3]),
    "Slice": _listed(3, [1, 2, 4]),
    "Split": _along_axis,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
}
_HANDLERS = {
    **dict.fromkeys(BY_NUMBER, _by_number),
    **{(DOMAIN, name): how for name, how in _OURS.items()},
    **{("", name): how for name, how in _ONNX.items()},
}
"""By domain and op: how it is restored. All others know ONNX's order alone."""
