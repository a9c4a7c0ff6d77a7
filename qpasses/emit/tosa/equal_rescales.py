"""Multipliers and shifts of RESCALE that give the integers of a node, proved.

TOSA rounds ``(value * multiplier + 2**(shift - 1)) >> shift``, and takes values below
2**(shift - 1) alone. A requantization is a monotone step function: two are equal on what an
accumulator can reach if they step at the same places.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64
from qpasses.evidence.thresholds import Interval, meaning_thresholds

LEAST_SHIFT, LARGEST_SHIFT, BITS = 2, 62, 31

WIDE_BITS = 15
"""Of multipliers of int48; a level has to fit int32."""

_TRIED = [side * step for step in range(1, 65) for side in (1, -1)]
"""How far from the multiplier others are tried, where ties round otherwise."""

Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]

UNCHANGED: Pairs = np.array([1 << 30]), np.array([30])
"""What saturates and moves to a zero point, and rounds nothing."""

UNCHANGED_WIDE: Pairs = np.array([1 << 14]), np.array([14])
"""The same of int48, to int32."""

MOST_UNCHANGED = 1 << 29
"""It takes numbers below that."""


class UnequalError(ValueError):
    """No RESCALE gives the integers that are wanted; the message says why."""


def same_ratios(given: Mapping[str, NDArray[Any]], channels: int = 1) -> Pairs:
    """The multipliers and shifts of a node [channels], the multipliers as wide as they can be.

    Raises UnequalError for scales beyond what RESCALE can say.
    """
    multiplier, shift = (
        np.broadcast_to(given[name].reshape(-1).astype(np.int64), (channels,))
        for name in ("multiplier", "shift")
    )
    bits = np.array([int(each).bit_length() for each in multiplier], np.int64)
    more = np.where(multiplier > 0, np.minimum(BITS - bits, LARGEST_SHIFT - shift), 0)
    shift = np.where(multiplier > 0, shift + more, LARGEST_SHIFT)
    if (shift < LEAST_SHIFT).any() or (more < 0).any():
        raise UnequalError("its scale is beyond what RESCALE can say")
    return multiplier << more, shift


def wide_rescale(
    given: Mapping[str, NDArray[Any]], rounding: str, reachable: Interval
) -> Pairs | None:
    """What RESCALE of int48 computes a node by, if it has such numbers: it has no others."""
    if rounding != "half_up":
        return None
    sizes = given["multiplier"].size, given["shift"].size
    numbers = (
        np.broadcast_to(given[n].reshape(-1), max(sizes)) for n in ("multiplier", "shift")
    )
    pairs = [_short(*map(int, pair)) for pair in zip(*numbers, strict=True)]
    reach = abs(reachable.farthest()[1])
    is_taken = (
        0 <= m < 1 << WIDE_BITS
        and LEAST_SHIFT <= s <= LARGEST_SHIFT
        and (reach * m >> s) + 1 < 1 << 31
        for m, s in pairs
    )
    multiplier, shift = np.array(pairs, np.int64).T
    return (multiplier, shift) if all(is_taken) else None


def _short(multiplier: int, shift: int) -> tuple[int, int]:
    """The same quotient with as few bits as it has, or so many that it is shifted enough."""
    if multiplier == 0:
        return 0, LARGEST_SHIFT
    while multiplier % 2 == 0 and (multiplier >= 1 << WIDE_BITS or shift > LARGEST_SHIFT):
        multiplier, shift = multiplier >> 1, shift - 1
    less = max(LEAST_SHIFT - shift, 0)
    return multiplier << less, shift + less


def is_beyond(shift: Int64, reachable: Interval) -> bool:
    """Whether an accumulator is too large for the shift of its channel."""
    bound = np.int64(1) << (shift - 1)
    return bool(((reachable.low < -bound) | (reachable.high >= bound)).any())


def check_bounds(shift: Int64, reachable: Interval) -> None:
    """Raise UnequalError where an accumulator is too large for the shift of its channel."""
    if is_beyond(shift, reachable):
        raise UnequalError("its sums are too large for RESCALE")


def equal_rescale(start: Pairs, steps: Int64, reachable: Interval, wanted: Int64) -> Pairs:
    """Pairs near ``start`` [channels] that step where it is ``wanted`` [channels, steps].

    ``steps``: of the output, by ``levels``. Raises UnequalError.
    """
    multiplier, shift = start
    reachable = for_channels(reachable, multiplier.size)
    wanted = reachable.clip(wanted)
    found = multiplier.copy()
    left = np.arange(multiplier.size)
    for step in (0, *_TRIED):
        tried = multiplier[left] + step
        fits = (tried >= 0) & (tried < 1 << BITS)
        ours = meaning_thresholds(np.where(fits, tried, 1), shift[left], steps, "half_up")
        part = Interval(reachable.low[left], reachable.high[left])
        same = fits & (part.clip(ours) == wanted[left]).all(axis=1)
        found[left[same]] = tried[same]
        left = left[~same]
        if not left.size:
            break
    if left.size:
        raise UnequalError(f"no RESCALE rounds as channel {int(left[0])} does")
    check_bounds(shift, reachable)
    return found, shift


def for_channels(reachable: Interval, channels: int) -> Interval:
    """What so many channels reach: where one pair serves all, the hull of all."""
    if channels == 1:
        return reachable.hull()
    ends = (np.broadcast_to(each, (channels,)) for each in (reachable.low, reachable.high))
    return Interval(*ends)


def ties(given: Mapping[str, NDArray[Any]], channels: int) -> tuple[Int64, Int64]:
    """Masks and halves [channels]: acc lies between two levels if acc & mask == half.

    acc * multiplier / 2**shift ends in a half where the bits of acc that the shift drops,
    beside those that the multiplier has as zeros, are a one and zeros.
    """
    masks, halves = np.zeros(channels, np.int64), np.ones(channels, np.int64)
    pairs = (
        np.broadcast_to(given[n].reshape(-1), (channels,)) for n in ("multiplier", "shift")
    )
    for channel, (multiplier, shift) in enumerate(zip(*pairs, strict=True)):
        m, kept = int(multiplier), int(shift)
        while m and m % 2 == 0:
            m, kept = m // 2, kept - 1
        if m and 1 <= kept <= _WORD:
            masks[channel], halves[channel] = (1 << kept) - 1, 1 << (kept - 1)
    return masks, halves


_WORD = 31
"""Of more bits no accumulator of int32 drops all."""
