"""Statistics: what is remembered of a tensor, the same for any order and any split."""

from dataclasses import dataclass, field
from fractions import Fraction
from math import ldexp

from calibration.channel_extremes import ChannelExtremes
from calibration.histogram import Histogram, least_exponent

LARGEST_FLOAT = ldexp(1 - 2.0**-24, 128)
"""Of float32."""


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


@dataclass(frozen=True)
class Statistics:
    """A tensor's values over all samples, at least one value.

    ``low`` and ``high``: the extremes, exact. ``count`` values, of which ``zeros`` are zero,
    in ``samples`` samples. ``low_sum`` and ``high_sum``: the sums over samples of the extremes
    within each, exact. ``histogram``: None where only extremes were asked for; the zeros are
    not counted then. ``channels``: where those of each channel were asked for.
    """

    low: float
    high: float
    count: int
    zeros: int
    samples: int
    low_sum: Fraction
    high_sum: Fraction
    histogram: Histogram | None
    channels: ChannelExtremes | None = field(default=None, compare=False)

    @property
    def range(self) -> Range:
        """From the smallest to the largest value."""
        return Range(self.low, self.high)

    def merged(self, other: "Statistics") -> "Statistics":
        """Of the values of both; a histogram, or channels, only if both have it."""
        low, high = min(self.low, other.low), max(self.high, other.high)
        histogram = None
        if self.histogram is not None and other.histogram is not None:
            exponent = least_exponent(low, high)
            histogram = self.histogram.merged(other.histogram, exponent)
        channels = self.channels and other.channels and self.channels.merged(other.channels)
        return Statistics(
            low,
            high,
            self.count + other.count,
            self.zeros + other.zeros,
            self.samples + other.samples,
            self.low_sum + other.low_sum,
            self.high_sum + other.high_sum,
            histogram,
            channels,
        )
