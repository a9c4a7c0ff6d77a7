"""Statistics of one tensor as JSON, exact, and back with every number checked.

Sums are ``[numerator, exponent]`` for numerator * 2**exponent, the numerator odd, or [0, 0].
In the counts of a histogram a negative number -n stands for n empty bins.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import groupby
from reprlib import repr as shown
from typing import Any

import numpy as np

from calibration.histogram import BINS, Counts, Histogram, bin_of, least_exponent
from calibration.statistics import LARGEST_FLOAT, Statistics
from calibration.table_reading import checked_range, damaged

KEYS = ("low", "high", "count", "zeros", "samples", "low_sum", "high_sum", "histogram")
_HISTOGRAM_KEYS = ("exponent", "first", "counts")
_LARGEST = 2**63 - 1
"""Counts are int64."""

_EXPONENTS = range(-149, 192)
"""From the last bit of the smallest float32 to the first of 2**63 times the largest."""


def as_json(statistics: Statistics) -> dict[str, Any]:
    """The entries of a tensor, in the order of KEYS."""
    histogram = statistics.histogram
    return {
        "low": float(statistics.low) + 0.0,  # -0.0 and 0.0 are one number, with one spelling
        "high": float(statistics.high) + 0.0,
        "count": int(statistics.count),
        "zeros": int(statistics.zeros),
        "samples": int(statistics.samples),
        "low_sum": _exact(statistics.low_sum),
        "high_sum": _exact(statistics.high_sum),
        "histogram": histogram
        and {
            "exponent": int(histogram.exponent),
            "first": int(histogram.first),
            "counts": list(_packed(histogram.counts)),
        },
    }


def _exact(value: Fraction) -> list[int]:
    if not value:
        return [0, 0]
    twos = (value.numerator & -value.numerator).bit_length() - 1
    return [value.numerator >> twos, twos - (value.denominator.bit_length() - 1)]


def _packed(counts: Counts) -> Iterator[int]:
    for empty, run in groupby(counts.tolist(), lambda count: count == 0):
        if empty:
            yield -sum(1 for _ in run)
        else:
            yield from run


def from_json(entries: Any, where: str) -> Statistics:
    """What ``as_json`` gave, of a tensor that ``where`` names; DataError for all else."""
    found = fields(entries, KEYS, where)
    low, high = (_float32(found, key, where) for key in ("low", "high"))
    checked_range(low, high, where)
    count = whole(found, "count", 1, _LARGEST, where)
    made = Statistics(
        low,
        high,
        count,
        whole(found, "zeros", 0, count, where),
        whole(found, "samples", 1, count, where),
        _sum(found, "low_sum", where),
        _sum(found, "high_sum", where),
        _histogram(found["histogram"], low, high, f"{where}: histogram"),
    )
    _check_sums(made, where)
    if made.histogram is not None:
        _check_counts(made, made.histogram, where)
    return made


def fields(entries: Any, names: Sequence[str], where: str) -> dict[str, Any]:
    """A JSON object with these names and no other; else DataError."""
    if not isinstance(entries, dict):
        raise damaged(where, f"must be a JSON object, not {shown(entries)}")
    for name in names:
        if name not in entries:
            raise damaged(where, f"{name!r} is missing")
    for name in entries:
        if name not in names:
            raise damaged(where, f"has an unknown entry {name!r}")
    return entries


def whole(entries: dict[str, Any], key: str, least: int, most: int, where: str) -> int:
    """A whole number, from ``least`` to ``most``; else DataError."""
    value = entries[key]
    if type(value) is not int or not least <= value <= most:
        wanted = f"a whole number, {least} to {most}"
        raise damaged(where, f"{key!r} must be {wanted}, not {shown(value)}")
    return value


def _float32(entries: dict[str, Any], key: str, where: str) -> float:
    value = entries[key]
    if type(value) not in (int, float) or not abs(value) <= LARGEST_FLOAT:
        raise damaged(where, f"{key!r} must be a finite number, not {shown(value)}")
    if float(np.float32(value)) != value:
        raise damaged(where, f"{key!r} is no float32 number: {shown(value)}")
    return float(value) + 0.0


def _sum(entries: dict[str, Any], key: str, where: str) -> Fraction:
    value = entries[key]
    if isinstance(value, list) and [type(each) for each in value] == [int, int]:
        numerator, exponent = value
        if value == [0, 0] or (numerator % 2 and exponent in _EXPONENTS):
            return Fraction(numerator) * Fraction(2) ** int(exponent)
    wanted = "[n, e], for n * 2**e with an odd n"
    raise damaged(where, f"{key!r} must be {wanted}, not {shown(value)}")


def _histogram(entries: Any, low: float, high: float, where: str) -> Histogram | None:
    if entries is None:
        return None
    found = fields(entries, _HISTOGRAM_KEYS, where)
    exponent = least_exponent(low, high)
    first, last = bin_of(low, exponent), bin_of(high, exponent)
    for key, wanted in (("exponent", exponent), ("first", first)):
        if type(found[key]) is not int or found[key] != wanted:
            given = shown(found[key])
            raise damaged(where, f"{key!r} must be {wanted} for this range, not {given}")
    counts = _unpacked(found["counts"], where)
    if len(counts) != last - first + 1:
        bins = f"{len(counts)} bins where the range has {last - first + 1}"
        raise damaged(where, f"'counts' hold {bins}")
    return Histogram(exponent, first, np.array(counts, np.int64))


def _unpacked(entries: Any, where: str) -> list[int]:
    """The counts, of which the first and the last are not 0, nor is their sum too large."""
    if not isinstance(entries, list) or not entries:
        raise damaged(where, f"'counts' must be a list, not {shown(entries)}")
    counts: list[int] = []
    packed = True  # as if in front of the first: a bin with values must follow
    for entry in entries:
        if type(entry) is not int or not -BINS < entry <= _LARGEST or not entry:
            raise damaged(where, f"'counts' hold {shown(entry)}, which is no count")
        if entry < 0 and packed:
            raise damaged(where, "'counts' begin with empty bins, or have them packed twice")
        packed = entry < 0
        counts.extend([0] * -entry if packed else [entry])
        if len(counts) > BINS:
            raise damaged(where, f"'counts' hold more than {BINS} bins")
    if packed:
        raise damaged(where, "'counts' end with empty bins")
    return counts


def _check_sums(of: Statistics, where: str) -> None:
    """That the extremes of some samples, between low and high, can have these sums."""
    low, high, others = Fraction(of.low), Fraction(of.high), of.samples - 1
    within = {
        "low_sum": low * of.samples <= of.low_sum <= low + high * others,
        "high_sum": high + low * others <= of.high_sum <= high * of.samples,
    }
    for key, fits in within.items():
        if not fits:
            raise damaged(where, f"{key!r} is impossible for {of.samples} samples")
    if of.low_sum > of.high_sum:
        raise damaged(where, "'low_sum' is above 'high_sum'")


def _check_counts(of: Statistics, histogram: Histogram, where: str) -> None:
    """That the bins hold all values, and the one at 0 the zeros."""
    total = sum(histogram.counts.tolist())
    if total != of.count:
        raise damaged(where, f"the histogram counts {total} values, 'count' is {of.count}")
    at_zero = -histogram.first
    inside = of.low <= 0 <= of.high
    most = int(histogram.counts[at_zero]) if inside else 0
    least = of.count if of.low == of.high == 0 else int(0 in (of.low, of.high))
    if not least <= of.zeros <= most:
        raise damaged(where, f"'zeros' is {of.zeros}, which the histogram contradicts")
