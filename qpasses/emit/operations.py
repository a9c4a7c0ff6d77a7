"""Operations on stored integers that a program in the making takes, whatever it is written in.

TOSA's names stand for them; int32 ones are exact, or what uses them keeps them so.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.errors import ModelError
from qpasses.emit import mlir


class RefusedError(ModelError):
    """What a program cannot say; the message names no node."""


WIDE = "i48"
"""The element of sums of products with int16."""

NUMPY = {"i1": "bool", "i8": "int8", "i16": "int16", "i32": "int32"}
"""numpy's names of elements."""

SHAPE = "shape"
"""The element of sizes, as operations that reshape or pad read them."""

_LIST = 64
"""So many tensors level 8K of TOSA joins at most: MAX_TENSOR_LIST_SIZE."""

_COMPARING = ("equal", "greater", "greater_equal")


@dataclass(frozen=True)
class Value:
    """What an operation gives: its name in the text, its sizes, the type of its elements."""

    name: str
    shape: tuple[int, ...]
    element: str

    @property
    def type(self) -> str:
        """Its type in the text."""
        if self.element == SHAPE:
            return f"!tosa.shape<{self.shape[0]}>"
        return mlir.tensor(self.shape, self.element)


@dataclass
class Operations(ABC):
    """Operations in order. ``where``: the node that is lowered.

    ``most_axes`` and ``largest_kernel``: what tensors and windows may have, None for any.
    """

    where: str = field(default="", kw_only=True)

    @property
    def most_axes(self) -> int | None:
        """None, if there is no limit."""
        return None

    @property
    def largest_kernel(self) -> int | None:
        """None, if there is no limit; strides and padding have the same one."""
        return None

    @property
    @abstractmethod
    def words(self) -> str:
        """How int16 is held: as itself, or as int32."""

    @abstractmethod
    def argument(self, shape: Sequence[int], element: str) -> Value:
        """An input of the program."""

    @abstractmethod
    def constant(self, values: Any, dtype: str) -> Value:
        """An array, of this numpy type."""

    @abstractmethod
    def wide_constant(self, values: Any) -> Value:
        """An array of int48, which numpy has not."""

    @abstractmethod
    def sizes(self, sizes: Sequence[int]) -> Value:
        """Sizes, as operations that reshape or pad read them."""

    @abstractmethod
    def add(
        self,
        op: str,
        inputs: Sequence[Value],
        shape: Sequence[int],
        element: str,
        **attributes: str,
    ) -> Value:
        """An operation by TOSA's name; ``attributes`` are text as ``mlir`` writes it."""

    @abstractmethod
    def permuted(self, x: Value, axes: Sequence[int], shape: Sequence[int]) -> Value:
        """``x`` with its axes in another order, which gives it this shape."""

    @abstractmethod
    def joined(self, parts: Sequence[Value], axis: int, shape: Sequence[int]) -> Value:
        """``parts`` behind one another."""

    @abstractmethod
    def reduce(self, op: str, x: Value, axis: int) -> Value:
        """``x`` reduced along an axis, of which one is left."""

    @abstractmethod
    def reverse(self, x: Value, axis: int) -> Value:
        """``x`` backwards along an axis."""

    @abstractmethod
    def argmax(self, x: Value, axis: int) -> Value:
        """Where codes are largest along an axis, which goes, as int32: the first."""

    @abstractmethod
    def right_shift(self, x: Value, bits: Value | int) -> Value:
        """int32 over ``2**bits``, rounded down."""

    @abstractmethod
    def are_zero(self, parts: Sequence[Value]) -> Value:
        """Where all of these int32 numbers are 0."""

    @abstractmethod
    def limited(self, x: Value, low: int, high: int) -> Value:
        """Codes of 8 or 16 bits within two of them."""

    @abstractmethod
    def interpolated(self, x: Value, table: NDArray[np.int64]) -> Value | None:
        """int16 along lines between 513 entries, with seven bits more, if there is such."""

    @abstractmethod
    def rescale(
        self,
        x: Value,
        element: str,
        pairs: tuple[NDArray[Any], NDArray[Any]],
        zeros: tuple[int, int] = (0, 0),
        unsigned: tuple[bool, bool] = (False, False),
    ) -> Value:
        """RESCALE with one rounding; multipliers and shifts one or a channel.

        Multipliers have 32 bits, of int48 16.
        """

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """``x`` with other sizes."""
        if tuple(shape) == x.shape:
            return x
        assert prod(shape) == prod(x.shape)
        return self.add("reshape", [x, self.sizes(shape)], shape, x.element)

    def transpose(self, x: Value, axes: Sequence[int]) -> Value:
        """``x`` with its axes in another order."""
        shape = [x.shape[k] for k in axes]
        moved = [k for k in axes if x.shape[k] > 1]
        if moved == sorted(moved):  # axes of one alone
            return self.reshape(x, shape)
        return self.permuted(x, axes, shape)

    def slice(self, x: Value, start: Sequence[int], size: Sequence[int]) -> Value:
        """A part of ``x``."""
        if tuple(size) == x.shape:
            return x
        ends = [self.sizes(start), self.sizes(size)]
        return self.add("slice", [x, *ends], size, x.element)

    @property
    def longest_list(self) -> int:
        """So many tensors are joined at once."""
        return _LIST

    def concat(self, parts: Sequence[Value], axis: int) -> Value:
        """``parts`` behind one another."""
        if len(parts) == 1:
            return parts[0]
        if len(parts) > self.longest_list:
            most = self.longest_list
            lists = [parts[k : k + most] for k in range(0, len(parts), most)]
            return self.concat([self.concat(each, axis) for each in lists], axis)
        shape = list(parts[0].shape)
        shape[axis] = sum(each.shape[axis] for each in parts)
        return self.joined(parts, axis, shape)

    def tile(self, x: Value, times: Sequence[int]) -> Value:
        """``x`` repeated so many times along each axis."""
        if all(each == 1 for each in times):
            return x
        shape = [size * each for size, each in zip(x.shape, times, strict=True)]
        return self.add("tile", [x, self.sizes(times)], shape, x.element)

    def pad(self, x: Value, pads: Sequence[tuple[int, int]], filling: int) -> Value:
        """``x`` with so many elements more before and behind along each axis."""
        if not any(map(any, pads)):
            return x
        shape = [size + sum(each) for size, each in zip(x.shape, pads, strict=True)]
        ends = self.sizes([end for each in pads for end in each])
        operands = [x, ends, self.zero_point(filling, x.element)]
        return self.add("pad", operands, shape, x.element)

    def zero_point(self, number: int, element: str) -> Value:
        """One number of this type."""
        return (
            self.wide_constant([number])
            if element == WIDE
            else self.constant([number], NUMPY[element])
        )

    def cast(self, x: Value, element: str) -> Value:
        """``x`` as other integers."""
        return x if x.element == element else self.add("cast", [x], x.shape, element)

    def elementwise(self, op: str, a: Value, b: Value) -> Value:
        """An operation of two tensors of one rank, which broadcast; comparisons give i1."""
        shape = np.broadcast_shapes(a.shape, b.shape)
        element = "i1" if op in _COMPARING else a.element
        return self.add(op, [a, b], shape, element)

    def same_rank(self, number: int, x: Value) -> Value:
        """A number in the type of ``x``, i32, that broadcasts with it."""
        return self.constant(np.full([1] * max(len(x.shape), 1), number), "int32")

    def multiply(self, a: Value, b: Value, shift: int = 0) -> Value:
        """The product of int32 tensors over ``2**shift``, half up, which has to fit int32."""
        shape = np.broadcast_shapes(a.shape, b.shape)
        return self.add("mul", [a, b, self.constant([shift], "int8")], shape, "i32")

    def select(self, where: Value, a: Value, b: Value) -> Value:
        """``a`` where it is true, elsewhere ``b``."""
        shape = np.broadcast_shapes(where.shape, a.shape, b.shape)
        return self.add("select", [where, a, b], shape, a.element)

    def masked(self, x: Value, mask: int) -> Value:
        """Bits of int32."""
        return self.elementwise("bitwise_and", x, self.same_rank(mask, x))

    def left_shift(self, x: Value, bits: Value | int) -> Value:
        """int32 times ``2**bits``, which has to fit int32."""
        if bits == 0:
            return x
        by = self.same_rank(bits, x) if isinstance(bits, int) else bits
        return self.elementwise("logical_left_shift", x, by)

    def clamp(self, x: Value, low: int, high: int) -> Value:
        """``x`` within two codes; nothing where they are the ends of its type."""
        bits = int(x.element[1:])
        if low <= -(1 << (bits - 1)) and high >= (1 << (bits - 1)) - 1:
            return x
        if x.element == "i32":  # has no clamp
            x = self.elementwise("maximum", x, self.same_rank(low, x))
            return self.elementwise("minimum", x, self.same_rank(high, x))
        return self.limited(x, low, high)
