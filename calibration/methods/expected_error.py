"""The squared error that storing a tensor in a range costs, told from its histogram."""

import numpy as np

from calibration.methods.spread import Reals, Spread
from calibration.methods.wanted import Wanted
from calibration.statistics import Range, Statistics


def expected_error(seen: Statistics, stored: Range, wanted: Wanted) -> float:
    """The mean squared error, real, of all values when rounded to the nearest code.

    The codes are those of QuantizeLinear: ``stored`` is widened to hold zero, the zero point
    is an integer, values beyond the codes take the last one. Values are taken as uniform
    within a bin, and the error integrated over it: within one code's reach that is the error
    of the bin's mean and w**2 / 12 around it. Zeros cost nothing.
    """
    if seen.zeros == seen.count:
        return 0.0
    return total_error(Spread.of(seen), stored, wanted) / seen.count


def total_error(values: Spread, stored: Range, wanted: Wanted) -> float:
    """The sum of the expected squared errors of ``values``."""
    scale, lowest, highest = grid(stored, wanted)
    starts, ends = values.starts / scale, values.ends / scale
    first, last = (np.rint(x).clip(lowest, highest) for x in (starts, ends))
    middles, widths = (starts + ends) / 2, ends - starts
    together = (middles - first) ** 2 + widths**2 / 12
    integral = _antiderivative(ends, last) - _antiderivative(starts, first)
    apart = np.divide(integral, widths, out=together.copy(), where=first != last)
    return float(values.counts @ apart) * scale**2


def grid(stored: Range, wanted: Wanted) -> tuple[float, int, int]:
    """The scale, and the lowest and the highest code less the zero point.

    ``stored`` is not only zero.
    """
    if wanted.symmetric:
        half = 1 << (wanted.bits - 1)
        return stored.high / (half - 1), wanted.narrow - half, half - 1
    held, steps = stored.with_zero(), wanted.steps
    scale = held.width / steps
    zero_point = round(-held.low / scale)
    return scale, -zero_point, steps - zero_point


def _antiderivative(x: Reals, code: Reals) -> Reals:
    """Of the squared error, in steps: 1/12 for each whole code below, a cubic within one."""
    off = x - code
    return code / 12 + off * off * off / 3
