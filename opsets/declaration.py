"""Declarations: what an op says of its nodes, part by part, and what a part has to be.

Data flows in, constants and attributes (opsets/attribute_kinds.py) stand on the node. From
these declarations nodes of emitted models are read and refused, and the page of each op is
written.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import EllipsisType
from typing import Any, cast

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

WORDS = ("int16",)
"""That of 16 bits."""

SIGNALS = (*BYTES, *WORDS)
"""All of them."""

WHOLE = ("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "int64")
"""The types of numbers that are counts, labels, masks or pictures, and no codes."""

CLASSES: Mapping[str, Sequence[str]] = {
    **dict.fromkeys("TW", BYTES),
    **dict.fromkeys("XYS", SIGNALS),
    "G": ("int16", "uint16"),
    "N": WHOLE,
}
"""The types that a letter stands for, G: what tables of gates hold, N: whole numbers.
All other types stand for themselves."""

SHARED = ("T", "X", "Y")
"""Letters that are one type throughout a node; of S and W each is a type of its own."""

LARGEST_RANK = 64


@dataclass(frozen=True)
class Data:
    """A stored tensor that flows into a node, or out of it, of any shape."""

    type: str

    @property
    def types(self) -> Sequence[str]:
        """The element types that it may have."""
        return CLASSES.get(self.type, (self.type,))

    @property
    def holds_codes(self) -> bool:
        """Whether it has a scale: conditions and whole numbers have none."""
        return {*self.types} <= {*SIGNALS}


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


@dataclass(frozen=True)
class Shift(Constant):
    """A right shift: as far as the rounding of its node can, or within ``limits``."""

    type: str = "int32"

    def allowed(self, attributes: Attributes) -> range:
        """The shifts of a node: its body computes 2**shift, which must not fill memory."""
        if self.limits is not None:
            return self.limits
        rounding = attributes.get("rounding", ROUNDINGS[0])
        usual = rounding in NODE_ROUNDINGS
        return node_shifts(rounding) if usual else range(1, LARGEST_SHIFT + 1)


def ends(letter: str) -> dict[str, Constant]:
    """The zero point of the output, and the smallest and the largest of its codes."""
    return {name: Constant(letter) for name in ("y_zero", "y_min", "y_max")}


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
    QUOTIENT = "multiplier / 2**shift is the scale of a over those of b and of what is written"
    SUM = "each operand has a ratio of its own, to the scale written"
    RESCALED_SUM = "each operand has a ratio to a scale between, and that to the one written"
    SLOPES = "one ratio for codes above the zero point, and that times each slope for others"
    TABLE = "each entry is what a function gives for a code"
    WIDE_TABLE = "the entries are what a function gives, for some of 65,536 codes or for all"
    SOFTMAX = "the tables hold exponentials, of the scale read"
    LOGARITHM = "the tables hold exponentials and logarithms, of both scales"
    NORM = "the multipliers are factors of normal numbers, in steps of the scale written"
    ALGORITHM = "the attributes are the constants of a published algorithm, of the scale read"
    RECURRENT = "each sum of a gate has a ratio to the steps of its table, states theirs"
    MOVED = "there are none: codes are moved, and the scale read is the scale written"


OF_ENDS = frozenset(
    {
        *(Scaling.TABLE, Scaling.WIDE_TABLE, Scaling.SOFTMAX, Scaling.LOGARITHM),
        *(Scaling.NORM, Scaling.ALGORITHM, Scaling.MOVED),
    }
)
"""Of these a record has the scales of the stored tensors around the node, and those alone."""


class Probe(Enum):
    """How the kernel of an op is brought to an accumulator that one wants to see rounded."""

    FILTERS = "as the bias of filters of zeros, of the shape of its own"
    WINDOW = "by the codes of a window that add up to it"
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


def text_of(dims: Dims) -> str:
    """The sizes of a constant in brackets: [2, C, ...]."""
    return f"[{', '.join('...' if dim is ... else str(dim) for dim in dims)}]"
