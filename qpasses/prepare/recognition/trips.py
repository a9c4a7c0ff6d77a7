"""How often a Loop runs: as a constant says, or as long as a tensor is."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from qpasses.ir.graph import Node, Tensor, constant, input_at, producer
from qpasses.prepare.recognition.gates import plain

Length: TypeAlias = int | tuple[Tensor, int]
"""A number of steps, or the tensor and the axis of it that is as long."""

_ENDLESS = 2**31 - 1
"""What converters write where nothing limits a loop, and anything above."""


@dataclass(frozen=True)
class Count:
    """A number that grows by ``step`` with each step, from ``start`` on.

    ``lengths``: plus so many times how often the Loop runs, where that is no number.
    """

    step: int
    start: int
    lengths: int = 0


class Trips:
    """The counting of a Loop: what its conditions and indices are in each step."""

    def __init__(self, node: Node) -> None:
        """Look at the states that count."""
        body = node.attrs["body"]
        self._node, self._body = node, body
        self._counts: dict[int, Count] = {id(body.inputs[0]): Count(1, 0)}
        states = len(node.inputs) - 2
        for given, before, after in zip(
            node.inputs[2:], body.inputs[2:], body.outputs[1 : 1 + states], strict=True
        ):
            first = _whole(given)
            if first is None:
                continue
            self._counts[id(before)] = Count(0, 0)
            grown = self.count(after)
            self._counts.pop(id(before))
            if plain(after) is before:
                self._counts[id(before)] = Count(0, first)
            elif grown is not None and _is_number(grown) and _adds_to(after, before):
                self._counts[id(before)] = Count(grown.start, first)

    @property
    def counting(self) -> Mapping[int, Count]:
        """The counts by the ids of the states before a step."""
        return self._counts

    def count(self, tensor: Tensor) -> Count | None:
        """``tensor`` as a number that grows evenly; None for another one."""
        number = _whole(tensor)
        if number is not None:
            return Count(0, number)
        if id(tensor) in self._counts:
            return self._counts[id(tensor)]
        node = producer(tensor)
        if node is not None and node.op in _SAME and not node.domain:
            return self.count(node.inputs[0])
        if node is None or node.domain or node.op not in ("Add", "Neg", "Sub"):
            return Count(0, 0, 1) if self._is_length(tensor) else None
        counts = [self.count(each) for each in node.inputs]
        first, second = [Count(0, 0), *counts][-2:]
        if first is None or second is None:
            return None
        sign = 1 if node.op == "Add" else -1
        return Count(
            first.step + sign * second.step,
            first.start + sign * second.start,
            first.lengths + sign * second.lengths,
        )

    def _is_length(self, tensor: Tensor) -> bool:
        """Whether ``tensor`` is what limits the Loop, the size of a tensor."""
        most, ours = input_at(self._node, 0), _length(self._outside(tensor))
        whole = None if most is None else _length(most)
        if not (isinstance(ours, tuple) and isinstance(whole, tuple)):
            return False
        return _size(ours) == _size(whole)

    def length(self) -> Length | None:
        """How many steps the loop takes; None where data says so."""
        limits = [*self._limits()]
        fixed = [each for each in limits if isinstance(each, int)]
        free = [each for each in limits if isinstance(each, tuple)]
        if None in limits or not (fixed or free):
            return None
        least = min(fixed, default=_ENDLESS)
        if not free:
            return least if 0 < least < _ENDLESS else None
        first, *others = free
        same = all(_size(each) == _size(first) for each in others)
        return first if same and least >= _ENDLESS else None

    def _limits(self) -> Iterator[Length | None]:
        node = self._node
        most, condition = input_at(node, 0), input_at(node, 1)
        if most is not None:
            yield _length(most)
        if condition is not None and not self._begins(condition):
            yield None
        yield from self._conditions(self._body.outputs[0])

    def _begins(self, condition: Tensor) -> bool:
        """Whether a first step is taken, of at least one."""
        value, node = constant(condition), producer(condition)
        if value is not None:
            return bool(value.all())
        if node is None:
            return False
        if node.op in _SAME:
            return self._begins(node.inputs[0])
        if node.op == "And":
            return all(map(self._begins, node.inputs))
        less, more = _compared(node)
        if less is None or more is None:
            return False
        return _whole(less) == 0 and _length(more) is not None

    def _conditions(self, condition: Tensor) -> Iterator[Length | None]:
        """The limits that the condition at the end of a step sets."""
        condition = plain(condition)
        value, node = constant(condition), producer(condition)
        if condition is self._body.inputs[1]:
            return
        if value is not None:
            if not value.all():
                yield 1
            return
        if node is not None and node.op in _SAME:
            yield from self._conditions(node.inputs[0])
        elif node is not None and node.op == "And":
            for each in node.inputs:
                yield from self._conditions(each)
        else:
            yield None if node is None else self._limit(node)

    def _limit(self, node: Node) -> Length | None:
        """That of ``count < length``, asked at the end of each step."""
        less, more = _compared(node)
        count = None if less is None else self.count(less)
        length = None if more is None else _length(self._outside(more))
        if count is None or (count.step, count.lengths) != (1, 0) or length is None:
            return None
        if isinstance(length, int):
            return max(length - count.start + 1, 1)
        return length if count.start == 1 else None

    def _outside(self, tensor: Tensor) -> Tensor:
        """What a state that never changes was given as."""
        body, node = self._body, self._node
        tensor = plain(tensor)
        for place, before in enumerate(body.inputs[2:]):
            if tensor is before and plain(body.outputs[1 + place]) is before:
                return node.inputs[2 + place]
        return tensor


_SAME = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""Ops that give the one number that they read."""


