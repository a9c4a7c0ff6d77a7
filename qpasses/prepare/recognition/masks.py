"""Masks: what attention adds to scores, read as two values and where each of them is."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from math import isnan

import numpy as np

from qpasses.ir.graph import (
    Graph,
    Node,
    Tensor,
    add_node,
    constant,
    is_float,
    new_tensor,
    producer,
)
from qpasses.ir.rewriting import Context

DROPPING = -1000.0
"""What is at most this drops a score: no score that matters lies so far below another."""

_MOVING = frozenset(
    {"Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Tile"}
    | {"Transpose", "Unsqueeze"}
)
"""Ops that move the values of their first input, in the same way whatever its type is."""

_PAIRS: dict[str, Callable[[float, float], float]] = {
    "Add": lambda a, b: a + b,
    "Div": lambda a, b: a / b if b else float("nan"),
    "Max": max,
    "Min": min,
    "Mul": lambda a, b: a * b,
    "Sub": lambda a, b: a - b,
}
"""Functions of two numbers."""

_COMPARED: dict[str, Callable[[float, float], float]] = {
    "Equal": lambda a, b: float(a == b),
    "Greater": lambda a, b: float(a > b),
    "GreaterOrEqual": lambda a, b: float(a >= b),
    "Less": lambda a, b: float(a < b),
    "LessOrEqual": lambda a, b: float(a <= b),
}
"""Comparisons of two numbers."""

_FUNCTIONS = _PAIRS | _COMPARED

Make = Callable[[], Tensor]


@dataclass(frozen=True)
class Flags:
    """A tensor that is ``yes`` where ``make()``, of its shape, is true, and else ``no``.

    ``assumed``: inputs of the graph that are taken to hold only 0 and 1.
    """

    yes: float
    no: float
    make: Make
    assumed: frozenset[str] = frozenset()

    @property
    def is_mask(self) -> bool:
        """Whether it leaves scores as they are, or drops them."""
        return sorted([_level(self.yes), _level(self.no)]) == [-np.inf, 0.0]

    def mapped(self, function: Callable[[float], float]) -> "Flags":
        """``function`` of it."""
        return replace(self, yes=function(self.yes), no=function(self.no))


@dataclass(frozen=True)
class Reader:
    """Reads tensors of ``graph`` as ``Flags``; ``context`` shares what it makes."""

    graph: Graph
    context: Context
    _known: dict[int, tuple[Tensor, Flags | None]] = field(default_factory=dict)

    def read(self, tensor: Tensor) -> Flags | None:
        """``tensor`` as two values; None if it may have more."""
        if id(tensor) not in self._known:
            self._known[id(tensor)] = tensor, self._shared(tensor)  # kept: ids are used again
        return self._known[id(tensor)][1]

    def _shared(self, tensor: Tensor) -> Flags | None:
        """What is read of ``tensor``, made once; booleans that are no more than that."""
        found = self._read(tensor)
        if found is None or isnan(found.yes) or isnan(found.no):
            return Flags(1.0, 0.0, lambda: tensor) if tensor.dtype == np.bool_ else None
        make = found.make
        return replace(found, make=lambda: self.context.condition(tensor, make))

    def _read(self, tensor: Tensor) -> Flags | None:
        node, value = producer(tensor), constant(tensor)
        if value is not None:
            return self._constant(tensor)
        if node is None:
            return self._input(tensor)
        if tensor.dtype == np.bool_ and not _is_made(node):
            return None
        if node.op == "ConstantOfShape":
            return self._filled(node)
        if node.op in _MOVING or node.op == "Trilu":
            return self._moved(node)
        if node.op in ("Cast", "Neg", "Not"):
            return self._of_one(node)
        if node.op == "Where":
            return self._chosen(node)
        return self._of_two(node) if node.op in _FUNCTIONS and len(node.inputs) == 2 else None

    def _constant(self, tensor: Tensor) -> Flags | None:
        value = constant(tensor)
        if value is None or value.size == 0 or value.dtype.kind not in "fiub":
            return None
        levels = sorted({_level(float(each)) for each in np.unique(value)})
        if len(levels) > 2:
            return None
        is_low = np.asarray([_level(float(x)) == levels[0] for x in value.ravel()], bool)
        low = float(value.min())
        high = levels[-1] if len(levels) == 2 else 0.0
        flags = is_low.reshape(value.shape)
        return Flags(low, high, partial(self.context.constant, f"{tensor.name}.is_low", flags))

    def _input(self, tensor: Tensor) -> Flags | None:
        """An input that is no boolean: a mask of 0 and 1, if it turns out to be one."""
        if tensor.dtype == np.bool_ or not any(tensor is each for each in self.graph.inputs):
            return None
        make = partial(self._node, "Cast", [tensor], tensor, to=9)
        return Flags(1.0, 0.0, make, frozenset({tensor.name}))

    def _filled(self, node: Node) -> Flags:
        """One number everywhere."""
        given = constant(node.attrs.get("value"))
        number = 0.0 if given is None else float(given.reshape(()))
        yes = self.context.constant("true", np.ones(1, np.bool_))
        make = partial(
            self._node, "ConstantOfShape", list(node.inputs), node.outputs[0], value=yes
        )
        return Flags(number, 0.0, make)

    def _moved(self, node: Node) -> Flags | None:
        """What is moved, as booleans; Trilu puts 0 beside."""
        found = self.read(node.inputs[0])
        if found is None or (node.op == "Trilu" and found.no != 0):
            return None
        make = found.make
        rest, attributes = node.inputs[1:], dict(node.attrs)
        return replace(
            found,
            make=lambda: self._node(
                str(node.op), [make(), *rest], node.outputs[0], **attributes
            ),
        )

    def _of_one(self, node: Node) -> Flags | None:
        found = self.read(node.inputs[0])
        if found is None:
            return None
        if node.op == "Neg":
            return found.mapped(lambda x: -x)
        if node.op == "Not":
            return found.mapped(lambda x: float(not x))
        if node.outputs[0].dtype == np.bool_:
            return _certain(node, found.mapped(lambda x: float(x != 0)))
        is_kept = is_float(node.outputs[0]) or all(
            float(x).is_integer() for x in (found.yes, found.no)
        )
        return found if is_kept else None

    def _chosen(self, node: Node) -> Flags | None:
        """A Where: of a mask and what it drops, also if the condition is made of the mask."""
        condition = self.read(node.inputs[0])
        first, second = (_number(each) for each in node.inputs[1:])
        if condition is None or (first is None and second is None):
            return None
        if first is not None and second is not None:
            return condition.mapped(lambda x: first if x else second)
        writer = producer(node.inputs[0])
        casts = writer.inputs if writer is not None and writer.op == "Cast" else []
        if first is not None and casts and casts[0] is node.inputs[2]:
            return condition.mapped(lambda x: first if x else 0.0)
        if first is None:
            number, other, is_first = second or 0.0, self.read(node.inputs[1]), False
        else:
            number, other, is_first = first, self.read(node.inputs[2]), True
        if other is None:
            return None
        return self._pair(
            node, condition, other, lambda c, each: number if bool(c) == is_first else each
        )

    def _of_two(self, node: Node) -> Flags | None:
        function = _FUNCTIONS[node.op]
        first, second = (_number(each) for each in node.inputs)
        if first is not None:
            found = self.read(node.inputs[1])
            return found and found.mapped(lambda x: function(first, x))
        if second is not None:
            found = self.read(node.inputs[0])
            is_zero = node.op == "Equal" and second == 0
            result = found and found.mapped(lambda x: function(x, second))
            return _certain(node, result) if result and is_zero else result
        one, other = (self.read(each) for each in node.inputs)
        return self._pair(node, one, other, function) if one and other else None

    def _pair(
        self, node: Node, one: Flags, other: Flags, function: Callable[[float, float], float]
    ) -> Flags | None:
        """A function of two: of its four values one differs from the others."""
        values = {
            (i, j): function((one.no, one.yes)[i], (other.no, other.yes)[j])
            for i in (0, 1)
            for j in (0, 1)
        }
        for (i, j), value in values.items():
            rest = [each for place, each in values.items() if place != (i, j)]
            if len(set(map(_level, rest))) == 1:
                ends = [(one.make, i), (other.make, j)]
                make = partial(self._both, ends, node.outputs[0])
                return Flags(value, max(rest), make, one.assumed | other.assumed)
        return None

    def _both(self, ends: list[tuple[Make, int]], like: Tensor) -> Tensor:
        made = [(make(), wanted) for make, wanted in ends]
        inputs = [t if wanted else self.negated(t) for t, wanted in made]
        return self._node("And", inputs, like)

    def negated(self, tensor: Tensor) -> Tensor:
        """Its Not; what that is the Not of already."""
        value = constant(tensor)
        if value is not None:
            return self.context.constant(f"{tensor.name}.not", ~value)
        return self._node("Not", [tensor], tensor)

    def or_none(self, keep: Tensor) -> Tensor:
        """``keep``, and true wherever nothing of the row, along the last axis, is."""
        value = constant(keep)
        if value is not None and value.ndim:
            whole = value | ~value.any(axis=-1, keepdims=True)
            return self.context.constant(f"{keep.name}.or_none", whole)
        make = partial(self._node, "Or", [keep, self.none(keep)], keep)
        return self.context.condition(keep, make)

    def none(self, keep: Tensor) -> Tensor:
        """Whether ``keep`` is false along the whole last axis, of which 1 is left."""
        shape = None if keep.shape is None else [*keep.shape[:-1], 1]
        number = self._node("Cast", [keep], keep, dtype=np.int32, to=6)
        axes = self.context.table("last_axis", np.array([-1], np.int64))
        count = self._node("ReduceSum", [number, axes], keep, dtype=np.int32, keepdims=1)
        none = self._node("Equal", [count, self.context.scalar("int32", 0)], keep)
        count.shape = none.shape = shape
        return none

    def _node(
        self,
        op: str,
        inputs: list[Tensor],
        like: Tensor,
        *,
        dtype: type[np.generic] = np.bool_,
        **attributes: object,
    ) -> Tensor:
        name = self.context.fresh(f"{like.name}.{op.lower()}")
        made = new_tensor(self.context.fresh(f"{name}_flags"), like, np.dtype(dtype))
        add_node(self.graph, op, name, inputs, [made], attributes=dict(attributes))
        return made


def _certain(node: Node, flags: Flags) -> Flags:
    """``flags`` of a node that asks what is 0: of an input as it is, whatever that holds."""
    tensor = node.inputs[0]
    while (writer := producer(tensor)) is not None and writer.op in _MOVING | {"Cast"}:
        tensor = writer.inputs[0]
    return replace(flags, assumed=frozenset()) if writer is None else flags


def _is_made(node: Node | None) -> bool:
    """Whether booleans may be read further: other steps compare what is no mask yet."""
    if node is None or node.op in ("Cast", "Not"):
        return node is not None
    return node.op in _COMPARED and is_float(node.inputs[0])


def _number(tensor: Tensor) -> float | None:
    """The number that ``tensor`` is, whatever its rank."""
    value = constant(tensor)
    return None if value is None or value.size != 1 else float(value.reshape(()))


def _level(value: float) -> float:
    """All values that drop a score are one."""
    return -np.inf if value <= DROPPING else value
