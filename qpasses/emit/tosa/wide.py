"""Integers of any width, exact, in int32 operations: what RESCALE alone cannot say.

A number is a sum of columns, 12 bits apart. Bounds are known of each and of the whole: nothing
leaves int32, a column is carried over to the next where it would, and none is kept that is
always zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Rounding
from qpasses.emit.operations import Operations, RefusedError, Value

LIMB = 12
"""Bits from one column to the next: products have 24, and a hundred of them fit int32."""

SATURATED = 28
"""Levels of so many bits are beyond all codes, and within what a RESCALE takes."""

_BASE = 1 << LIMB


@dataclass(frozen=True)
class Column:
    """int32 numbers between two bounds."""

    value: Value
    low: int
    high: int

    @property
    def is_limb(self) -> bool:
        """Whether it carries nothing over."""
        return self.low >= 0 and self.high < _BASE


@dataclass(frozen=True)
class Wide:
    """Numbers from ``low`` to ``high``; ``columns`` from the lowest on, None for zero."""

    program: Operations
    columns: tuple[Column | None, ...]
    low: int
    high: int

    @classmethod
    def of(cls, program: Operations, value: Value, low: int, high: int) -> Wide:
        """int32 numbers, which lie between ``low`` and ``high``."""
        return cls(program, (Column(value, low, high),), low, high)

    @classmethod
    def of_limbs(
        cls, program: Operations, limbs: Iterable[Value], low: int, high: int
    ) -> Wide:
        """Numbers of 12 bits each, and a last one that has the rest and the sign."""
        *lower, top = limbs
        places = LIMB * len(lower)
        last = Column(top, low >> places, high >> places)
        columns = (*(Column(limb, 0, _BASE - 1) for limb in lower), last)
        return cls(program, columns, low, high)

    @classmethod
    def constant(cls, program: Operations, numbers: NDArray[Any]) -> Wide:
        """Integers that are known, of any size if they are objects."""
        low, high = int(numbers.min()), int(numbers.max())
        limbs = [program.constant(each, "int32") for each in limbs_of(numbers)]
        return cls.of_limbs(program, limbs, low, high)

    def number(self, value: int) -> Wide:
        """One number, which broadcasts with this one."""
        rank = len(self.some.shape)
        return Wide.constant(self.program, np.full([1] * rank, value, object))

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the numbers, which single columns may lack."""
        shapes = (each.value.shape for each in self.columns if each is not None)
        return np.broadcast_shapes(*shapes)

    @property
    def some(self) -> Value:
        """One of its columns: its last."""
        return next(each.value for each in reversed(self.columns) if each is not None)

    def __add__(self, other: Wide) -> Wide:
        """The sum."""
        return self._summed(other, "add", self.low + other.low, self.high + other.high)

    def __sub__(self, other: Wide) -> Wide:
        """The difference."""
        return self._summed(other, "sub", self.low - other.high, self.high - other.low)

    def __mul__(self, other: Wide) -> Wide:
        """The product."""
        for a, b in ((self, other), (self.split(), other), (self, other.split())):
            if _products_fit(a.columns, b.columns):
                return a._product(b)
        return self.split()._product(other.split())

    def times(self, number: int) -> Wide:
        """The product with a number that is known."""
        if len(self.columns) == 1 and _fit(self.columns, 8 * abs(number)):  # sums too
            value = self.program.multiply(self.some, self.program.same_rank(number, self.some))
            return Wide.of(
                self.program, value, *_corners((self.low, self.high), (number,) * 2)
            )
        return self * self.number(number)

    def raised(self, bits: int) -> Wide:
        """Times ``2**bits``."""
        places, within = divmod(bits, LIMB)
        whole = self if _fit(self.columns, 2 << within) else self.split()
        moved = [
            each
            and Column(
                self.program.left_shift(each.value, within),
                each.low << within,
                each.high << within,
            )
            for each in whole.columns
        ]
        low, high = self.low << bits, self.high << bits
        return Wide(self.program, (*[None] * places, *moved), low, high)

    def total(self, axis: int) -> Wide:
        """The sum along an axis, of which one is left. Raises RefusedError for long axes."""
        cells = self.some.shape[axis]
        single = len(self.columns) == 1 and _fit(self.columns, cells)
        whole = self if single or _fit(self.columns, 2 * cells) else self.split()
        if not single and not _fit(whole.columns, 2 * cells):
            raise RefusedError(f"sums over {cells:,} cells, more than int32 adds up")
        summed = tuple(
            each
            and Column(
                self.program.reduce("reduce_sum", each.value, axis),
                each.low * cells,
                each.high * cells,
            )
            for each in whole.columns
        )
        return Wide(self.program, summed, self.low * cells, self.high * cells)

    def within(self, low: int, high: int) -> Wide:
        """The same, known to lie between these."""
        return Wide(self.program, self.columns, low, high)

    def is_negative(self) -> Value:
        """Where it is."""
        carry: Column | None = None
        for each in self.columns:
            if carry is not None:
                carry = self._over(carry)
            carry = self._joined("add", each, carry)
        assert carry is not None
        none = self.program.same_rank(0, carry.value)
        return self.program.elementwise("greater", none, carry.value)

    def limbs(self) -> list[Value]:
        """Of 12 bits each, but for the last, which has the rest and the sign."""
        program, found = self.program, list[Value]()
        carry: Column | None = None
        for place, each in enumerate(self.columns):
            column = self._joined("add", each, carry)
            carry = None
            if column is None:
                found.append(program.same_rank(0, self.some))
            elif place + 1 == len(self.columns) or column.is_limb:
                found.append(column.value)
            else:
                found.append(program.masked(column.value, _BASE - 1))
                carry = self._over(column)
        while len(found) > 1 and self._fits(len(found) - 1):
            sign = found.pop()
            if self.low < 0:
                raised = program.left_shift(sign, LIMB)
                found[-1] = program.elementwise("add", found[-1], raised)
        return self._whole(found)

    def _whole(self, limbs: list[Value]) -> list[Value]:
        """``limbs`` that together have the shape of the numbers: what had it may be gone."""
        if np.broadcast_shapes(*(each.shape for each in limbs)) == self.shape:
            return limbs
        for each in self.columns:
            if each is not None:
                nothing = self.program.masked(each.value, 0)
                limbs[0] = self.program.elementwise("add", limbs[0], nothing)
        return limbs

    def split(self) -> Wide:
        """In limbs, of which the last too has 12 bits and perhaps a sign."""
        limbs = self.limbs()
        while not self._fits(len(limbs)):
            top = limbs.pop()
            limbs.append(self.program.masked(top, _BASE - 1))
            limbs.append(self.program.right_shift(top, LIMB))
        return Wide.of_limbs(self.program, limbs, self.low, self.high)

    def lowered(self, bits: int) -> Wide:
        """Over ``2**bits``, rounded down."""
        program, limbs = self.program, self.limbs()
        low, high = self.low >> bits, self.high >> bits
        places = min(bits // LIMB, len(limbs) - 1)
        within = bits - LIMB * places
        kept = limbs[places:]
        found = [program.right_shift(each, min(within, 31)) for each in kept]
        if within:
            for place, above in enumerate(kept[1:]):
                lowest = program.masked(above, (1 << within) - 1)
                moved = program.left_shift(lowest, LIMB - within)
                found[place] = program.elementwise("add", found[place], moved)
        return Wide.of_limbs(program, self._whole(found), low, high)

    def lowered_by(self, bits: Value, most: int) -> Wide:
        """Numbers that are not negative over ``2**bits``, of up to ``most`` bits that vary."""
        program, number = self.program, self.program.same_rank
        limbs = self.split().limbs()
        for _ in range(most // LIMB):
            is_more = program.elementwise("greater_equal", bits, number(LIMB, bits))
            moved = [*limbs[1:], number(0, bits)]
            limbs = [program.select(is_more, *pair) for pair in zip(moved, limbs, strict=True)]
            fewer = program.elementwise("sub", bits, number(LIMB, bits))
            bits = program.select(is_more, fewer, bits)
        found = []
        for limb, above in pairwise(limbs):
            both = program.elementwise("add", program.left_shift(above, LIMB), limb)
            found.append(program.masked(program.right_shift(both, bits), _BASE - 1))
        found.append(program.right_shift(limbs[-1], bits))
        return Wide.of_limbs(program, found, 0, self.high)

    def lowest(self, bits: int) -> Wide:
        """The remainder by ``2**bits`` of numbers that are not negative."""
        assert self.low >= 0
        places, within = divmod(bits, LIMB)
        limbs = self.split().limbs()
        kept = limbs[:places]
        if within and places < len(limbs):
            kept.append(self.program.masked(limbs[places], (1 << within) - 1))
        high = min((1 << bits) - 1, self.high)
        return Wide.of_limbs(self.program, self._whole(kept), 0, high)

    def rounded(self, bits: int, rounding: Rounding) -> Wide:
        """Over ``2**bits``, rounded to the nearest."""
        if bits == 0:
            return self
        lifted = self + self.number(1 << (bits - 1))
        level = lifted.lowered(bits)
        if rounding == "half_up":
            return level
        program, is_tie = self.program, lifted._is_multiple(bits)
        if rounding == "half_to_even":
            one = program.masked(level.limbs()[0], 1)
        else:  # away from zero: of negative numbers the lower one
            one = program.select(
                self.is_negative(),
                program.same_rank(1, level.some),
                program.same_rank(0, level.some),
            )
        less = program.select(is_tie, one, program.same_rank(0, one))
        lower = level - Wide.of(program, less, 0, 1)
        return lower.within(level.low - 1, level.high)

    def int32(self) -> Value:
        """As one number each, which fits."""
        assert self.low >= -(1 << 31) and self.high < 1 << 31
        return self._horner([])

    def saturated(self) -> Value:
        """As one number each, within 2**28 of zero: what is not is still beyond all codes."""
        return self._horner([SATURATED - LIMB, SATURATED])

    def _horner(self, bits: Sequence[int]) -> Value:
        """The limbs as one; ``bits``: what each sum, and the last, saturates at."""
        program = self.program
        *lower, value = self.limbs()
        low, high = self.low >> LIMB * len(lower), self.high >> LIMB * len(lower)
        for limb in (*reversed(lower), None):
            end = 1 << bits[limb is None] if bits else 1 << 31
            if low < -end or high >= end:
                value = program.clamp(value, -end, end - 1)
                low, high = max(low, -end), min(high, end - 1)
            if limb is not None:
                value = program.elementwise("add", program.left_shift(value, LIMB), limb)
                low, high = low << LIMB, (high << LIMB) + _BASE - 1
        return value

    def _fits(self, places: int) -> bool:
        """Whether so many limbs are enough, the last of which has a sign if there is one."""
        end = 1 << LIMB * places
        return -end <= self.low and self.high < end

    def _summed(self, other: Wide, op: str, low: int, high: int) -> Wide:
        sides, single = (self, other), len(self.columns) == len(other.columns) == 1
        if not _fit((*self.columns, *other.columns), 2 if single else 4):
            sides = self.split(), other.split()
        pairs = zip_longest(sides[0].columns, sides[1].columns)
        return Wide(self.program, tuple(self._joined(op, *pair) for pair in pairs), low, high)

    def _product(self, other: Wide) -> Wide:
        columns: list[Column | None] = [None] * (len(self.columns) + len(other.columns) - 1)
        for place, a in enumerate(self.columns):
            for more, b in enumerate(other.columns, place):
                if a is not None and b is not None and (b.low or b.high or not more):
                    product = self.program.multiply(a.value, b.value)
                    term = Column(product, *_corners((a.low, a.high), (b.low, b.high)))
                    columns[more] = self._joined("add", columns[more], term)
        ends = _corners((self.low, self.high), (other.low, other.high))
        return Wide(self.program, tuple(columns), *ends)

    def _joined(self, op: str, a: Column | None, b: Column | None) -> Column | None:
        """The sum or difference of two columns."""
        if b is None:
            return a
        low, high = (-b.high, -b.low) if op == "sub" else (b.low, b.high)
        if a is not None:
            value = self.program.elementwise(op, a.value, b.value)
            return Column(value, a.low + low, a.high + high)
        value = b.value
        if op == "sub":
            value = self.program.elementwise("sub", self.program.same_rank(0, value), value)
        return Column(value, low, high)

    def _over(self, column: Column) -> Column:
        """What it carries over to the next."""
        above = self.program.right_shift(column.value, LIMB)
        return Column(above, column.low >> LIMB, column.high >> LIMB)

    def _is_multiple(self, bits: int) -> Value:
        """Where ``2**bits`` divides it."""
        program, limbs = self.program, self.limbs()
        places = min(bits // LIMB, len(limbs) - 1)
        within = bits - LIMB * places
        parts = limbs[:places]
        if within:
            last = limbs[places]
            parts.append(last if within > 30 else program.masked(last, (1 << within) - 1))
        return program.are_zero(parts)


def limbs_of(numbers: NDArray[Any]) -> list[NDArray[Any]]:
    """Of 12 bits each, the last with the rest and the sign, and not many bits more."""
    limbs = []
    while numbers.min() < -_BASE or numbers.max() >= _BASE:
        limbs.append(numbers & (_BASE - 1))
        numbers = numbers >> LIMB
    return [*limbs, numbers]


def _fit(columns: Sequence[Column | None], factor: int) -> bool:
    """Whether columns times ``factor`` fit int32, with room for what is carried to them."""
    ends = (max(abs(each.low), abs(each.high)) for each in columns if each is not None)
    return max(ends, default=0) * factor < 1 << 31


def _products_fit(a: Sequence[Column | None], b: Sequence[Column | None]) -> bool:
    """Whether the columns of a product fit int32, with room for what is carried to them."""
    sizes = [0] * (len(a) + len(b) - 1)
    for place, x in enumerate(a):
        for more, y in enumerate(b, place):
            if x is not None and y is not None:
                sizes[more] += max(map(abs, _corners((x.low, x.high), (y.low, y.high))))
    if len(sizes) == 1:
        return sizes[0] < 1 << 31
    return max(sizes) < 1 << 30


def _corners(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """The bounds of a product."""
    products = [x * y for x in a for y in b]
    return min(products), max(products)
