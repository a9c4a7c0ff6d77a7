"""In which order the axes of tensors lie in memory, where a program wants channels last.

Convolutions and pools ask for channels last; what works element by element takes the order it
finds; a Transpose of the model only gives axes other places, and a Reshape keeps together in
memory what it splits or joins. What is left to move is moved where one order meets another,
once for each tensor.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import prod
from operator import mul
from typing import Generic, TypeVar

from qpasses.ir.graph import Tensor

Order = tuple[int, ...]
"""The axes of an ONNX tensor in the order in which they lie in memory."""

V = TypeVar("V")
"""What stands for a tensor in a program."""


def in_order(rank: int) -> Order:
    """As ONNX has them."""
    return tuple(range(rank))


def channels_last(rank: int) -> Order:
    """The batch, what is spatial, the channels."""
    return (0, *range(2, rank), 1)


def without(order: Order, axes: Iterable[int]) -> Order:
    """What is left in place of ``axes`` that are gone."""
    gone = set(axes)
    kept = sorted(set(order) - gone)
    return tuple(kept.index(axis) for axis in order if axis not in gone)


@dataclass(frozen=True)
class Laid(Generic[V]):
    """A value and the order of its axes."""

    value: V
    order: Order


@dataclass
class Layouts(ABC, Generic[V]):
    """The values of tensors, each in all orders that were asked for."""

    _laid: dict[int, list[Laid[V]]] = field(default_factory=dict)
    _tensors: list[Tensor] = field(default_factory=list)

    @abstractmethod
    def transposed(self, value: V, axes: Sequence[int]) -> V:
        """``value`` with its axes in another order."""

    @abstractmethod
    def unwritten(self, tensor: Tensor) -> Laid[V]:
        """The value of what no node wrote: a constant."""

    def keep(self, tensor: Tensor) -> None:
        """Its id is not used again."""
        self._tensors.append(tensor)

    def write(self, tensor: Tensor, value: V, order: Order) -> None:
        """``tensor`` is this value."""
        self.keep(tensor)
        self._laid[id(tensor)] = [Laid(value, order)]

    def is_written(self, tensor: Tensor) -> bool:
        """Whether it has a value."""
        return id(tensor) in self._laid

    def laid(self, tensor: Tensor) -> Laid[V]:
        """The value of ``tensor`` in the order it was written in."""
        if id(tensor) not in self._laid:
            found = self.unwritten(tensor)
            self.write(tensor, found.value, found.order)
        return self._laid[id(tensor)][0]

    def moved_to(self, order: Order, tensor: Tensor) -> V:
        """The value of ``tensor``, its axes in this order."""
        first = self.laid(tensor)
        for each in self._laid[id(tensor)]:
            if each.order == order:
                return each.value
        axes = [first.order.index(axis) for axis in order]
        made = Laid(self.transposed(first.value, axes), order)
        self._laid[id(tensor)].append(made)
        return made.value


def regrouped(
    shape: Sequence[int], wanted: Sequence[int], order: Order
) -> tuple[Order, Order]:
    """(the order to read in, the order of the result) of a Reshape from ``shape``.

    Axes that it makes of one another are a block. If those of each block lie in memory side by
    side, in ONNX's order, nothing is to be moved; axes of one do not count.
    """
    if 0 in shape:
        return in_order(len(shape)), in_order(len(wanted))
    ends = sorted({*_products(shape)} & {*_products(wanted)} | {prod(shape)})
    before, behind = (
        [bisect_left(ends, product) for product in _products(each)] for each in (shape, wanted)
    )
    counting = [axis for axis in order if shape[axis] > 1]
    blocks = [0, *(before[axis] for axis in counting)]  # the first may have ones alone
    if ends[0] > 1:
        del blocks[0]
    blocks = list(dict.fromkeys(blocks))
    read = sorted(counting, key=lambda axis: (blocks.index(before[axis]), axis))
    ones = [axis for axis in order if shape[axis] == 1]
    given = order if read == counting else (*ones, *read)
    places = range(len(wanted))
    return given, tuple(axis for block in blocks for axis in places if behind[axis] == block)


def _products(sizes: Sequence[int]) -> list[int]:
    return list(accumulate(sizes, mul))
