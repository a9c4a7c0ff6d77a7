"""Thresholds: requantization is a monotone step function, so its steps describe it completely.

For each level k there is one smallest accumulator that rounds to k or more. A kernel equals
the meaning on every reachable accumulator exactly if it reaches k there and not one earlier.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64, Rounding, rounding_shift
from opsets.kernels import Kernel
from opsets.real_scales import near_scales
from opsets.rounding import LAST_STEP, NodeRounding, wraps

NEVER = np.int64(1 << 40)
"""A threshold beyond every int32 accumulator; its negative lies below them all."""

_UNREACHED = np.int64((1 << 31) + 1)
"""No high half of a doubled product of int32 is so large."""

_INT64_BITS = 63
"""Not all of them: a target is shifted by one less, and what is near it has room."""


@dataclass(frozen=True)
class Interval:
    """The accumulators each channel can reach, ``low <= acc <= high`` (int64 [C])."""

    low: Int64
    high: Int64

    def fits_int32(self) -> bool:
        """Whether no channel can overflow an int32 accumulator."""
        return self.fits(32)

    def fits(self, bits: int) -> bool:
        """Whether no channel can overflow an accumulator of so many bits."""
        end = 1 << (bits - 1)
        return bool((self.low >= -end).all() and (self.high < end).all())

    def wraps(self, shift: Int64, rounding: str) -> bool:
        """Whether a left shift of ``rounding`` loses bits of what a channel can reach."""
        return bool(any(wraps(end, shift, rounding).any() for end in (self.low, self.high)))

    def clip(self, thresholds: Int64) -> Int64:
        """Thresholds [C, K] moved to the nearest point of [low, high + 1]: same step function
        on the interval."""
        return within(thresholds, self.low[:, None], self.high[:, None] + 1)

    def farthest(self) -> tuple[int, int]:
        """The channel with the largest sum by size, and that sum."""
        ends = np.where(-self.low > self.high, self.low, self.high)
        channel = int(np.abs(ends).argmax())
        return channel, int(ends[channel])

    def hull(self) -> "Interval":
        """What any of the channels can reach, as one."""
        return Interval(self.low.min(keepdims=True), self.high.max(keepdims=True))

    def count(self) -> int:
        """How many accumulators there are, over all channels."""
        return int((self.high - self.low + 1).sum())


_NOTHING = Fraction(0)


def within(values: Int64, low: Int64 | np.int64, high: Int64 | np.int64) -> Int64:
    """``np.clip``, which takes half as long again where the ends are those of each row."""
    found = np.maximum(values, low)
    return np.minimum(found, high, out=found)


def products(a_zero: NDArray[Any], b_zero: NDArray[Any], count: int) -> Interval:
    """What the sum of ``count`` products of stored integers, less zero points, can reach."""
    corners = [count * a * b for a in end_levels(a_zero) for b in end_levels(b_zero)]
    return Interval(np.array([min(corners)], np.int64), np.array([max(corners)], np.int64))


def end_levels(zero: NDArray[Any]) -> tuple[int, int]:
    """The smallest and the largest stored integer of the type, less the zero point."""
    limits = np.iinfo(zero.dtype)
    return limits.min - int(zero), limits.max - int(zero)


def levels(y_zero: int, y_min: int, y_max: int) -> Int64:
    """The steps of a clamped output: from k - 1 to k, for k + y_zero in (y_min, y_max]."""
    return np.arange(y_min + 1, y_max + 1, dtype=np.int64) - y_zero


def meaning_thresholds(
    multiplier: Int64,
    shift: Int64,
    steps: Int64,
    rounding: NodeRounding,
    rest: Int64 | None = None,
) -> Int64:
    """[C, K]: the smallest acc with round((acc * multiplier + rest) / 2**shift) >= steps[k].

    ``rest``: [C], 0 for None. Of two roundings, which have none: where the left shift does not
    wrap.
    """
    if rounding == "tflite_double" or rounding == "ruy":
        return _two_step_thresholds(multiplier, shift, steps, LAST_STEP[rounding])
    more = np.zeros_like(multiplier) if rest is None else rest
    return _one_step_thresholds(multiplier, shift, steps, rounding, more)


def _one_step_thresholds(
    multiplier: Int64, shift: Int64, steps: Int64, rounding: Rounding, rest: Int64
) -> Int64:
    """Closed form: acc * multiplier + rest >= (2k - 1) * 2**(shift - 1), where equality (a
    tie) counts if the tie rounds up to k.
    """
    tie_counts = ties_reach(steps, rounding)
    doubled = 2 * steps - 1
    widest = int(np.abs(doubled).max(initial=0)).bit_length()
    small = (shift <= _INT64_BITS - widest) & (multiplier > 0)
    target = (doubled << np.where(small, shift - 1, 0)[:, None]) - rest[:, None]
    result = _ceilings(target + ~tie_counts, np.where(small, multiplier, 1)[:, None])
    for channel in np.flatnonzero(~small):
        m = int(multiplier[channel])
        if m == 0:
            level = rounding_shift(rest[channel], shift[channel], rounding)
            result[channel] = np.where(steps <= level, -NEVER, NEVER)
            continue
        scale = Fraction(m, 1 << int(shift[channel]))
        more = Fraction(int(rest[channel]), m)
        result[channel] = _exact(scale, steps, tie_counts, more)
    return within(result, -NEVER, NEVER)


def _ceilings(tops: Int64, bottoms: Int64) -> Int64:
    """``tops / bottoms``, rounded up; of quotients beyond 2**41 only that they are.

    By doubles, several times as fast as integers are divided: below 2**41 their quotient is
    off by less than 2**-11, so the nearest integer is the ceiling or one less.
    """
    nearest = np.rint(tops / bottoms).astype(np.int64)
    nearest += nearest * bottoms < tops
    return nearest


def _two_step_thresholds(
    multiplier: Int64, shift: Int64, steps: Int64, last: Rounding
) -> Int64:
    """The second rounding inverted, then the first.

    high / 2**right reaches k from a least high on, as above; floor((x * multiplier + 2**30) /
    2**31) reaches that from x = ceil((high * 2**31 - 2**30) / multiplier) on; x is
    acc * 2**left.
    """
    right = np.maximum(shift - 31, 0)[:, None]
    half = (2 * steps - 1) << np.maximum(right - 1, 0)
    high = np.where(right > 0, half + ~ties_reach(steps, last), steps)
    high = np.clip(high, -_UNREACHED, _UNREACHED)
    factor = (multiplier << np.maximum(31 - shift, 0))[:, None]
    least = -(((1 << 30) - (high << 31)) // np.maximum(factor, 1))
    return np.clip(
        np.where(factor > 0, least, np.where(high > 0, NEVER, -NEVER)), -NEVER, NEVER
    )


def real_thresholds(
    scales: Sequence[Fraction], steps: Int64, rests: Sequence[Fraction] = ()
) -> Int64:
    """[C, K]: the same for real scales and QuantizeLinear's rounding (half to even).

    ``rests``: what of each bias the accumulator does not hold, in its steps; none if it holds
    them all. So it is acc + rest that is scaled.
    """
    tie_counts = ties_reach(steps, "half_to_even")
    divisors = near_scales(scales)
    is_near = divisors > _SMALLEST
    divisors = np.where(is_near, divisors, 1.0)
    # relative error below 2**-49
    estimate = (steps - 0.5) / divisors.reshape(-1, 1)
    if rests:
        estimate -= np.array([float(each) for each in rests], np.float64).reshape(-1, 1)
    beyond = float(NEVER)
    result = np.minimum(np.maximum(np.ceil(estimate), -beyond), beyond).astype(np.int64)
    far = np.abs(estimate)
    doubtful = np.abs(estimate - np.rint(estimate)) <= far * 2.0**-48 + 2.0**-48
    doubtful &= far < beyond
    doubtful[~is_near] = True
    for channel in np.flatnonzero(doubtful.any(axis=1)).tolist():
        asked = doubtful[channel]
        result[channel, asked] = _exact(
            scales[channel],
            steps[asked],
            tie_counts[asked],
            rests[channel] if rests else _NOTHING,
        )
    return within(result, -NEVER, NEVER)


_SMALLEST = 2.0**-50
"""Of smaller scales, doubles of thresholds are too large to be near."""


def ties_reach(steps: Int64, rounding: Rounding) -> NDArray[np.bool_]:
    """Whether a tie between k - 1 and k rounds to k, for each k of ``steps``."""
    if rounding == "half_to_even":
        return np.asarray(steps % 2 == 0)
    return np.asarray(steps > 0) if rounding == "half_away" else np.ones(steps.shape, bool)


def exact_thresholds(scale: Fraction, steps: Int64, rounding: Rounding) -> list[int]:
    """``meaning_thresholds`` of one scale that is any fraction."""
    return _exact(scale, steps, ties_reach(steps, rounding))


def _exact(
    scale: Fraction,
    steps: Int64,
    tie_counts: NDArray[np.bool_],
    rest: Fraction = _NOTHING,
) -> list[int]:
    """Thresholds by Python integers: any scale, any size; ``rest`` is added to each sum."""
    never, top, bottom = int(NEVER), 2 * scale.numerator, scale.denominator
    if 0 <= never * top < bottom:  # half a step and all beyond
        return [never if k > 0 else -never for k in steps.tolist()]
    count, each = top * rest.denominator, bottom * rest.denominator
    most = (2 * int(np.abs(steps).max(initial=0)) + 1) * each + abs(rest.numerator * top)
    if max(most, abs(count)) < 1 << 62:  # int64 holds all of it
        quotients, rests = np.divmod((2 * steps - 1) * each - rest.numerator * top, count)
        reached = quotients + ((rests > 0) | ~tie_counts)
        held: list[int] = within(reached, -NEVER, NEVER).tolist()
        return held
    found = []
    for k, counts in zip(steps.tolist(), tie_counts.tolist(), strict=True):
        numerator = (2 * k - 1) * bottom * rest.denominator - rest.numerator * top
        quotient, remainder = divmod(numerator, top * rest.denominator)
        threshold = quotient + (remainder > 0 or not counts)
        found.append(max(min(threshold, never), -never))
    return found


def kernel_mismatches(
    kernel: Kernel,
    multiplier: Int64,
    shift: Int64,
    thresholds: Int64,
    steps: Int64,
    reachable: Interval,
    rest: Int64 | None = None,
) -> Int64:
    """[C]: at how many steps a monotone kernel leaves the meaning on reachable accumulators.

    The kernel is asked at every threshold and its predecessor. Zero means equality on the
    whole interval: both are monotone and take every step at the same place. ``rest``: what
    the kernel adds to products, if it does.
    """
    more = [] if rest is None else [rest[:, None]]
    low, high = reachable.low[:, None], reachable.high[:, None]
    wrong = np.zeros(thresholds.shape, bool)
    for offset in (0, -1):
        accumulator = within(thresholds + offset, low, high)
        reaches = kernel(accumulator, multiplier[:, None], shift[:, None], *more) >= steps
        wrong |= reaches != (accumulator >= thresholds)
    return np.asarray(wrong.sum(axis=1), np.int64)


def moved(ours: Int64, reference: Int64, reachable: Interval) -> Int64:
    """[C]: on how many reachable accumulators two step functions differ.

    Between two places of the same step the outputs differ; every accumulator there is counted
    once per step that moved over it.
    """
    gaps = np.abs(reachable.clip(ours) - reachable.clip(reference))
    return np.asarray(gaps.sum(axis=1), np.int64)


def largest_gap(ours: Int64, reference: Int64, reachable: Interval) -> int:
    """The largest difference of two step functions, in LSB, over all channels.

    It is at least d if the one takes some step before the other takes the step d - 1 lower.
    """
    largest, steps = 0, ours.shape[1]
    first, second = reachable.clip(ours), reachable.clip(reference)
    while largest < steps and any(
        (before[:, largest:] < after[:, : steps - largest]).any()
        for before, after in ((first, second), (second, first))
    ):
        largest += 1
    return largest
