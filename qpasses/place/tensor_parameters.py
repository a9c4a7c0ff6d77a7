"""Parameters: scale and zero point of an activation from the range that it is to hold."""

from fractions import Fraction
from math import frexp, ldexp

import numpy as np

from calibration import Range
from qpasses.ir.edges import Floats
from qpasses.ir.record import Quantization
from qpasses.ir.settings import Settings


def activation_parameters(real: Range, settings: Settings) -> Quantization:
    """Per-tensor parameters for ``real``, widened to hold zero.

    Asymmetric: scale = (high - low) / 255 in the target's floats, zero_point = round(-low /
    scale) from the smallest code on. Symmetric: scale = max(-low, high) / 127, zero_point 128
    (uint8) or 0 (int8). Of fewer codes than 256: the steps between them, and half of these.
    Targets with unsigned tensors store so what is never negative, from the smallest code on.
    """
    real, dtype, scale = real.with_zero(), settings.activation_type, step_of(real, settings)
    low, high = settings.limits
    if settings.is_symmetric(real.low):
        return settings.quantization(scale, settings.middle, dtype)
    zero_point = low + _whole(-real.low, scale)
    return settings.quantization(scale, min(max(zero_point, low), high), dtype)


def _whole(number: float, step: float) -> int:
    """``number`` in steps, rounded half to even: exact, though float64 divides.

    Quotients of scales that are not normal may be of any size.
    """
    quotient = number / step
    if abs(quotient) < _SURE and abs(quotient % 1 - 0.5) > 1 / _SURE:
        return round(quotient)
    return round(Fraction(number) / Fraction(step))


_SURE = 1 << 20
"""Quotients below are off by less than 1 / _SURE."""


def step_of(real: Range, settings: Settings) -> float:
    """The scale alone of ``activation_parameters``: between two codes."""
    real = real.with_zero()
    low, high = settings.limits
    if settings.is_symmetric(real.low):
        return _normal(
            max(-real.low, real.high) / (high - settings.middle), settings.target.float_type
        )
    return _normal(real.width / (high - low), settings.target.float_type)


def word_parameters(real: Range, settings: Settings) -> Quantization:
    """Those of 16 bits: symmetric, scale = HEADROOM * max(-low, high) / 32767."""
    real = real.with_zero()
    largest = HEADROOM * max(-real.low, real.high)
    return Quantization(_normal(largest / 32767, settings.target.float_type), 0, "int16")


def constant_words(real: Range, settings: Settings) -> Quantization:
    """Those of a constant of 16 bits: no headroom, for all of it is known."""
    real = real.with_zero()
    largest = max(-real.low, real.high)
    return Quantization(_normal(largest / 32767, settings.target.float_type), 0, "int16")


def range_of_words(scale: float) -> Range:
    """The range that ``word_parameters`` stores with ``scale``, but for the last digit."""
    return Range(-scale * 32767 / HEADROOM, scale * 32767 / HEADROOM)


HEADROOM = 1.5
"""Samples that were not seen reach farther, which 16 bits show and 8 do not."""


_LEAST_NORMAL = float(np.finfo(np.float32).tiny)


def _normal(scale: float, floats: Floats) -> float:
    """``scale`` in ``floats``, a normal float32; 1 for a tensor that is zero throughout."""
    found = float(floats(scale))
    return found if found >= _LEAST_NORMAL else 1.0


def range_of_power(real: Range) -> Range:
    """The range that ``word_parameters`` stores with the scale of ``cell_parameters``.

    A little less than up to that: the scale is rounded to float32.
    """
    largest = cell_parameters(real).scale * 32767 / HEADROOM * (1 - 2.0**-30)
    return Range(-largest, largest)


def cell_parameters(real: Range) -> Quantization:
    """Those of states that stay inside of a node: of 16 bits, the scale a power of two, the
    least with which HEADROOM * max(-low, high) is a code.

    Nodes with the same scale so have the same table.
    """
    largest = HEADROOM * max(-real.low, real.high, 0.0)
    mantissa, exponent = frexp(largest / 32767)
    bits = exponent - (mantissa == 0.5)
    return Quantization(ldexp(1.0, max(bits, -15)), 0, "int16")
