"""aciq-gauss and aciq-laplace: the best threshold for values of a known distribution."""

from collections.abc import Callable
from functools import cache
from math import erfc, exp, log, pi, sqrt

from calibration.methods.moments import moments
from calibration.methods.wanted import (
    Wanted,
    clipped,
    largest,
    level_bits,
    one_sided,
    within,
)
from calibration.statistics import Range, Statistics

_SIGMA_OF_RANGE = 0.175 * (1 + sqrt(pi * log(4)))
"""Times range / sqrt(2 ln N): how wide a normal distribution is whose N values span it."""


def aciq_gauss(seen: Statistics, wanted: Wanted) -> Range:
    """As if the values were normal, their sigma estimated from their range and number.

    Banner et al., "Post training 4-bit quantization of convolutional networks" (2019): at
    8 bits 3.92404 sigma. Symmetric: up to that; otherwise that far from the mean, and for
    values of one sign from zero, as if mirrored: twice the range and one more bit.
    """
    span = 2 * largest(seen) if one_sided(seen) else seen.high - seen.low
    sigma = span * _SIGMA_OF_RANGE / sqrt(2 * log(max(seen.count, 2)))
    return _around_centre(seen, wanted, sigma * gauss_ratio(level_bits(seen, wanted)))


def aciq_laplace(seen: Statistics, wanted: Wanted) -> Range:
    """As if the values were of Laplace's distribution, b their mean distance from the mean.

    Banner et al. (2019): at 8 bits 9.89676 b. Symmetric: up to that; otherwise that far
    from the mean, and for values of one sign from zero, as if mirrored: b is the mean |x|,
    and there is one more bit.
    """
    found = moments(seen)
    scale = abs(found.mean) if one_sided(seen) else found.distance
    return _around_centre(seen, wanted, scale * laplace_ratio(level_bits(seen, wanted)))


@cache
def gauss_ratio(bits: int) -> float:
    """Threshold / sigma where clipping and rounding to 2**bits levels cost the least.

    a / (3 * 4**bits) = 2 (phi(a) - a Q(a)), with phi the density and Q the upper tail.
    """
    return _falls_to_zero(
        lambda a: (
            2 * (exp(-(a**2) / 2) / sqrt(2 * pi) - a * erfc(a / sqrt(2)) / 2)
            - a / (3 * 4.0**bits)
        )
    )


@cache
def laplace_ratio(bits: int) -> float:
    """Threshold / b where clipping and rounding to 2**bits levels cost the least.

    a exp(a) = 3 * 4**bits.
    """
    return _falls_to_zero(lambda a: exp(-a) - a / (3 * 4.0**bits))


def _falls_to_zero(excess: Callable[[float], float]) -> float:
    """Where a falling function is zero, between 0 and 64, by bisection to the last bit."""
    low, high = 0.0, 64.0
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return low


def _centre(seen: Statistics) -> float:
    """The mean; zero for values of one sign, which are taken as mirrored."""
    return 0.0 if one_sided(seen) else moments(seen).mean


def _around_centre(seen: Statistics, wanted: Wanted, threshold: float) -> Range:
    if wanted.symmetric:
        return within(seen, wanted, threshold)
    centre = _centre(seen)
    return clipped(seen, centre - threshold, centre + threshold)
