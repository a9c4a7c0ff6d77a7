"""Other rules by which the sums of a node could have become codes, computed on exact integers.

A rule is a rounding, the width of multipliers, and in which order zero point and clamp come.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import LARGEST_SHIFT, Int64
from opsets.multipliers import nearest, quantize_multiplier
from opsets.rounding import LAST_STEP, ROUNDING_RULES, SHIFT_MODES, requantize
from qpasses.checking.bisecting.node_sums import Sums

Floats = type[np.floating[Any]]

_FITS = 1 << 62


def _half_away(values: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.trunc(values + np.copysign(values.dtype.type(0.5), values)))


_IN_FLOATS: Mapping[str, tuple[Floats, Callable[[NDArray[Any]], NDArray[Any]]]] = (
    MappingProxyType(
        {
            "half_to_even_in_float32": (np.float32, np.rint),
            "half_away_in_float32": (np.float32, _half_away),
            "toward_zero_in_float32": (np.float32, np.trunc),
            "half_to_even_in_double": (np.float64, np.rint),
            "half_away_in_double": (np.float64, _half_away),
        }
    )
)
"""Products of the sum and multiplier / 2**shift in floats, then rounded."""

_FLOAT_BITS: Mapping[Floats, int] = {np.float32: 24, np.float64: 53}

ROUNDINGS: Sequence[str] = tuple(dict.fromkeys([*ROUNDING_RULES, *_IN_FLOATS]))

OWN = 0
"""The multipliers that stand on the node, instead of others of so many bits."""

WIDTHS = (OWN, 31, 24, 18, 16, 15, 12, 8, 53)

ENDINGS: Mapping[str, str] = MappingProxyType(
    {
        "": "",
        "zero_point_first": "the zero point added before rounding",
        "terms_apart": "each term rounded by itself",
        "no_rests": "without the rests of biases",
        "unclamped": "without the clamp of its activation",
        "wrapped": "wrapped around instead of clamped",
        "clamped_first": "clamped to the ends of the type before the zero point is added",
        "no_zero_point": "without the zero point",
    }
)
"""What becomes of what was rounded, in words; nothing: zero point added, then clamped."""


@dataclass(frozen=True)
class Rule:
    """A rounding of ROUNDINGS, multipliers of so many bits, one of ENDINGS."""

    rounding: str
    bits: int = OWN
    ending: str = ""

    def __str__(self) -> str:
        bits = "" if self.bits == OWN else _width(self.bits)
        return ", ".join(filter(None, (self.rounding, bits, ENDINGS[self.ending])))

    def departures(self, usual: str) -> int:
        """In how many points it is another rule than that of a node which rounds as usual.

        Floats hold scales in their own width: that is no further point.
        """
        is_float = self.rounding in _IN_FLOATS
        is_wide = is_float and self.bits == _FLOAT_BITS[_IN_FLOATS[self.rounding][0]]
        is_other = self.bits != OWN and not is_wide
        return (self.rounding != usual) + is_other + (self.ending != "")


def _width(bits: int) -> str:
    return "scales in double" if bits == 53 else f"multipliers of {bits} bits"


def rules_for(sums: Sums) -> Iterator[Rule]:
    """Those that may be asked of ``sums``, the likeliest first."""
    widths = [each for each in WIDTHS if each == OWN or _is_other(sums, each)]
    endings = [each for each in ENDINGS if _may_end(sums, each)]
    rules = [Rule(*each) for each in product(ROUNDINGS, widths, endings)]
    yield from sorted(rules, key=lambda rule: rule.departures(sums.rounding))


def _is_other(sums: Sums, bits: int) -> bool:
    """Whether multipliers of so many bits are other numbers than those on the node."""
    for scales, own in zip(sums.scales, sums.multipliers, strict=False):
        multipliers, shifts = _numbers(tuple(scales), bits)
        pairs = zip(
            multipliers.tolist(), shifts.tolist(), own.tolist(), sums.shift, strict=True
        )
        if any(Fraction(m, 1 << s) != Fraction(n, 1 << int(t)) for m, s, n, t in pairs):
            return True
    return False


def _may_end(sums: Sums, ending: str) -> bool:
    zero, low, high, lowest, highest = sums.ends
    return {
        "zero_point_first": zero != 0,
        "no_zero_point": zero != 0,
        "clamped_first": zero != 0,
        "terms_apart": len(sums.terms) > 1,
        "no_rests": bool(sums.rest.any()),
        "unclamped": (low, high) != (lowest, highest),
    }.get(ending, True)


def codes_by(rule: Rule, sums: Sums) -> Int64 | None:
    """The codes of ``sums`` by ``rule``; None where it does not hold them."""
    levels = _levels(rule, sums)
    if levels is None:
        return None
    zero, low, high, lowest, highest = sums.ends
    if rule.ending == "wrapped":
        return (levels + zero - lowest) % (highest - lowest + 1) + lowest
    if rule.ending == "clamped_first":
        return np.clip(np.clip(levels, lowest, highest) + zero, low, high)
    if rule.ending == "unclamped":
        return np.clip(levels + zero, lowest, highest)
    offset = 0 if rule.ending in ("zero_point_first", "no_zero_point") else zero
    return np.clip(levels + offset, low, high)


def _levels(rule: Rule, sums: Sums) -> Int64 | None:
    numbers = [(sums.multipliers[i], sums.shift) for i in range(len(sums.terms))]
    if rule.bits != OWN:
        numbers = [_numbers(tuple(each), rule.bits) for each in sums.scales]
    rest = np.zeros_like(sums.rest) if rule.ending == "no_rests" else sums.rest
    if rule.rounding in LAST_STEP:
        return _in_two_steps(rule, sums, numbers, rest)
    if rule.rounding in _IN_FLOATS:
        return _in_floats(rule, sums, numbers, rest)
    if any((m >= 1 << 31).any() for m, _ in numbers):
        return None
    return _at_once(rule, sums, numbers, rest)


@lru_cache(64)
def _numbers(scales: tuple[Fraction, ...], bits: int) -> tuple[Int64, Int64]:
    pairs = np.array([nearest(each, bits, LARGEST_SHIFT) for each in scales], np.int64)
    return pairs[:, 0], pairs[:, 1]


_Numbers = Sequence[tuple[Int64, Int64]]
"""For each term, multipliers and shifts [C]."""


def _at_once(rule: Rule, sums: Sums, numbers: _Numbers, rest: Int64) -> Int64 | None:
    """All terms times their multipliers over one power of two, rounded once."""
    at, mode = sums.channel, rule.rounding
    if any((s < 0).any() or (s > LARGEST_SHIFT).any() for _, s in numbers):
        return None
    if rule.ending == "terms_apart":
        parts = [
            right(t * m[at], s[at], mode)
            for t, (m, s) in zip(sums.terms, numbers, strict=True)
        ]
        return np.asarray(sum(parts), np.int64)
    shift = np.max([s for _, s in numbers], axis=0)
    lifted = [m << (shift - s) for m, s in numbers]
    offset = _moved(rest, sums.shift, shift)
    if rule.ending == "zero_point_first":
        offset = offset + (np.int64(sums.ends[0]) << shift)
    if _largest(sums, lifted, offset) >= _FITS:
        return None
    total = offset[at]
    for term, factor in zip(sums.terms, lifted, strict=True):
        total = total + term * factor[at]
    return right(total, shift[at], mode)


def right(value: Int64, shift: Int64, mode: str) -> Int64:
    """``value / 2**shift``, rounded once."""
    return np.asarray(SHIFT_MODES[mode](value, shift), np.int64)


def _moved(rest: Int64, before: Int64, after: Int64) -> Int64:
    """Rests in steps of another shift."""
    return np.asarray((rest << np.maximum(after - before, 0)) >> np.maximum(before - after, 0))


def _largest(sums: Sums, factors: Sequence[Int64], offset: Int64) -> int:
    sizes = zip(sums.terms, factors, strict=True)
    found = (int(np.abs(t).max(initial=0)) * int(np.abs(m).max(initial=0)) for t, m in sizes)
    return sum(found) + int(np.abs(offset).max(initial=0))


def _in_floats(rule: Rule, sums: Sums, numbers: _Numbers, rest: Int64) -> Int64:
    floats, rounded = _IN_FLOATS[rule.rounding]
    at = sums.channel

    def real(multiplier: Int64, shift: Int64) -> NDArray[Any]:
        return np.ldexp(multiplier.astype(np.float64), -shift.astype(np.int32)).astype(floats)

    parts = [
        term.astype(floats) * real(m, s)[at]
        for term, (m, s) in zip(sums.terms, numbers, strict=True)
    ]
    if rule.ending == "terms_apart":
        return np.asarray(sum(rounded(each) for each in parts)).astype(np.int64)
    total = sum(parts[1:], parts[0])
    if rest.any():
        total = total + real(rest, sums.shift)[at]
    if rule.ending == "zero_point_first":
        total = total + floats(sums.ends[0])
    return np.asarray(rounded(total)).astype(np.int64)


def _in_two_steps(rule: Rule, sums: Sums, numbers: _Numbers, rest: Int64) -> Int64 | None:
    """TFLite's: multipliers fill 31 bits; of two terms each is lifted by 20 bits first."""
    if rule.ending in ("zero_point_first", "terms_apart") or rest.any():
        return None
    if len(sums.terms) > 1:
        return _tflite_sum(rule, sums)
    ((multiplier, shift),) = numbers
    if (multiplier < 0).any() or (multiplier >= 1 << 31).any():
        return None
    free = 31 - np.array([int(each).bit_length() for each in multiplier])
    free = np.where(multiplier > 0, np.minimum(free, 62 - shift), 0)
    wide, moved = (multiplier << free)[sums.channel], (shift + free)[sums.channel]
    if _beyond_int32(sums.terms[0]):
        return None
    return requantize(sums.terms[0], wide, moved, rule.rounding)


def _tflite_sum(rule: Rule, sums: Sums) -> Int64 | None:
    if not sums.scales or rule.bits != OWN:
        return None
    a, b = (each[0] for each in sums.scales)
    twice, total = 2 * max(a, b), np.zeros(sums.channel.shape, np.int64)
    for term, scale in zip(sums.terms, (a, b), strict=True):
        lifted = term.astype(np.int64) << _LIFT
        if _beyond_int32(lifted):
            return None
        pair = quantize_multiplier(float(scale / twice), 31, 62)
        total = total + requantize(lifted, *pair, rule.rounding)
    pair = quantize_multiplier(float(twice / (1 << _LIFT)), 31, 62)
    return None if _beyond_int32(total) else requantize(total, *pair, rule.rounding)


_LIFT = 20
"""TFLite's left shift of the terms of a sum of bytes."""


def _beyond_int32(values: Int64) -> bool:
    return bool((np.abs(values.astype(np.int64)) >= 1 << 31).any())
