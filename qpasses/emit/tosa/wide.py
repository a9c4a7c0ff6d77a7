"""Integers of any width, exact, as limbs of int32: what RESCALE and int32 alone cannot say.

Bounds are known of every number, so that no sum of limbs leaves int32 and none is kept that
is always zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Rounding
from qpasses.emit.tosa.program import Program, Value

LIMB = 12
"""Bits of a limb: products have 24, and a hundred of them are summed in int32."""

_BASE = 1 << LIMB
_INT32 = range(-(1 << 31), 1 << 31)

SATURATED = 28
"""Levels of so many bits are beyond all codes, and within what a RESCALE takes."""

Column = tuple[Value, int, int]
"""What is summed at one place, and its bounds."""


@dataclass(frozen=True)
class Wide:
    """Numbers from ``low`` to ``high``: limbs of 12 bits from the lowest on.

    The last limb holds all that is left, and the sign.
    """

    program: Program
    limbs: tuple[Value, ...]
    low: int
    high: int

    @classmethod
    def of(cls, program: Program, value: Value, low: int, high: int) -> Wide:
        """int32 numbers, which lie between ``low`` and ``high``."""
        return cls(program, (value,), low, high)

    @classmethod
    def constant(cls, program: Program, numbers: NDArray[Any]) -> Wide:
        """Numbers that are known."""
        low, high = int(numbers.min()), int(numbers.max())
        limbs, rest = [], numbers
        while rest.min() < -_BASE or rest.max() >= _BASE:
            limbs.append(program.constant(rest & (_BASE - 1), "int32"))
            rest = rest >> LIMB
        return cls(program, (*limbs, program.constant(rest, "int32")), low, high)

    @classmethod
    def summed(
        cls, program: Program, columns: Sequence[Column | None], low: int, high: int
    ) -> Wide:
        """Numbers at each place, carried over; the whole is between ``low`` and ``high``."""
        limbs, carry = list[Value](), None
        for place, column in enumerate(columns):
            found = _joined(program, "add", column, carry)
            carry = None
            if found is None:
                some = next(each[0] for each in columns if each is not None)
                limbs.append(program.same_rank(0, some))
                continue
            value, *ends = found
            assert ends[0] in _INT32 and ends[1] in _INT32
            if place + 1 == len(columns) or (ends[0] >= 0 and ends[1] < _BASE):
                limbs.append(value)
            else:
                limbs.append(program.masked(value, _BASE - 1))
                carry = program.right_shift(value, LIMB), ends[0] >> LIMB, ends[1] >> LIMB
        return cls(program, tuple(limbs), low, high).within(low, high)

    def number(self, value: int) -> Wide:
        """One number, which broadcasts with this one."""
        rank = len(self.limbs[0].shape)
        return Wide.constant(self.program, np.full([1] * rank, value, object))

    def __add__(self, other: Wide) -> Wide:
        """The sum."""
        return self._summed(other, "add", self.low + other.low, self.high + other.high)

    def __sub__(self, other: Wide) -> Wide:
        """The difference."""
        return self._summed(other, "sub", self.low - other.high, self.high - other.low)

    def __mul__(self, other: Wide) -> Wide:
        """The product."""
        low, high = _corners((self.low, self.high), (other.low, other.high))
        if len(self.limbs) == len(other.limbs) == 1 and low in _INT32 and high in _INT32:
            product = self.program.multiply(self.limbs[0], other.limbs[0])
            return Wide.of(self.program, product, low, high)
        columns: list[Column | None] = []
        for place, (a, *a_ends) in enumerate(self._small()):
            for more, (b, *b_ends) in enumerate(other._small(), place):
                ends = _corners((a_ends[0], a_ends[1]), (b_ends[0], b_ends[1]))
                columns += [None] * (more + 1 - len(columns))
                if ends != (0, 0):
                    term = (self.program.multiply(a, b), *ends)
                    columns[more] = _joined(self.program, "add", columns[more], term)
        return Wide.summed(self.program, columns, low, high)

    def times(self, number: int) -> Wide:
        """The product with a number that is known."""
        return self * self.number(number)

    def raised(self, bits: int) -> Wide:
        """Times ``2**bits``."""
        places, within = divmod(bits, LIMB)
        columns: list[Column | None] = [None] * places
        for value, low, high in self._small():
            shifted = self.program.left_shift(value, within)
            columns.append((shifted, low << within, high << within))
        return Wide.summed(self.program, columns, self.low << bits, self.high << bits)

    def lowered(self, bits: int) -> Wide:
        """Over ``2**bits``, rounded down."""
        program = self.program
        low, high = self.low >> bits, self.high >> bits
        places, within = divmod(bits, LIMB)
        if places >= len(self.limbs):
            places, within = len(self.limbs) - 1, bits - LIMB * (len(self.limbs) - 1)
        limbs = list(self.limbs[places:])
        if within:
            above = [program.masked(each, (1 << within) - 1) for each in limbs[1:]]
            limbs = [program.right_shift(each, min(within, 31)) for each in limbs]
            for place, each in enumerate(above):
                moved = program.left_shift(each, LIMB - within)
                limbs[place] = program.elementwise("add", limbs[place], moved)
        return Wide(program, tuple(limbs), low, high).within(low, high)

    def rounded(self, bits: int, rounding: Rounding) -> Wide:
        """Over ``2**bits``, rounded to the nearest."""
        if bits == 0:
            return self
        lifted = self + self.number(1 << (bits - 1))
        level = lifted.lowered(bits)
        if rounding == "half_up":
            return level
        program, lowest = self.program, level.limbs[0]
        if rounding == "half_to_even":
            one = program.masked(lowest, 1)
        else:  # away from zero: of negative numbers the lower one
            one = program.masked(program.right_shift(self.limbs[-1], 31), 1)
        none = program.same_rank(0, one)
        is_tie = program.elementwise("equal", lifted._remains(bits), none)
        less = program.select(is_tie, one, none)
        low, high = level.low - 1, level.high
        return level._summed(Wide.of(program, less, 0, 1), "sub", low, high)

    def within(self, low: int, high: int) -> Wide:
        """The same, known to lie between these: limbs that are always zero go."""
        limbs = list(self.limbs)
        while len(limbs) > 1:
            end = 1 << LIMB * (len(limbs) - 1)
            if low < -end or high >= end:
                break
            sign = limbs.pop()
            if low < 0:
                raised = self.program.left_shift(sign, LIMB)
                limbs[-1] = self.program.elementwise("add", limbs[-1], raised)
        return replace(self, limbs=tuple(limbs), low=low, high=high)

    def int32(self) -> Value:
        """As one number each, which fits."""
        assert self.low in _INT32 and self.high in _INT32
        value = self.limbs[-1]
        for limb in reversed(self.limbs[:-1]):
            raised = self.program.left_shift(value, LIMB)
            value = self.program.elementwise("add", raised, limb)
        return value

    def saturated(self) -> Value:
        """As one number each, within 2**28 of zero: what is not is still beyond all codes."""
        program, value = self.program, self.limbs[-1]
        low, high = self._ends(len(self.limbs) - 1)
        for limb in (*reversed(self.limbs[:-1]), None):
            end = 1 << SATURATED if limb is None else 1 << (SATURATED - LIMB)
            if low < -end or high >= end:
                value = program.clamp(value, -end, end - 1)
                low, high = max(low, -end), min(high, end - 1)
            if limb is not None:
                value = program.elementwise("add", program.left_shift(value, LIMB), limb)
                low, high = low << LIMB, (high << LIMB) + _BASE - 1
        return value

    def lowest(self, bits: int) -> Wide:
        """The remainder by ``2**bits``."""
        places, within = divmod(bits, LIMB)
        limbs = [value for value, *_ in self._small()]
        kept = limbs[:places]
        if within and places < len(limbs):
            kept.append(self.program.masked(limbs[places], (1 << within) - 1))
        if places >= len(limbs) and self.low < 0:
            raise NotImplementedError("the remainder of negative numbers")
        return Wide(self.program, tuple(kept), 0, min((1 << bits) - 1, self.high))

    def lowered_by(self, bits: Value, most: int) -> Wide:
        """Over ``2**bits``, rounded down, of up to ``most`` bits that vary."""
        program, number = self.program, self.program.same_rank
        limbs = [value for value, *_ in self._small()]
        for _ in range(most // LIMB):
            is_more = program.elementwise("greater_equal", bits, number(LIMB, bits))
            above = [*limbs[1:], program.right_shift(limbs[-1], 31)]
            limbs = [program.select(is_more, *pair) for pair in zip(above, limbs, strict=True)]
            fewer = program.elementwise("sub", bits, number(LIMB, bits))
            bits = program.select(is_more, fewer, bits)
        found = [
            program.masked(
                program.right_shift(
                    program.elementwise("add", program.left_shift(above, LIMB), limb), bits
                ),
                _BASE - 1,
            )
            for limb, above in pairwise(limbs)
        ]
        found.append(program.right_shift(limbs[-1], bits))
        return Wide(program, tuple(found), min(self.low, 0), max(self.high, 0))

    def _ends(self, place: int) -> tuple[int, int]:
        """The bounds of a limb."""
        if place + 1 < len(self.limbs):
            return 0, _BASE - 1
        return self.low >> LIMB * place, self.high >> LIMB * place

    def _columns(self) -> list[Column]:
        return [(limb, *self._ends(place)) for place, limb in enumerate(self.limbs)]

    def _small(self) -> list[Column]:
        """Limbs whose products fit: the last one too has not many more bits."""
        columns = self._columns()
        while columns[-1][1] < -_BASE or columns[-1][2] >= _BASE:
            value, low, high = columns.pop()
            columns.append((self.program.masked(value, _BASE - 1), 0, _BASE - 1))
            above = self.program.right_shift(value, LIMB)
            columns.append((above, low >> LIMB, high >> LIMB))
        return columns

    def _summed(self, other: Wide, op: str, low: int, high: int) -> Wide:
        sides = self._columns(), other._columns()
        if max(max(map(abs, ends)) for side in sides for _, *ends in side) >= 1 << 29:
            sides = self._small(), other._small()
        columns = [_joined(self.program, op, a, b) for a, b in zip_longest(*sides)]
        return Wide.summed(self.program, columns, low, high)

    def _remains(self, bits: int) -> Value:
        """Zero where the lowest ``bits`` are."""
        places, within = divmod(bits, LIMB)
        parts = list(self.limbs[:places])
        if within and places < len(self.limbs):
            parts.append(self.program.masked(self.limbs[places], (1 << within) - 1))
        if places >= len(self.limbs) and bits - LIMB * (len(self.limbs) - 1) < 31:
            mask = (1 << (bits - LIMB * (len(self.limbs) - 1))) - 1
            parts[-1] = self.program.masked(parts[-1], mask)
        found = parts[0]
        for each in parts[1:]:
            found = self.program.elementwise("bitwise_or", found, each)
        return found


def _joined(program: Program, op: str, a: Column | None, b: Column | None) -> Column | None:
    """The sum or difference at one place."""
    if b is None:
        return a
    value, low, high = b
    if op == "sub":
        low, high = -high, -low
    if a is not None:
        return program.elementwise(op, a[0], value), a[1] + low, a[2] + high
    if op == "sub":
        value = program.elementwise("sub", program.same_rank(0, value), value)
    return value, low, high


def _corners(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """The bounds of a product."""
    products = [x * y for x in a for y in b]
    return min(products), max(products)
