"""What gates lose where their sums saturate, of kernels whose sums end near 8.

Steps of 2**-11 end at 16, where functions have settled: there it is nothing to speak of.
"""

from fractions import Fraction
from math import exp

import numpy as np
from numpy.typing import NDArray

from opsets.op import Constants
from opsets.word_products import furthest

_SETTLED = Fraction(1, 1 << 11)
_WORD = 1 << 15
_ALL = 2.0
"""No Sigmoid or Tanh is farther from another."""


def lost_by_saturation(given: Constants, step: Fraction) -> float:
    """By how much a Sigmoid or Tanh is off at most because of it, of sums in such steps.

    Beyond the end of a sum no more than a Sigmoid lacks to 1 there, which a Tanh does less.
    Where what inputs give may saturate alone, or what a state gives, the rest of the sum goes
    on from the wrong place: then nothing bounds it.
    """
    if step >= _SETTLED:
        return 0.0
    parts = [_reach(given, *names) for names in (("w", "x", "bias"), ("r", "h", ""))]
    if any((part >= _WORD - 1).any() for part in parts):
        return _ALL
    if (parts[0] + parts[1] < _WORD - 1).all():
        return 0.0
    return 1 / (1 + exp((_WORD - 1) * float(step)))


def _reach(given: Constants, matrix: str, side: str, bias: str) -> NDArray[np.float64]:
    """How far levels of each column reach, one more for what is rounded."""
    zero = given["x_zero" if matrix == "w" else "y_zero"]
    sums = np.abs(given[matrix].astype(np.float64)).sum(axis=0) * furthest(zero)
    if bias:
        sums = sums + np.abs(given[bias].astype(np.float64))
    scale = given[f"{side}_multiplier"] / np.exp2(given[f"{side}_shift"].astype(np.float64))
    return np.asarray(sums * scale + 1)
