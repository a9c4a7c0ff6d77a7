"""Which entries of a table a body is asked for, and a question as what can be looked up."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.op import Body

REMAINDERS = (*range(1, 18), 33)
"""Sizes of small inputs: vector kernels have code of their own for what is left at the end."""

ROLLS = 65
"""Each code is tried at so many places in a row, beyond the width of every vector kernel."""

Places = NDArray[np.int64]
"""Entries of a flat table, in the shape in which an input asks for them."""


@dataclass(frozen=True)
class Asked:
    """Whether a body gives the entries of a table, as something that can be looked up.

    ``key``: the table's bytes, type and shape.
    """

    op: str
    body: Body
    key: tuple[bytes, str, tuple[int, ...]]
    types: tuple[str, ...]
    attributes: tuple[tuple[str, Any], ...]
    rank: int

    @property
    def table(self) -> NDArray[Any]:
        """The entries."""
        content, dtype, shape = self.key
        return np.frombuffer(content, dtype).reshape(shape)


def asked_of(
    op: str,
    body: Body,
    table: NDArray[Any],
    types: Sequence[Any],
    attributes: Mapping[str, Any],
    rank: int = 0,
) -> Asked:
    """The question that ``table_differences`` answers."""
    key = table.tobytes(), table.dtype.name, table.shape
    names = tuple(np.dtype(each).name for each in types)
    return Asked(op, body, key, names, tuple(sorted(attributes.items())), rank)


def code_places(shape: Sequence[int], computed: bool) -> Iterator[Places]:
    """Places of a table of all codes.

    If they are ``computed``, each at every place of a vector and in every remainder.
    """
    codes = np.arange(*shape)
    if not computed:
        yield codes
        return
    yield np.concatenate([np.roll(codes, shift) for shift in range(ROLLS)])
    for size in REMAINDERS:
        for start in range(0, 256, size):
            yield codes[start : start + size]