def _compared(node: Node) -> tuple[Tensor | None, Tensor | None]:
    """The operands of ``less < more``."""
    if node.op == "Less" and not node.domain:
        return node.inputs[0], node.inputs[1]
    if node.op == "Greater" and not node.domain:
        return node.inputs[1], node.inputs[0]
    return None, None


def _whole(tensor: Tensor) -> int | None:
    """The one whole number that a constant holds."""
    values = constant(tensor)
    if values is None or values.size != 1 or values.dtype.kind not in "iuf":
        return None
    number = float(np.ravel(values)[0])
    return int(number) if number.is_integer() else None


def _is_number(count: Count) -> bool:
    return count.step == 0 and count.lengths == 0


def _adds_to(after: Tensor, before: Tensor) -> bool:
    """Whether ``after`` is ``before`` and something more, each once."""
    node = producer(plain(after))
    if node is None or node.op != "Add":
        return False
    return sum(plain(each) is before for each in node.inputs) == 1


def _length(tensor: Tensor) -> Length | None:
    """The constant that ``tensor`` holds, or the size of which tensor it is."""
    node = producer(tensor)
    while node is not None and node.op in _SAME:
        tensor = node.inputs[0]
        node = producer(tensor)
    number = _whole(tensor)
    if number is not None:
        return number
    if node is None or node.op not in ("Gather", "Slice"):
        return None
    shape, place = producer(node.inputs[0]), _whole(node.inputs[1])
    if shape is None or shape.op != "Shape" or place is None or shape.attrs.get("start", 0):
        return None
    x = shape.inputs[0]
    if node.op == "Slice" and _whole(node.inputs[2]) != place + 1:
        return None
    return None if x.shape is None else (x, place % len(x.shape))


def _size(length: tuple[Tensor, int]) -> object:
    """The size by number or name; unknown ones are like no other."""
    x, axis = plain(length[0]), length[1]
    size = None if x.shape is None else x.shape[axis]
    return (x.name, axis) if size is None else size


def is_as_long(length: Length, x: Tensor, axis: int) -> bool:
    """Whether ``x`` has as many steps along ``axis``."""
    ours = length if isinstance(length, int) else _size(length)
    return bool(ours == _size((x, axis)))
