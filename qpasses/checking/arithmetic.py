"""Own arithmetic of the checker: rounding, multipliers and codes, on exact integers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import ROUNDINGS, Int64, Rounding
from opsets.kernels import Kernel
from opsets.op import Attributes, Constants, Flavour
from opsets.qpasses_v1 import OPS
from opsets.real_scales import RealScales, near_scales
from opsets.realised import node_rounding
from opsets.rounding import NodeRounding
from opsets.target import Target
from qpasses.evidence.thresholds import (
    Interval,
    kernel_mismatches,
    meaning_thresholds,
    moved,
    real_thresholds,
)
from qpasses.ir.record import Quantization

Floats: TypeAlias = NDArray[np.floating[Any]]

_LARGEST_SHIFT = 61

_NEAR, _FAR, _OUTERMOST = 8, 512, 16

_CHANNELS = 512
"""The steps of so many channels are looked at in one go: of more memory is the price."""

_AT_ONCE = 32
"""So many far multipliers of each channel are tried in one go."""

_FEWER = 128
"""Of so many channels, as each has as many rows of steps as there are tries."""


def nearest(scale: Fraction, bits: int) -> tuple[int, int]:
    """``(multiplier, shift)`` nearest to ``scale``, of ``bits`` significant bits.

    The largest shift is 61, with fewer bits there; scales of 2**(bits - 2) and above become
    that power of two.
    """
    top, bottom = scale.numerator, scale.denominator
    if top == 0:
        return 0, _LARGEST_SHIFT
    if 4 * top >= bottom << bits:
        return 1 << (bits - 1), 1
    shift = bits - top.bit_length() + bottom.bit_length()
    shift -= top << shift >= bottom << bits
    shift = min(shift, _LARGEST_SHIFT)
    multiplier, rest = divmod(top << shift, bottom)
    multiplier += 2 * rest > bottom or (2 * rest == bottom and multiplier % 2)
    return (multiplier // 2, shift - 1) if multiplier == 1 << bits else (multiplier, shift)


def all_nearest(scales: Sequence[Fraction], bits: int) -> tuple[Int64, Int64]:
    """``nearest`` of each: by doubles, and exactly where these do not tell.

    They are off by 2**(bits - 50) units at most: a unit may be another one beside a tie and at
    powers of two. Scales that are too large or too small for the shift are asked exactly too.
    """
    fraction, exponent = np.frexp(near_scales(scales))
    units, shift = np.ldexp(fraction, bits), bits - exponent.astype(np.int64)
    doubt, last = 2.0 ** (bits - 49), 2.0**bits
    is_told = (np.abs(units - np.floor(units) - 0.5) > doubt) & (shift < _LARGEST_SHIFT)
    is_told &= (units > last / 2 + doubt) & (np.rint(units) < last) & (shift > 1)
    multiplier = np.where(is_told, np.rint(units), 0).astype(np.int64)
    for channel in np.flatnonzero(~is_told).tolist():
        multiplier[channel], shift[channel] = nearest(scales[channel], bits)
    return multiplier, shift


def shifted(products: Int64, shift: int, rounding: Rounding) -> Int64:
    """``products / 2**shift``, rounded as named, by adding half of a step and shifting."""
    if shift == 0:
        return products
    half = np.full(products.shape, 1 << (shift - 1), np.int64)
    if rounding == "half_to_even":
        half = half - 1 + ((products >> shift) & 1)
    elif rounding == "half_away":
        half = half - (products < 0)
    return np.asarray((products + half) >> shift, np.int64)


def requantized(sums: Int64, multiplier: int, shift: int, rounding: NodeRounding) -> Int64:
    """``sums * multiplier / 2**shift``, rounded once or twice; no left shift wraps."""
    if rounding == "tflite_double" or rounding == "ruy":
        high = ((sums << max(31 - shift, 0)) * multiplier + (1 << 30)) >> 31
        return shifted(
            high, max(shift - 31, 0), "half_up" if rounding == "ruy" else "half_away"
        )
    return shifted(sums * multiplier, shift, rounding)


def judged_kernel(op: str, given: Constants, attributes: Attributes, target: Target) -> Kernel:
    """The kernel by which multipliers of a node are judged, whatever body it has."""
    flavour: Flavour = "onnxruntime" if target.fast_kernels else "portable"
    kernel = OPS[op].body(flavour, given, attributes).kernel
    assert kernel is not None, op
    return kernel


@dataclass(frozen=True)
class Ruled:
    """Multiplier and shift of each channel (int64 [C]) by the rule of a target."""

    multiplier: Int64
    shift: Int64


def ruled_multipliers(
    scales: Sequence[Fraction],
    steps: Int64,
    reachable: Interval,
    kernel: Kernel,
    target: Target,
) -> Ruled:
    """The multipliers that the rule asks for (docs/decisions/0025-verification.md).

    Of the nearest and its neighbours, up to 8 units in the last place away, the one that the
    kernel computes exactly and that differs from real arithmetic for the fewest accumulators,
    then the nearest, then the larger. Else the first exact one up to 512 away (at 24 bits),
    else the nearest. Channels that are alike are asked once.
    """
    numbers: Sequence[float | Fraction] = (
        scales.others if isinstance(scales, RealScales) else scales
    )
    ends = zip(numbers, reachable.low.tolist(), reachable.high.tolist(), strict=True)
    places: dict[tuple[float | Fraction, int, int], int] = {}
    order = [places.setdefault(each, len(places)) for each in ends]
    rows = np.unique(order, return_index=True)[1].tolist()  # the first channel of each kind
    unlike = scales.of(rows) if isinstance(scales, RealScales) else [scales[n] for n in rows]
    some = Interval(reachable.low[rows], reachable.high[rows])
    found = _ruled(unlike, steps, some, kernel, target)
    return Ruled(found.multiplier[order], found.shift[order])


def _ruled(
    scales: Sequence[Fraction],
    steps: Int64,
    reachable: Interval,
    kernel: Kernel,
    target: Target,
) -> Ruled:
    bits = target.multiplier_bits
    start, shift = all_nearest(scales, bits)
    found, fewest = start.copy(), np.full(len(start), np.iinfo(np.int64).max)
    real = reachable.clip(real_thresholds(scales, steps))
    rounding = node_rounding(target)
    is_past = {side: np.zeros(len(start), bool) for side in (-1, 0, 1)}
    is_monotone = _farther_is_worse(scales, start, shift, rounding)

    def within(rows: NDArray[np.intp]) -> Interval:
        return Interval(reachable.low[rows], reachable.high[rows])

    def meant(rows: NDArray[np.intp], candidate: Int64, at: Int64) -> Int64:
        return meaning_thresholds(candidate, shift[rows], at, rounding)

    def is_exact(
        rows: NDArray[np.intp], candidate: Int64, at: Int64, ours: Int64
    ) -> NDArray[np.bool_]:
        some = within(rows)
        found = kernel_mismatches(kernel, candidate, shift[rows], ours, at, some)
        return np.asarray(found == 0)

    largest = _FAR >> max(24 - bits, 0)
    for distance in _outwards(0, min(_NEAR, largest)):
        past = is_past[(distance > 0) - (distance < 0)]
        asked = np.flatnonzero((fewest > 0) & ~past)
        if not len(asked):
            continue
        asked = _within(asked, start + distance, distance, bits)
        for rows in (asked[at : at + _CHANNELS] for at in range(0, len(asked), _CHANNELS)):
            ours = meant(rows, start[rows] + distance, steps)
            cost = moved(ours, real[rows], within(rows))
            is_less = cost < fewest[rows]  # what the kernel makes of others does not matter
            past[rows[~is_less]] = is_monotone[rows[~is_less]]
            rows, cost, ours = rows[is_less], cost[is_less], ours[is_less]
            exact = is_exact(rows, start[rows] + distance, steps, ours)
            found[rows[exact]] = start[rows[exact]] + distance
            fewest[rows[exact]] = cost[exact]
    is_missing = fewest == np.iinfo(np.int64).max
    if not is_missing.any():
        return Ruled(found, shift)
    ends = np.unique(np.concatenate([steps[:_OUTERMOST], steps[-_OUTERMOST:]]))
    far = list(_outwards(min(_NEAR, largest) + 1, largest))
    for first in range(0, len(far), _AT_ONCE):
        missing, some = np.flatnonzero(is_missing), far[first : first + _AT_ONCE]
        for asked in (missing[at : at + _FEWER] for at in range(0, len(missing), _FEWER)):
            tries, rows = np.tile(some, len(asked)), np.repeat(asked, len(some))
            fits = (start[rows] + tries > 0) & (start[rows] + tries < 1 << bits)
            rows, tries = rows[fits], tries[fits]
            for at in (ends, steps):
                candidate = start[rows] + tries
                exact = is_exact(rows, candidate, at, meant(rows, candidate, at))
                rows, tries = rows[exact], tries[exact]
            rows, places = np.unique(rows, return_index=True)  # the first, so the nearest
            found[rows] = start[rows] + tries[places]
            is_missing[rows] = False
    return Ruled(found, shift)


def _farther_is_worse(
    scales: Sequence[Fraction], start: Int64, shift: Int64, rounding: NodeRounding
) -> NDArray[np.bool_]:
    """[C]: whether of the neighbours on one side a farther one is never nearer to the scale.

    Rounded once, the thresholds of a multiplier move one way as it grows. Those of the scale
    lie between those of the nearest multiplier's two neighbours, if it is within one of them.
    """
    if rounding not in ROUNDINGS:
        return np.zeros(len(start), bool)
    units = np.ldexp(near_scales(scales), shift.astype(np.int32))
    return np.asarray(np.abs(units - start) < 0.9)


def _outwards(first: int, last: int) -> Iterator[int]:
    for distance in range(first, last + 1):
        yield distance
        if distance:
            yield -distance


def _within(
    rows: NDArray[np.intp], candidates: Int64, distance: int, bits: int
) -> NDArray[np.intp]:
    fits = (candidates[rows] > 0) & (candidates[rows] < 1 << bits)
    return np.asarray(rows[fits | ((candidates[rows] == 0) & (distance == 0))])


def store(meaning: Quantization, real: float) -> int:
    """The code of one number: rounded half to even, the zero point added, saturated."""
    low, high = meaning.limits
    if np.isinf(real):
        return high if real > 0 else low
    level = round(Fraction(real) / Fraction(meaning.scale)) + meaning.zero_point
    return max(low, min(high, level))


def store_all(meaning: Quantization, values: NDArray[np.float32]) -> NDArray[Any]:
    """``store`` of each number: in floats where no tie is near, else exactly."""
    low, high = meaning.limits
    quotients = values.astype(np.float64).reshape(-1) / meaning.scale + meaning.zero_point
    inside = np.clip(quotients, low - 1, high + 1)
    codes = np.clip(np.rint(inside), low, high)
    near = np.flatnonzero(np.abs(inside - np.floor(inside) - 1 / 2) < 1e-6)
    codes[near] = [store(meaning, float(value)) for value in values.reshape(-1)[near]]
    return codes.astype(meaning.dtype).reshape(values.shape)


def bytes_of(meaning: Quantization) -> NDArray[Any]:
    """All 256 codes in the order of their bytes."""
    return np.frombuffer(bytes(range(256)), meaning.dtype)


def codes_of(meaning: Quantization) -> NDArray[Any]:
    """All codes in the order of their bits: negative ones behind the others."""
    if meaning.dtype != "int16":
        return bytes_of(meaning)
    return np.roll(np.arange(-(1 << 15), 1 << 15, dtype=np.int16), 1 << 15)


def real_values(codes: NDArray[Any], meaning: Quantization, target: Target) -> Floats:
    """What codes mean, as DequantizeLinear computes it, or in double for such a target."""
    steps = codes.astype(np.int32) - np.int32(meaning.zero_point)
    if target.scale_type == "double":
        return np.asarray(steps.astype(np.float64) * meaning.scale)
    return np.asarray(steps.astype(np.float32) * np.float32(meaning.scale))


def stored_values(values: Floats, meaning: Quantization) -> NDArray[Any]:
    """The codes of values, as QuantizeLinear computes them in their type; none is NaN."""
    with np.errstate(over="ignore"):
        steps = np.rint(values / values.dtype.type(meaning.scale))
    low, high = (end - meaning.zero_point for end in meaning.limits)
    codes = np.clip(steps, low, high).astype(np.int32) + meaning.zero_point
    return np.asarray(codes.astype(meaning.dtype))
