"""Elementwise chains: what becomes one table, because it looks at one number at a time."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.target import Target
from qpasses.ir.choices import ActivationForm
from qpasses.ir.graph import (
    Graph,
    Node,
    Tensor,
    constant,
    is_float,
    is_graph_output,
    producer,
    sole_consumer,
    varies,
)
from qpasses.ir.shapes import keeps_shape
from qpasses.ir.stages import CLAMPING

UNARY = frozenset(
    {
        "Abs",
        "Acos",
        "Acosh",
        "Asin",
        "Asinh",
        "Atan",
        "Atanh",
        "Ceil",
        "Celu",
        "Clip",
        "Cos",
        "Cosh",
        "Elu",
        "Erf",
        "Exp",
        "Floor",
        "Gelu",
        "HardSigmoid",
        "HardSwish",
        "LeakyRelu",
        "Log",
        "Mish",
        "Neg",
        "Reciprocal",
        "Relu",
        "Round",
        "Selu",
        "Shrink",
        "Sigmoid",
        "Sign",
        "Sin",
        "Sinh",
        "Softplus",
        "Softsign",
        "Sqrt",
        "Tan",
        "Tanh",
        "ThresholdedRelu",
    }
)
"""Functions of one number."""

COMBINING = frozenset(
    {"Add", "Div", "Max", "Mean", "Min", "Mod", "Mul", "PRelu", "Pow", "Sub", "Sum"}
)
"""Functions of several numbers: of one, if the others are constant or made of it too."""

ELEMENTWISE = UNARY | COMBINING

PAIRING = frozenset({"Add", "Div", "Max", "Mean", "Min", "Mul", "PRelu", "Pow", "Sub"})
"""Functions of two tensors that a table of all pairs of codes may hold."""


_STANDARD = (None, "", "ai.onnx")


def _is_float32(tensor: Tensor) -> bool:
    return is_float(tensor) and bool(tensor.dtype == np.float32)


def objection(node: Node) -> str:
    """Why ``node``, whose op is in ELEMENTWISE, looks at more than one number; "" if not."""
    x = [tensor for tensor in node.inputs if varies(tensor)]
    if not x:
        return f"{node.op} of a constant"
    if node.op in UNARY and (len(x) > 1 or x[0] is not node.inputs[0]):
        return f"{node.op} with a bound that is not constant"
    if node.domain not in _STANDARD:
        return f"{node.op} of domain {node.domain} has no integer form in this version"
    if any(not _is_float32(tensor) for tensor in [*x, *node.outputs]):
        return f"{node.op} of other types than float32"
    shapes = [tensor.shape for tensor in x]
    if not all(keeps_shape(shape, value) for shape in shapes for value in _constants(node)):
        return f"{node.op} with a constant that changes the shape"
    if len(_axes(node)) > 1 and slopes_of(node) is None:
        return f"{node.op} with a constant that differs along several axes"
    return ""


def is_elementwise(node: Node) -> bool:
    """Whether a table may hold ``node``, if its inputs are made of one tensor."""
    return node.op in ELEMENTWISE and not objection(node)


def _constants(node: Node) -> list[NDArray[Any]]:
    return [value for t in node.inputs if (value := constant(t)) is not None]


def _axes(node: Node) -> set[int]:
    """The axes of its tensors, from 0 on, along which the constants of ``node`` differ."""
    known = next(tensor for tensor in node.inputs if varies(tensor)).shape
    return {
        len(known) - value.ndim + axis
        for value in _constants(node)
        for axis, size in enumerate(value.shape)
        if size > 1
    }


def differing_axes(nodes: Sequence[Node]) -> set[int]:
    """The axes along which constants of ``nodes`` differ; none where they are numbers."""
    return set().union(*map(_axes, nodes))


def slopes_of(node: Node) -> NDArray[Any] | None:
    """The slopes below zero of a LeakyRelu or a PRelu, if they are constant and finite."""
    slopes = None
    if node.op == "LeakyRelu":
        slopes = np.array(node.attrs.get("alpha", 0.01), np.float32)
    elif node.op == "PRelu" and varies(node.inputs[0]):
        slopes = constant(node.inputs[1])
    return slopes if slopes is not None and np.isfinite(slopes).all() else None


def takes_multipliers(
    nodes: Sequence[Node], form: ActivationForm | None, target: Target
) -> bool:
    """Whether a chain is a LeakyRelu or PRelu alone, by multipliers as ``form`` says.

    Or because the target has a form of its own or no tables, or because no table holds it: its
    slopes differ along several axes.
    """
    if len(nodes) != 1 or slopes_of(nodes[0]) is None:
        return False
    wanted = form == "multiplier" or target.slopes != "multipliers" or not target.tables
    return wanted or len(_axes(nodes[0])) > 1


def pair_objection(node: Node) -> str:
    """Why ``node``, whose op is in PAIRING, is no function of two float32 tensors.

    One of them may be a constant, which is stored like the other.
    """
    first, *others = node.inputs
    if len(others) != 1 or others[0] is first or not any(map(varies, node.inputs)):
        return f"{node.op} of other than two tensors has no integer form in this version"
    if not all(value.size and np.isfinite(value).all() for value in _constants(node)):
        return f"{node.op} with a constant that is empty or not finite"
    if node.domain not in _STANDARD:
        return f"{node.op} of domain {node.domain} has no integer form in this version"
    if not all(map(_is_float32, node.inputs)):
        return f"{node.op} of other types than float32"
    return ""


def made_of(
    end: Tensor, apart: Container[str], walls: Container[str] = ()
) -> tuple[list[Node], Tensor | None]:
    """The elementwise nodes that make ``end`` of one tensor, in order, and this one.

    Without nodes whose names are in ``apart``, nor what makes tensors whose names are in
    ``walls``.
    """
    order: list[Node] = []
    leaves: dict[int, Tensor] = {}
    seen: set[int] = set()
    waiting = [(end, False)]
    while waiting:
        tensor, is_done = waiting.pop()
        node = producer(tensor)
        is_wall = tensor is not end and tensor.name in walls
        if is_done and node is not None:
            order.append(node)
        elif node is None or is_wall or node.name in apart or not is_elementwise(node):
            leaves[id(tensor)] = tensor
        elif id(node) not in seen:
            seen.add(id(node))
            waiting.append((tensor, True))
            waiting += [(each, False) for each in node.inputs if varies(each)]
    return order, next(iter(leaves.values())) if len(leaves) == 1 else None


def divisor_of(
    graph: Graph, node: Node, apart: Container[str] = ()
) -> tuple[list[Node], Tensor] | None:
    """The nodes that make the divisor of a Div of one other tensor, and that tensor.

    They become one function of both with the Div, so that a small divisor is never rounded.
    Not where anything else reads what lies between, nor of numbers that differ along an axis,
    nor without those whose names are in ``apart``.
    """
    if node.op != "Div" or node.name in apart or pair_objection(node):
        return None
    nodes, source = made_of(node.inputs[1], apart)
    if not nodes or source is None or source is node.inputs[0] or differing_axes(nodes):
        return None
    inside = {*map(id, nodes), id(node)}
    ends = [each.outputs[0] for each in nodes]
    is_alone = all(
        not is_graph_output(graph, end) and inside.issuperset(map(id, end.outputs))
        for end in ends
    )
    return (nodes, source) if is_alone else None


@dataclass
class Chains:
    """Nodes of which each computes a function of one number of one tensor, its source."""

    members: list[Node] = field(default_factory=list)
    _sources: dict[int, Tensor] = field(default_factory=dict)
    _axes: dict[int, set[int]] = field(default_factory=dict)
    _alone: set[int] = field(default_factory=set)
    _beginnings: dict[int, bool] = field(default_factory=dict)
    _given: set[int] = field(default_factory=set)

    def source(self, tensor: Tensor) -> Tensor:
        """What ``tensor`` is a function of; itself, if no member writes it."""
        return self._sources.get(id(tensor), tensor)

    def is_inside(self, tensor: Tensor) -> bool:
        """Whether a member writes ``tensor``, and its chain may go on behind it."""
        place = id(tensor)
        written = place in self._sources and place not in self._alone
        return written and len(self._axes[place]) <= 1

    def join(self, node: Node, alone: bool = False) -> str:
        """Make ``node`` a member, whose inputs are known, or say why not.

        It begins a chain where its constants differ along another axis than those before:
        what differs along several axes is a chain of its own. So is what is ``alone``: no
        other node is in its chain.
        """
        if reason := objection(node):
            return reason
        inputs = {id(t): t for t in node.inputs if varies(t)}
        within = [t for i, t in inputs.items() if i not in self._alone]
        axes = _axes(node).union(*(self._axes.get(id(t), ()) for t in within))
        behind = {i: t for i, t in inputs.items() if i in self._alone}
        sources = behind | {id(s): s for s in map(self.source, within)}
        if len(axes) > 1 or alone:
            sources, axes = inputs, _axes(node)
        if len(sources) > 1:
            return f"{node.op} of two tensors has no integer form in this version"
        (source,), output = sources.values(), id(node.outputs[0])
        self.members.append(node)
        self._sources[output], self._axes[output] = source, axes
        if alone:
            self._alone.add(output)
        return ""

    def holds(self, node: Node) -> bool:
        """Whether ``node`` is a member."""
        return id(node.outputs[0]) in self._sources

    def give(self, nodes: Iterable[Node]) -> None:
        """Let another node take in ``nodes``: their chain ends before them."""
        self._given.update(map(id, nodes))

    def is_given(self, node: Node) -> bool:
        """Whether another node takes it in."""
        return id(node) in self._given

    def begin_with(self, graph: Graph, clamp: Node) -> bool:
        """Whether a Relu or Clip is only the beginning of a chain."""
        row, reader = [clamp], sole_consumer(graph, clamp.outputs[0])
        while id(row[-1]) not in self._beginnings and reader is not None:
            if reader.op not in CLAMPING or not is_elementwise(reader):
                break
            row.append(reader)
            reader = sole_consumer(graph, reader.outputs[0])
        found = self._beginnings.get(id(row[-1]))
        if found is None:
            found = _continues(reader, row[-1].outputs[0])
        self._beginnings |= dict.fromkeys(map(id, row), found)
        return found

    def ends(self, graph: Graph) -> list[Tensor]:
        """The tensors that members write and others read, or that leave the graph."""
        written = [node.outputs[0] for node in self.members if not self.is_given(node)]
        return [
            tensor
            for tensor in written
            if is_graph_output(graph, tensor)
            or any(not self._shares(reader, tensor) for reader in tensor.outputs)
        ]

    def readers(self, ends: Iterable[Tensor]) -> set[tuple[int, int]]:
        """Ids of an end and of a node that reads it inside its chain: it needs no rounding."""
        return {(id(t), id(n)) for t in ends for n in t.outputs if self._shares(n, t)}

    def _shares(self, reader: Node, tensor: Tensor) -> bool:
        """Whether ``reader`` is in the chain that ``tensor`` is in."""
        source = self._sources.get(id(reader.outputs[0]) if reader.outputs else 0)
        return source is self.source(tensor)


def _continues(reader: Node | None, tensor: Tensor) -> bool:
    """Whether ``reader`` computes with one number of ``tensor`` and no other one."""
    if reader is None or reader.op in CLAMPING or not is_elementwise(reader):
        return False
    is_alone = all(each is tensor for each in filter(varies, reader.inputs))
    return is_alone and len(_axes(reader)) <= 1
