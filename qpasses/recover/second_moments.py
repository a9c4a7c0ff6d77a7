"""Second moments of what matrices are multiplied with, over some positions of some samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpasses.ir.graph import Node

POSITIONS = 256
"""Of each sample so many places are looked at, or all where there are fewer."""


@dataclass(frozen=True)
class Windows:
    """Which numbers of its input a Conv multiplies with each output channel's weights."""

    kernel: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    pads: Sequence[int] | str
    groups: int

    @classmethod
    def of(cls, node: Node, kernel: Sequence[int]) -> "Windows":
        """Those of a Conv with weights of that ``kernel``."""
        ones, attributes = [1] * len(kernel), node.attrs
        auto = attributes.get("auto_pad", "NOTSET")
        is_given = auto in ("NOTSET", "")
        return cls(
            kernel,
            attributes.get("strides") or ones,
            attributes.get("dilations") or ones,
            (attributes.get("pads") or [0] * (2 * len(kernel))) if is_given else auto,
            attributes.get("group", 1),
        )

    def rows(self, x: NDArray[Any], rng: np.random.Generator) -> NDArray[np.float32]:
        """[groups, places, channels * kernel] of ``x`` [N, C, ...], for places it draws."""
        sizes = x.shape[2:]
        begins, ends = self._around(sizes)
        spread = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]
        outputs = [
            (size + begin + end - width) // stride + 1
            for size, begin, end, width, stride in zip(
                sizes, begins, ends, spread, self.strides, strict=True
            )
        ]
        places = _drawn(len(x) * prod(outputs), rng)
        batch, *corners = np.unravel_index(places, (len(x), *outputs))
        taps = np.array([*product(*map(range, self.kernel))]).reshape(-1, len(sizes))
        index, inside = [batch[:, None]], np.ones((len(places), len(taps)), bool)
        for axis, corner in enumerate(corners):
            at = corner[:, None] * self.strides[axis] - begins[axis]
            at = at + taps[None, :, axis] * self.dilations[axis]
            inside &= (at >= 0) & (at < sizes[axis])
            index.append(np.clip(at, 0, sizes[axis] - 1))
        found = np.moveaxis(x, 1, -1)[tuple(index)].astype(np.float32)  # [places, taps, C]
        found[~inside] = 0
        split = found.reshape(len(places), len(taps), self.groups, -1)
        return split.transpose(2, 0, 3, 1).reshape(self.groups, len(places), -1)

    def _around(self, sizes: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
        """The padding before and behind each axis."""
        dims = len(sizes)
        if not isinstance(self.pads, str):
            return self.pads[:dims], self.pads[dims:]
        if self.pads == "VALID":
            return [0] * dims, [0] * dims
        total = [
            max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
            for size, s, k, d in zip(
                sizes, self.strides, self.kernel, self.dilations, strict=True
            )
        ]
        less, more = [each // 2 for each in total], [each - each // 2 for each in total]
        return (less, more) if self.pads == "SAME_UPPER" else (more, less)


def matrix_rows(x: NDArray[Any], rng: np.random.Generator) -> NDArray[np.float32]:
    """[1, places, inputs] of the rows of ``x`` [..., inputs]."""
    rows = x.reshape(-1, x.shape[-1])
    return rows[_drawn(len(rows), rng)].astype(np.float32)[None]


def _drawn(count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """``POSITIONS`` of ``count`` places, sorted, or all."""
    if count <= POSITIONS:
        return np.arange(count)
    return np.sort(rng.choice(count, POSITIONS, replace=False))


class Moments:
    """The sum of products [groups, n, n] of what was seen, in memory for two of that."""

    def __init__(self, groups: int, size: int) -> None:
        self._sums, self._count = np.zeros((groups, size, size)), 0
        self._rows: list[NDArray[np.float32]] = []

    def add(self, rows: NDArray[np.float32]) -> None:
        """Take rows [groups, places, n]; many are multiplied at once."""
        self._rows.append(rows)
        self._count += rows.shape[1]
        if sum(each.nbytes for each in self._rows) >= self._sums.nbytes:
            self._settle()

    def _settle(self) -> None:
        if self._rows:
            rows = np.concatenate(self._rows, axis=1)
            self._sums += rows.transpose(0, 2, 1) @ rows
            self._rows.clear()

    @property
    def mean(self) -> NDArray[np.float64]:
        """Over all places."""
        self._settle()
        return self._sums / max(self._count, 1)
