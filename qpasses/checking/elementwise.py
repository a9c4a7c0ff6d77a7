"""Own arithmetic of the checker: multipliers by the rule of a target."""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np

from opsets.target import Target
from qpasses.checking.arithmetic import nearest
from qpasses.checking.meaning import DifferenceError

Pair = tuple[int, int]

_ONE = Fraction(1)


def elementwise(scale: float, target: Target) -> Pair:
    """``(multiplier, shift)`` of a target's elementwise rule; shift is to the right."""
    if target.elementwise is None or target.elementwise_bits is None:
        return accumulators(scale, target)
    shifts = range(-32 if target.elementwise == "get_scale_and_shift" else 0, 31)
    return _by(target.elementwise, scale, target.elementwise_bits, shifts)


def accumulators(scale: float, target: Target) -> Pair:
    """The same of its rule for accumulators."""
    shifts = range(target.min_shift, target.max_shift + 1)
    return _by(target.multiplier, scale, target.multiplier_bits, shifts)


def _by(rule: str, scale: float, bits: int, shifts: range) -> Pair:
    if rule not in _RULES:
        raise DifferenceError(f"the rule of multipliers {rule!r} is not known here")
    multiplier, shift = _RULES[rule](scale, bits, shifts)
    if shift < shifts[0] or shift > shifts[-1] or multiplier > 1 << bits:
        raise DifferenceError(f"no multiplier of its target is {scale:.6g}")
    return multiplier, shift


def _nearest(scale: float, bits: int, _shifts: range) -> Pair:
    return nearest(Fraction(scale), bits)


def _fraction(scale: float, bits: int, shifts: range) -> Pair:
    """The scale is f * 2**e, f from 1/2 to 1; the multiplier f * 2**bits, halves up."""
    if scale == 0:
        return 0, bits
    exponent = math.floor(math.log2(scale))
    while Fraction(scale) >= Fraction(2) ** exponent:
        exponent += 1
    multiplier = math.floor(Fraction(scale) * Fraction(2) ** (bits - exponent) + _ONE / 2)
    if multiplier == 1 << bits:
        multiplier, exponent = multiplier // 2, exponent + 1
    return (multiplier, bits - exponent) if bits - exponent <= shifts[-1] else (0, bits)


def _single(scale: float, bits: int, shifts: range) -> Pair:
    """The same, but (2**31 - 1) / 2 for 2**30."""
    found = _fraction(scale, bits, shifts)
    return ((1 << bits) - 1, 1) if found == (1 << (bits - 1), 0) else found


def _short(scale: float, bits: int, shifts: range) -> Pair:
    """The same; beyond the largest shift low bits are dropped."""
    multiplier, shift = _fraction(scale, bits, range(1 << 12))
    beyond = shift - shifts[-1]
    return (multiplier >> min(31, beyond), shifts[-1]) if beyond > 0 else (multiplier, shift)


def _searched(scale: float, bits: int, shifts: range) -> Pair:
    """The first shift of those with the least error in float32, multipliers rounded."""
    real, most = Fraction(float(np.float32(scale))), (1 << bits) - 1
    found: list[tuple[np.float32, int, Pair]] = []
    for shift in shifts:
        multiplier = math.floor(real * Fraction(2) ** shift + _ONE / 2)
        if multiplier < most:
            error = np.float32(float(abs(multiplier / Fraction(2) ** shift - real)))
            found.append((error, shift, (multiplier, shift)))
    return min(found, default=(np.float32(0), 0, (0, 0)))[2]


_RULES: Mapping[str, Callable[[float, int, range], Pair]] = {
    "nearest": _nearest,
    "quantize_multiplier": _fraction,
    "quantize_multiplier_single": _single,
    "tosa": _short,
    "get_scale_and_shift": _searched,
    "get_scale_and_shift_positive": _searched,
}
