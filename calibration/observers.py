"""Observers: what is remembered of a tensor while samples stream by."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Range:
    """The real numbers a tensor takes, ``low <= value <= high``."""

    low: float
    high: float

    @property
    def width(self) -> float:
        """high - low."""
        return self.high - self.low

    def with_zero(self) -> "Range":
        """The range widened to hold zero, as every stored range does."""
        return self.union(Range(0.0, 0.0))

    def union(self, other: "Range") -> "Range":
        """The smallest range that holds both."""
        return Range(min(self.low, other.low), max(self.high, other.high))


@dataclass
class MinMax:
    """The smallest and the largest value seen; the same for any order and any split."""

    low: float = np.inf
    high: float = -np.inf

    def update(self, values: NDArray[Any]) -> None:
        """Take in a float array of any shape; empty arrays change nothing.

        Raises FloatingPointError if it holds NaN or infinity.
        """
        if values.size == 0:
            return
        low, high = float(values.min()), float(values.max())
        if not np.isfinite(low) or not np.isfinite(high):
            raise FloatingPointError("holds NaN or infinite values")
        self.low, self.high = min(self.low, low), max(self.high, high)

    def range(self) -> Range:
        """What was seen; raises ValueError if that is nothing."""
        if self.low > self.high:
            raise ValueError("no values were seen")
        return Range(self.low, self.high)
