"""The smallest and the largest value of each channel of a tensor, over samples."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

CHANNELS = 1
"""The axis along which they lie."""


@dataclass(frozen=True, eq=False)
class Extremes:
    """Of each channel (float32 [C]) the smallest and the largest value."""

    low: Floats
    high: Floats

    @property
    def known(self) -> bool:
        """Whether each channel held values, all of them finite."""
        return bool(self.low.size and np.isfinite([self.low, self.high]).all())

    def with_those(self, others: "Extremes") -> "Extremes":
        """Those of these values and the ``others``."""
        return Extremes(np.minimum(self.low, others.low), np.maximum(self.high, others.high))


@dataclass(frozen=True, eq=False)
class ChannelExtremes:
    """Those of a tensor: by samples that choose, and by those that are held back to judge."""

    choosing: Extremes
    held_back: Extremes

    @property
    def all(self) -> Extremes:
        """By all of them."""
        return self.choosing.with_those(self.held_back)

    def merged(self, other: "ChannelExtremes") -> "ChannelExtremes":
        """By the samples of both."""
        return ChannelExtremes(
            self.choosing.with_those(other.choosing),
            self.held_back.with_those(other.held_back),
        )
