"""Declarations: what an op says of its nodes, part by part, and what a part has to be.

Data flows in, constants and attributes stand on the node. From these declarations nodes of
emitted models are read and refused, and the page of each op is written.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod
from types import EllipsisType
from typing import Any, Protocol, cast

from numpy.typing import NDArray

from opsets.fixed_point import LARGEST_SHIFT, ROUNDINGS
from opsets.rounding import NODE_ROUNDINGS, node_shifts

Constants = Mapping[str, NDArray[Any]]
"""The constant inputs of a node by name."""

Attributes = Mapping[str, Any]

Shape = Sequence[int | str] | None
"""Of a tensor: numbers, and names of sizes that are free; None where even the rank is."""

Dims = tuple[int | str | EllipsisType, ...]
"""Sizes of a constant: numbers, what tells them ("cells", "sum of y_sizes"), or capital
letters, each of which is one size wherever it occurs; ``...`` at the end is any further ones.
"""

PER_CHANNEL: Dims = ("1 or channels",)
"""One number for all channels, or one for each: which, its record says by its scales."""

BYTES = ("uint8", "int8")
"""The stored types of activations that every op takes."""

SIGNALS = (*BYTES, "int16")
"""With that of residual streams in 16 bits."""

CLASSES: Mapping[str, Sequence[str]] = {"T": BYTES, "Y": SIGNALS, "S": SIGNALS, "W": BYTES}
"""The types that a letter stands for; all other types stand for themselves."""

SHARED = ("T", "Y")
"""Letters that are one type throughout a node; of S and W each is a type of its own."""

MANY = 1 << 31
"""No number in an attribute is as large: sizes beyond are faults, and could fill memory."""

MOST_CELLS = MANY // 255
"""The sum of more codes leaves int32."""

LARGEST_RANK = 64


@dataclass(frozen=True)
class Data:
    """A stored tensor that flows into a node, or out of it, of any shape."""

    type: str

    @property
    def types(self) -> Sequence[str]:
        """The element types that it may have."""
        return CLASSES.get(self.type, (self.type,))


@dataclass(frozen=True)
class Constant(Data):
    """A constant on a node; without ``dims`` a number. ``limits``: of its entries."""

    dims: Dims = ()
    limits: range | None = None

    def fits(self, shape: Sequence[int], sizes: dict[str, int]) -> bool:
        """Whether it may have this shape; ``sizes`` so far, to which those of letters come."""
        is_open = self.dims[-1:] == (...,)
        fixed = self.dims[:-1] if is_open else self.dims
        if len(shape) < len(fixed) or (len(shape) > len(fixed) and not is_open):
            return False
        for size, dim in zip(shape, fixed, strict=False):
            if isinstance(dim, str):
                wanted = sizes.setdefault(dim, size) if dim.isupper() else sizes.get(dim, size)
            else:
                wanted = cast(int, dim)
            if size != wanted:
                return False
        return True

    def allowed(self, _attributes: Attributes) -> range | None:
        """From where to where its entries are, where they are limited."""
        return self.limits


@dataclass(frozen=True)
class Shift(Constant):
    """A right shift: as far as the rounding of its node can, or within ``limits``."""

    type: str = "int32"

    def allowed(self, attributes: Attributes) -> range:
        """The shifts of a node: its body computes 2**shift, which must not fill memory."""
        rounding = attributes.get("rounding", ROUNDINGS[0])
        if self.limits is not None:
            return self.limits
        if rounding in NODE_ROUNDINGS:
            return node_shifts(rounding)
        return range(1, LARGEST_SHIFT + 1)


def ends(letter: str) -> dict[str, Constant]:
    """The zero point of the output, and the smallest and the largest of its codes."""
    return {name: Constant(letter) for name in ("y_zero", "y_min", "y_max")}


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
        return f"int, {from_to(self.lowest, self.highest)}"


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
        return f"{count}ints, {from_to(self.lowest, MANY - 1)}{each}{most}"


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


@dataclass(frozen=True)
class Constraint:
    """What must hold between the parts of a node, given the shape of its first input."""

    says: str
    holds: Callable[[Constants, Attributes, Shape], bool]


def _slopes_broadcast(constants: Constants, _attributes: Attributes, shape: Shape) -> bool:
    slopes = [value for name, value in constants.items() if name.startswith("slope_")]
    return shape is None or all(keeps_shape(shape, value) for value in slopes)


SLOPES_BROADCAST = Constraint("what slopes have broadcasts to x", _slopes_broadcast)


class Scaling(Enum):
    """What the numbers on a node stand for, which its record tells by scales."""

    RATIO = "multiplier / 2**shift is the ratio of the scales read to the scale written"
    SUM = "each operand has a ratio of its own, to the scale written"
    RESCALED_SUM = "each operand has a ratio to a scale between, and that to the one written"
    SLOPES = "one ratio for codes above the zero point, and that times each slope for others"
    TABLE = "each entry is what a function gives for a code"
    WIDE_TABLE = "the entries are what a function gives, for some of 65,536 codes or for all"
    SOFTMAX = "the tables hold exponentials, of the scale read"
    LOGARITHM = "the tables hold exponentials and logarithms, of both scales"
    NORM = "the multipliers are factors of normal numbers, in steps of the scale written"
    ALGORITHM = "the attributes are the constants of a published algorithm, of the scale read"


OF_ENDS = frozenset(
    {Scaling.TABLE, Scaling.SOFTMAX, Scaling.LOGARITHM, Scaling.NORM, Scaling.ALGORITHM}
)
"""Of these a record has the scales of the stored tensors around the node, and those alone."""


class Probe(Enum):
    """How the kernel of an op is brought to an accumulator that one wants to see rounded."""

    FILTERS = "as the bias of filters of zeros, of the shape of its own"
    WINDOW = "as the bias of the depthwise convolution that its fast body is, zeros too"
    COLUMNS = "as the bias of columns of zeros"
    OPERANDS = "by two operands that multiply to it"
    COEFFICIENTS = "as a coefficient of its height"


def keeps_shape(shape: Shape, value: NDArray[Any]) -> bool:
    """Whether a tensor of ``shape`` keeps it when ``value`` is broadcast with it."""
    if value.ndim == 0:
        return True
    if shape is None or value.ndim > len(shape):
        return False
    trailing = list(shape)[len(shape) - value.ndim :]
    return all(size in (1, end) for size, end in zip(value.shape, trailing, strict=True))


def is_list(value: Any) -> bool:
    """Whether it is a list of whole numbers."""
    return isinstance(value, list) and all(type(each) is int for each in value)


def text_of(dims: Dims) -> str:
    """The sizes of a constant in brackets: [2, C, ...]."""
    return f"[{', '.join('...' if dim is ... else str(dim) for dim in dims)}]"


def from_to(lowest: int, highest: int) -> str:
    """A range in words, without ends that are those of all attributes."""
    if highest == MANY - 1:
        return "any" if lowest <= -MANY else f"{lowest} or more"
    if lowest == -MANY:
        return f"{highest} or less"
    return f"{lowest} to {highest}"
