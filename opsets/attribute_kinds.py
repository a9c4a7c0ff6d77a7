"""Kinds of attributes: what an op declares of each, and which values that admits."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

from opsets.fixed_point import ROUNDINGS
from opsets.rounding import NODE_ROUNDINGS

MANY = 1 << 31
"""No number in an attribute is as large: sizes beyond are faults, and could fill memory."""

MOST_CELLS = MANY // 255
"""The sum of more codes leaves int32."""


class Attribute(Protocol):
    """What is declared of an attribute. ``required``: that emitted nodes have it."""

    @property
    def required(self) -> bool:
        """Whether emitted nodes have it."""

    def admits(self, value: Any, rank: int) -> bool:
        """Whether a node may have this value; ``rank`` is that of its first input."""

    def __str__(self) -> str:
        """What it has to be, as texts say it."""


@dataclass(frozen=True)
class Integer:
    """A number from ``lowest`` to ``highest``."""

    lowest: int = 0
    highest: int = MANY - 1
    required: bool = True

    def admits(self, value: Any, rank: int) -> bool:
        """Whether it is such a number."""
        return type(value) is int and self.lowest <= value <= self.highest

    def __str__(self) -> str:
        return f"int, {_from_to(self.lowest, self.highest)}"


SWITCH = Integer(0, 1)
"""No or yes."""


@dataclass(frozen=True)
class Integers:
    """A list of numbers from ``lowest`` on.

    ``per_axis``: so many for each axis of a window, the same axes as all such lists of a
    node; ``length``: so many altogether. ``product``: they multiply to no more than that.
    """

    lowest: int
    per_axis: int = 0
    length: int = 0
    product: int = 0
    required: bool = True

    def admits(self, value: Any, rank: int) -> bool:
        """Whether it is such a list."""
        if not is_list(value) or not all(self.lowest <= each < MANY for each in value):
            return False
        if self.length and len(value) != self.length:
            return False
        return not self.product or prod(value) <= self.product

    def __str__(self) -> str:
        count = f"{self.length} " if self.length else ""
        each = {0: "", 1: ", one per axis", 2: ", two per axis"}[self.per_axis]
        most = f", their product at most {self.product}" if self.product else ""
        return f"{count}ints, {_from_to(self.lowest, MANY - 1)}{each}{most}"


@dataclass(frozen=True)
class Axis:
    """An axis of the first input: counted from its end, the last being -1, or from 0 on."""

    from_end: bool = True
    required: bool = True

    def admits(self, value: Any, rank: int) -> bool:
        """Whether there is such an axis."""
        first = -rank if self.from_end else 0
        return type(value) is int and first <= value < first + rank

    def __str__(self) -> str:
        return "int, from -rank to -1" if self.from_end else "int, from 0 to rank - 1"


@dataclass(frozen=True)
class Axes:
    """Axes of the first input, counted from its end, one at least and in order."""

    required: bool = True

    def admits(self, value: Any, rank: int) -> bool:
        """Whether there are such axes."""
        if not is_list(value) or not value or list(value) != sorted(set(value)):
            return False
        return bool(-rank <= value[0] and value[-1] < 0)

    def __str__(self) -> str:
        return "ints, from -rank to -1, one at least, in order"


@dataclass(frozen=True)
class Text:
    """A text: one of ``choices``, where there are some."""

    choices: Sequence[str] = ()
    required: bool = True

    def admits(self, value: Any, rank: int) -> bool:
        """Whether it is such a text."""
        return isinstance(value, str) and (not self.choices or value in self.choices)

    def __str__(self) -> str:
        return f"one of {', '.join(self.choices)}" if self.choices else "string"


ONCE = Text(ROUNDINGS)
"""How nodes round that round once."""

TWICE = Text(NODE_ROUNDINGS)
"""How nodes round that can round in two steps too."""

IN_DOUBLE_TOO = Text((*NODE_ROUNDINGS, "half_to_even_in_double"))
"""How nodes round whose products are exact in double."""

WINDOW = Integers(1, per_axis=1, product=MOST_CELLS)
"""The sizes of a window, whose sum fits int32."""

STEPS = Integers(1, per_axis=1)
"""Strides or dilations."""


def is_list(value: Any) -> bool:
    """Whether it is a list of whole numbers."""
    return isinstance(value, list) and all(type(each) is int for each in value)


def _from_to(lowest: int, highest: int) -> str:
    """A range in words, without ends that are those of all attributes."""
    if highest == MANY - 1:
        return "any" if lowest <= -MANY else f"{lowest} or more"
    if lowest == -MANY:
        return f"{highest} or less"
    return f"{lowest} to {highest}"
