"""Faults: what of a node is not as its op declares it."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import Integers, is_list
from opsets.declaration import (
    LARGEST_RANK,
    SHARED,
    Attributes,
    Constant,
    Constants,
    Shape,
    Shift,
    text_of,
)
from opsets.op import Op


def faults(op: Op, given: Constants, values: Attributes, shape: Shape) -> Iterator[str]:
    """What of the constants ``given`` and the ``values`` of attributes is not as declared.

    ``shape`` is that of the first input. One part after the other: a part is judged where all
    before it are right. Shifts are a matter of ``impossible_shift``.
    """
    rank = LARGEST_RANK if shape is None else len(shape)
    yield from (f"there is no attribute {name}" for name in values.keys() - op.attributes)
    for name, declared in op.attributes.items():
        if name not in values:
            if declared.required:
                yield f"its attribute {name} is missing"
        elif not declared.admits(values[name], rank):
            yield f"its attribute {name} is {values[name]!r}, expected {declared}"
    yield from _unlike_windows(op, values)
    yield from _unlike_constants(op, given, _sizes(values))
    yield from (each.says for each in op.constraints if not each.holds(given, values, shape))


def impossible_shift(op: Op, given: Constants, values: Attributes) -> tuple[int, range] | None:
    """A shift that no multiplier comes with, and those that do: 2**shift might fill memory."""
    for name, declared in op.constants.items():
        if isinstance(declared, Shift) and name in given:
            limits, shifts = declared.allowed(values), given[name]
            wrong = np.ravel(shifts[(shifts < limits.start) | (shifts >= limits.stop)])
            if wrong.size:
                return int(wrong[0]), limits
    return None


def _unlike_windows(op: Op, values: Attributes) -> Iterator[str]:
    """Lists of one number or two per axis that are not of the same axes."""
    lists = {n: a for n, a in op.attributes.items() if isinstance(a, Integers) and a.per_axis}
    axes = {len(values[n]) / each.per_axis for n, each in lists.items() if n in values}
    if len(axes) > 1:
        yield f"its attributes {', '.join(lists)} are not of the same axes"


def _unlike_constants(op: Op, given: Constants, sizes: dict[str, int]) -> Iterator[str]:
    """``sizes``: those that are known by name, to which those of letters come."""
    for name, declared in op.constants.items():
        if name not in given:
            yield f"its input {name} is no constant"
        elif problem := _problem(declared, given[name], sizes):
            yield f"its input {name} is {problem}"
    for letter in SHARED:
        names = [name for name, each in op.constants.items() if each.type == letter]
        if len({given[name].dtype for name in names}) > 1:
            yield f"its inputs {', '.join(names)} have several types"


def _problem(declared: Constant, value: NDArray[np.generic], sizes: dict[str, int]) -> str:
    if value.dtype.name not in declared.types:
        return f"{value.dtype}, expected {' or '.join(declared.types)}"
    if not declared.fits(value.shape, sizes):
        return f"of shape {text_of(value.shape)}, expected {text_of(declared.dims)}"
    limits = declared.limits
    if limits and not isinstance(declared, Shift) and value.size:
        least, most = int(value.min()), int(value.max())
        if least < limits.start or most >= limits.stop:
            return f"{least} to {most}, expected {limits.start} to {limits.stop - 1}"
    return ""


def _sizes(values: Attributes) -> dict[str, int]:
    """Sizes by what declarations call them: attributes, and of lists the sums."""
    numbers = {name: value for name, value in values.items() if type(value) is int}
    lists = {name: value for name, value in values.items() if is_list(value)}
    return numbers | {f"sum of {name}": sum(value) for name, value in lists.items()}
