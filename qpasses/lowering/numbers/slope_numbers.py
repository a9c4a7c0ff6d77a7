"""Slopes: a multiplier for each of them, with which the fast kernel is exact."""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.kernels import Kernel
from opsets.target import Target
from qpasses.evidence.prove_slopes import blocks
from qpasses.evidence.thresholds import Interval, levels
from qpasses.ir.record import Quantization
from qpasses.lowering.numbers.multiplier_search import (
    Choice,
    choose_multipliers,
    derive_multipliers,
)


def nearest_slopes(
    x: Quantization, y: Quantization, slopes: NDArray[Any], target: Target
) -> Choice:
    """The same of 16 bits, whose products double holds: the nearest, or by the rule.

    Raises UsageError for what the target cannot express.
    """
    ratio = Fraction(x.scale) / Fraction(y.scale)
    scales = [ratio, *(ratio * abs(Fraction(float(slope))) for slope in slopes.ravel())]
    found = derive_multipliers(scales, target)
    sign = np.append(1, np.where(slopes.ravel() < 0, -1, 1))
    return Choice(sign * found.multiplier, found.shift, found.exact)


def choose_slopes(
    x: Quantization, y: Quantization, slopes: NDArray[Any], kernel: Kernel, target: Target
) -> Choice:
    """A multiplier and shift for x / y, then one for each of ``slopes`` in order.

    The kernel computes them exactly on all codes of x where it can; multipliers of negative
    slopes are negative.
    """
    ratio = Fraction(x.scale) / Fraction(y.scale)
    steps = levels(y.zero_point, *y.limits)
    low, high = (end - x.zero_point for end in x.type_limits)
    unique, places = np.unique(slopes, return_inverse=True)
    falling = unique < 0
    scales = [ratio, *(ratio * abs(Fraction(float(slope))) for slope in unique)]
    ends = np.append(0, np.where(falling, 0, low)), np.append(high, falling * -low)
    found = [
        choose_multipliers(
            scales[part], steps, Interval(*(end[part] for end in ends)), kernel, target
        )
        for part in blocks(len(scales))
    ]
    order = np.append(0, 1 + places.ravel())
    sign = np.append(1, np.where(falling, -1, 1))
    multiplier, shift, exact = (
        np.concatenate([getattr(each, name) for each in found])
        for name in ("multiplier", "shift", "exact")
    )
    return Choice((sign * multiplier)[order], shift[order], exact[order])
