"""Casts of whole numbers: between which of them codes differ, multiplier and shift."""

from fractions import Fraction
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from opsets.errors import UsageError
from opsets.qpasses_v1.int_cast import type_ends
from opsets.realised import node_multiplier
from opsets.target import Target
from qpasses.ir.record import Quantization
from qpasses.lowering.numbers.rescaled_numbers import check_unwrapped

MOST_NUMBERS = 1 << 20
"""So many whole numbers a cast tells apart at most: all of them are run to prove it."""


def cast_numbers(of: str, y: Quantization, target: Target) -> dict[str, NDArray[np.int32]]:
    """The constants of IntCast for whole numbers of type ``of``, up to the zero point.

    x_min and x_max are the first numbers behind which there is nothing but the codes at the
    ends, or the ends of the type. Raises UsageError where the target has no such numbers.
    """
    (least, most), (low, high) = type_ends(of), y.limits
    step = Fraction(y.scale)
    first, last = (
        floor((low - y.zero_point - 1) * step),
        ceil((high - y.zero_point + 1) * step),
    )
    ends = [min(max(end, least), most) for end in (first, last)]
    if ends[1] - ends[0] > MOST_NUMBERS:
        raise UsageError(
            f"steps of {y.scale:.4g} over {ends[1] - ends[0]} numbers are too wide"
        )
    pair = node_multiplier(target.real_scale("Quantize", (1.0,), y.scale), target, True)
    check_unwrapped(np.array(ends, np.int64), pair, target)
    names = "x_min", "x_max", "multiplier", "shift"
    return {name: np.array(v, np.int32) for name, v in zip(names, (*ends, *pair), strict=True)}
