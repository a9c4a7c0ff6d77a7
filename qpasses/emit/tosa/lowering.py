"""What lowerings of single ops share: values in their layouts, constants, requantization."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from opsets.errors import ModelError
from opsets.fixed_point import Int64
from opsets.rounding import NodeRounding, wraps
from qpasses.emit import mlir
from qpasses.emit.layouts import Laid, Layouts, Order, in_order
from qpasses.emit.operations import NUMPY, WIDE, Operations, RefusedError, Value
from qpasses.emit.tosa.equal_rescales import (
    MOST_UNCHANGED,
    UNCHANGED,
    UNCHANGED_WIDE,
    WIDE_BITS,
    Pairs,
    UnequalError,
    equal_rescale,
    for_channels,
    is_beyond,
    same_ratios,
    ties,
    wide_rescale,
)
from qpasses.emit.tosa.program import Program
from qpasses.emit.tosa.rescales import rescaled
from qpasses.emit.tosa.wide import Wide
from qpasses.evidence.bodies import constants_of
from qpasses.evidence.prove import rests_of
from qpasses.evidence.thresholds import Interval, levels, meaning_thresholds
from qpasses.ir.graph import Node, Tensor, constant


@dataclass
class Lowering(Layouts[Value]):
    """A graph on its way to a program."""

    system: ClassVar[str] = "TOSA"
    """What it becomes, as messages call it."""

    no_float: ClassVar[str] = "TOSA's integer profile has none"

    program: Operations = field(default_factory=Program)
    _known: dict[int, NDArray[Any]] = field(default_factory=dict)
    _sizes: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def begin(self, node: Node) -> None:
        """What follows computes ``node``."""
        self.program.where = str(node.name)

    def transposed(self, value: Value, axes: Sequence[int]) -> Value:
        """``value`` with its axes in another order."""
        return self.program.transpose(value, axes)

    def write(self, tensor: Tensor, value: Value, order: Order | None = None) -> None:
        """``tensor`` is this value, its axes as ONNX has them by default."""
        super().write(tensor, value, order or in_order(len(value.shape)))

    def unwritten(self, tensor: Tensor) -> Laid[Value]:
        """A constant."""
        values = self.known(tensor)
        if values is None:
            raise RefusedError(f"tensor {tensor.name!r} was not written")
        value = self.program.constant(*self.as_stored(values, tensor.name))
        return Laid(value, in_order(values.ndim))

    def known(self, tensor: Tensor) -> NDArray[Any] | None:
        """Its numbers, as ONNX has them, if they do not vary."""
        found = constant(tensor)
        return self._known.get(id(tensor)) if found is None else np.asarray(found)

    def settle(self, tensor: Tensor, values: NDArray[Any]) -> None:
        """``tensor`` holds these and no others."""
        self.keep(tensor)
        self._known[id(tensor)] = values

    def settle_shape(self, tensor: Tensor, shape: Sequence[int]) -> None:
        """Of ``tensor`` its sizes alone are asked for."""
        self.keep(tensor)
        self._sizes[id(tensor)] = tuple(shape)

    def shape(self, tensor: Tensor) -> tuple[int, ...]:
        """Its sizes, as ONNX has them."""
        if id(tensor) in self._sizes:
            return self._sizes[id(tensor)]
        values = self.known(tensor)
        if values is not None:
            return tuple(values.shape)
        laid = self.laid(tensor)
        return tuple(laid.value.shape[laid.order.index(k)] for k in range(len(laid.order)))

    def read(self, tensor: Tensor, order: Order | None = None) -> Value:
        """The value of ``tensor``, its axes in this order: ONNX's by default."""
        values = self.known(tensor)
        if values is None:
            order = order or in_order(len(self.laid(tensor).order))
            return self.moved_to(order, tensor)
        stored = np.transpose(values, order or in_order(values.ndim))
        return self.program.constant(*self.as_stored(stored, tensor.name))

    def common_order(self, tensors: Sequence[Tensor]) -> Order:
        """The order in which elementwise operations read these."""
        varying = [self.laid(each) for each in tensors if self.known(each) is None]
        rank = max(len(self.shape(each)) for each in tensors)
        orders = [each.order for each in varying if len(each.order) == rank]
        moved = [each for each in orders if each != in_order(rank)]
        return (moved or orders or [in_order(rank)])[0]

    def broadcast(self, tensor: Tensor, order: Order) -> Value:
        """Its value in this order, with ones before its own axes where it has fewer."""
        shape, rank = self.shape(tensor), len(order)
        if len(shape) == rank:
            return self.read(tensor, order)
        whole = (1,) * (rank - len(shape)) + shape
        values = self.known(tensor)
        if values is not None:
            stored = np.transpose(values.reshape(whole), order)
            return self.program.constant(*self.as_stored(stored, tensor.name))
        return self.program.transpose(self.program.reshape(self.read(tensor), whole), order)

    def constants(self, node: Node) -> dict[str, NDArray[Any]]:
        """What its op declares, with the constants that were found to be such."""
        return constants_of(node)

    def requantized(self, acc: Value, node: Node, reachable: Interval) -> Value:
        """Sums of int32, or int48, as the codes that ``node`` stores; channels are last."""
        given = self.constants(node)
        if acc.element == WIDE:
            return self.requantized_parts([acc], node, reachable)
        rounding, rest = node.attrs["rounding"], rests_of(node)
        steps = levels(*(int(given[name]) for name in ("y_zero", "y_min", "y_max")))
        sizes = given["multiplier"].size, given["shift"].size, 1 if rest is None else rest.size
        own = [
            np.broadcast_to(given[n].reshape(-1).astype(np.int64), (max(sizes),))
            for n in ("multiplier", "shift")
        ]
        reachable = for_channels(reachable, max(sizes))
        if not reachable.fits_int32():
            raise UnequalError("its sums are beyond int32")
        if any(wraps(end, own[1], rounding).any() for end in (reachable.low, reachable.high)):
            raise UnequalError("its sums wrap as they are shifted to the left")
        meaning = _Meaning(own[0], own[1], rounding, rest)
        try:
            start = same_ratios(given, max(sizes))
        except UnequalError:
            return self.by_limbs(acc, given, rounding, reachable, rest)
        if is_beyond(start[1], reachable) and steps.size:
            ends = reachable.clip(meaning.thresholds(slice(None), steps[[0, -1]]))
            acc, reachable = self._within_steps(acc, ends, reachable)
        try:
            return self.ended(acc, _equal_pairs(start, steps, reachable, meaning), given)
        except UnequalError:
            if rounding == "half_to_even" and rest is None and _keeps_ties(start, reachable):
                return self._ties_to_even(acc, start, given)
            return self.by_limbs(acc, given, rounding, reachable, rest)

    def requantized_parts(
        self, parts: Sequence[Value], node: Node, reachable: Interval
    ) -> Value:
        """The same of channels that were summed apart, and are joined: int48 is not.

        RESCALE of int48 has short multipliers: sums that int32 holds are moved there for
        others. Raises RefusedError where neither gives what the node does.
        """
        given, axis, program = self.constants(node), len(parts[0].shape) - 1, self.program
        if parts[0].element != WIDE:
            return self.requantized(program.concat(parts, axis), node, reachable)
        pairs = wide_rescale(given, node.attrs["rounding"], reachable)
        if pairs is not None:
            ends = np.cumsum([part.shape[axis] for part in parts])[:-1]
            each = zip(*(_apart(numbers, ends) for numbers in pairs), strict=True)
            codes = [self.ended(*both, given) for both in zip(parts, each, strict=True)]
            return program.concat(codes, axis)
        if reachable.fits_int32():
            moved = [program.rescale(part, "i32", UNCHANGED_WIDE) for part in parts]
            return self.requantized(program.concat(moved, axis), node, reachable)
        raise RefusedError(
            "its sums of 16-bit integers leave int32, and RESCALE of int48 has multipliers of "
            f"{WIDE_BITS} bits, rounded up at ties: quantize with a target that has such "
            "(--target tosa)"
        )

    def _within_steps(
        self, acc: Value, wanted: Int64, reachable: Interval
    ) -> tuple[Value, Interval]:
        """Sums that go no farther than to either side of the first and the last step.

        There each channel has the codes that it has beyond.
        """
        low = np.maximum(reachable.low, wanted[:, 0] - 1)
        high = np.maximum(np.minimum(reachable.high, wanted[:, -1]), low)
        shape = [*[1] * (len(acc.shape) - 1), low.size]
        for op, end in (("maximum", low), ("minimum", high)):
            number = self.program.constant(end.reshape(shape), "int32")
            acc = self.program.elementwise(op, acc, number)
        return acc, Interval(low, high)

    def _ties_to_even(
        self, acc: Value, pairs: Pairs, given: Mapping[str, NDArray[Any]]
    ) -> Value:
        """RESCALE to int32, one less where it rounded a tie up to an odd level."""
        program, channels = self.program, pairs[0].size
        shape = [*[1] * (len(acc.shape) - 1), channels]
        mask, half = (
            program.constant(each.reshape(shape), "int32") for each in ties(given, channels)
        )
        level = program.rescale(acc, "i32", pairs)
        dropped = program.elementwise("bitwise_and", acc, mask)
        is_tie = program.elementwise("equal", dropped, half)
        odd = program.masked(level, 1)
        less = program.select(is_tie, odd, program.same_rank(0, odd))
        level = program.elementwise("sub", level, less)
        return self.ended(level, UNCHANGED, given)

    def by_limbs(
        self,
        acc: Value,
        given: Mapping[str, NDArray[Any]],
        rounding: str,
        reachable: Interval,
        rest: Int64 | None,
    ) -> Value:
        """Exact products, rounded as the node says."""
        ends = int(reachable.low.min()), int(reachable.high.max())
        number = Wide.of(self.program, acc, *ends)
        level = rescaled(number, given["multiplier"], given["shift"], rounding, rest)
        return self.ended(level.saturated(), UNCHANGED, given)

    def ended(
        self,
        acc: Value,
        pairs: tuple[NDArray[Any], NDArray[Any]],
        given: Mapping[str, NDArray[Any]],
    ) -> Value:
        """int32 rescaled to the codes between the ends that ``given`` has."""
        dtype = given["y_zero"].dtype
        element, less = self.element_of(dtype, "y"), offset(dtype)
        zero, low, high = (int(given[name]) - less for name in ("y_zero", "y_min", "y_max"))
        if element == "i8" or (element == "i16" and zero == 0):  # alone these have zero points
            codes = self.program.rescale(acc, element, pairs, (0, zero))
            return self.program.clamp(codes, low, high)
        level = acc if pairs is UNCHANGED else self.program.rescale(acc, "i32", pairs)
        if zero:
            number = self.program.same_rank(zero, level)
            level = self.program.elementwise("add", level, number)
        return self.program.cast(self.program.clamp(level, low, high), element)

    def element_of(self, dtype: np.dtype[np.generic], name: str) -> str:
        """MLIR's element type for stored integers; ModelError, naming the tensor, for others.

        uint8 is stored as int8, 128 lower, and int16 as the program holds it.
        """
        found = {"uint8": "i8", "int16": self.program.words, "int64": "i32"}
        element = found.get(dtype.name) or mlir.ELEMENTS.get(dtype.name, "")
        if dtype.kind == "f":
            raise ModelError(f"tensor {name!r} is left in float, and {self.no_float}")
        if element not in NUMPY:
            raise ModelError(
                f"tensor {name!r} is {dtype.name}: TOSA has integers up to 32 bits"
            )
        return element

    def as_stored(self, values: NDArray[Any], name: str) -> tuple[NDArray[Any], str]:
        """An ONNX array as the program holds it, and numpy's name of its type."""
        dtype = NUMPY[self.element_of(values.dtype, name)]
        if values.dtype == np.uint8:
            return (values.astype(np.int16) - 128).astype(np.int8), dtype
        if values.dtype == np.int64 and not fits_int32(values):
            raise RefusedError(f"constant {name!r} has numbers beyond int32")
        return values.astype(dtype), dtype

    def levels(self, x: Value, zero: int) -> Value:
        """Codes less their zero point, as int32."""
        wide = self.program.cast(x, "i32")
        if zero == 0:
            return wide
        number = self.program.same_rank(zero, wide)
        return self.program.elementwise("sub", wide, number)


