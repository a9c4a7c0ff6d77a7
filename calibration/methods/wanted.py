"""What a method is asked for, and how a threshold becomes a range."""

from collections.abc import Callable
from dataclasses import dataclass

from calibration.statistics import Range, Statistics


@dataclass(frozen=True)
class Wanted:
    """How a range will be stored.

    ``bits`` of the stored integers, 2 to 16; ``symmetric``: the zero point is the middle;
    ``percentile``: of the values to keep, in (0, 100], for the method of that name;
    ``narrow``: without the lowest integer.
    """

    bits: int = 8
    symmetric: bool = False
    percentile: float = 99.999
    narrow: bool = False

    @property
    def steps(self) -> int:
        """From the lowest stored integer to the highest."""
        return (1 << self.bits) - 1 - self.narrow


Method = Callable[[Statistics, Wanted], Range]
"""From the statistics of a tensor to the real numbers its integers shall span."""


def largest(seen: Statistics) -> float:
    """The largest magnitude, real."""
    return max(abs(seen.low), abs(seen.high))


def one_sided(seen: Statistics) -> bool:
    """No value has the sign opposite to another's, as behind a Relu."""
    return seen.low >= 0 or seen.high <= 0


def level_bits(seen: Statistics, wanted: Wanted) -> int:
    """b where a threshold T is stored in steps of 2 T / 2**b.

    One more than the stored bits where all of these serve one sign: steps of T / 2**bits.
    """
    return wanted.bits + (one_sided(seen) and not wanted.symmetric)


def within(seen: Statistics, wanted: Wanted, threshold: float) -> Range:
    """The range of magnitudes up to ``threshold``, and no farther than the values go."""
    if wanted.symmetric:
        threshold = min(threshold, largest(seen))
        return Range(-threshold, threshold)
    return clipped(seen, -threshold, threshold)


def clipped(seen: Statistics, low: float, high: float) -> Range:
    """Both ends moved to between the extremes."""
    return Range(
        min(max(low, seen.low), seen.high),
        max(min(high, seen.high), seen.low),
    )