@dataclass(frozen=True)
class _Meaning:
    """What channels are requantized by."""

    multiplier: Int64
    shift: Int64
    rounding: NodeRounding
    rest: Int64 | None

    def thresholds(self, channels: slice, steps: Int64) -> Int64:
        """Of some channels, the sums from which on each step is reached."""
        rest = self.rest
        if rest is not None:
            rest = np.broadcast_to(rest, self.multiplier.shape)[channels]
        numbers = self.multiplier[channels], self.shift[channels]
        return meaning_thresholds(*numbers, steps, self.rounding, rest)


def _apart(numbers: Int64, ends: NDArray[np.intp]) -> list[Int64]:
    """Those of each part; one for all is that of each."""
    return [numbers] * (len(ends) + 1) if numbers.size == 1 else np.split(numbers, ends)


_BLOCK = 32
"""So many channels at once, so that thresholds take little memory."""


def _equal_pairs(start: Pairs, steps: Int64, reachable: Interval, meaning: _Meaning) -> Pairs:
    """RESCALE's multipliers and shifts, channel by channel. Raises UnequalError."""
    found = []
    for first in range(0, start[0].size, _BLOCK):
        some = slice(first, first + _BLOCK)
        part = Interval(reachable.low[some], reachable.high[some])
        wanted = meaning.thresholds(some, steps)
        found.append(equal_rescale((start[0][some], start[1][some]), steps, part, wanted))
    multiplier, shift = (np.concatenate(each) for each in zip(*found, strict=True))
    return multiplier, shift


def _keeps_ties(pairs: Pairs, reachable: Interval) -> bool:
    """Whether a RESCALE to int32 takes what is reached, and gives levels of 28 bits."""
    if is_beyond(pairs[1], reachable):
        return False
    widest = np.maximum(np.abs(reachable.low), np.abs(reachable.high)) * np.ldexp(
        pairs[0].astype(np.float64), -pairs[1]
    )
    return bool(widest.max() < MOST_UNCHANGED / 2)


def offset(dtype: np.dtype[Any]) -> int:
    """By how much less codes of this type are stored."""
    return 128 if dtype == np.uint8 else 0


def fits_int32(values: NDArray[Any]) -> bool:
    """Whether int32 holds all numbers."""
    limits = np.iinfo(np.int32)
    return bool(limits.min <= values.min(initial=0) and values.max(initial=0) <= limits.max)
