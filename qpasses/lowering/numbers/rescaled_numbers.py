"""Sums of rescaled tensors: the numbers of their nodes by the form of a target."""

import numpy as np
from numpy.typing import NDArray

from opsets.errors import UsageError
from opsets.fixed_point import Int64
from opsets.forms import ADD_FORMS, LEFT_SHIFTS
from opsets.multipliers import Pair, ScaleError
from opsets.qpasses_v1 import OPS
from opsets.realised import node_pair
from opsets.rounding import requantize, wraps
from opsets.target import Target
from qpasses.ir.record import Quantization

KEPT: Pair = (1 << 30, 30)
"""Multiplier and shift that leave a sum of two levels as it is, by every rounding."""


def rescaled_numbers(
    a: Quantization, b: Quantization, y: Quantization, target: Target
) -> dict[str, NDArray[np.int32]]:
    """Left shift, multipliers and shifts of IntRescaledAdd and IntRescaledSub, in order.

    Raises UsageError for scales that the target cannot express, and where no body computes
    what it asks for on all stored integers.
    """
    form = target.add_form("int16" in (a.dtype, b.dtype, y.dtype))
    pairs = ADD_FORMS[form].numbers(a.scale, b.scale, y.scale, target)
    pairs = [node_pair(pair, target.rounding) for pair in pairs]
    left, (of_a, of_b, of_y) = LEFT_SHIFTS[form], [*pairs, KEPT][:3]
    terms = [_term(x, left, pair, target) for x, pair in ((a, of_a), (b, of_b))]
    reach = sum(np.abs(each).max() for each in terms)
    check_unwrapped(np.array([-reach, reach]), of_y, target)
    found = {"left_shift": left}
    for name, (multiplier, shift) in (("a", of_a), ("b", of_b), ("y", of_y)):
        found |= {f"{name}_multiplier": multiplier, f"{name}_shift": shift}
    numbers = {name: np.array(value, np.int32) for name, value in found.items()}
    rounds = {"rounding": target.rounding}
    if not any(OPS["IntRescaledAdd"].fitting("portable", numbers, rounds)):
        raise UsageError(f"no body adds in the form {form} rounding as {target.rounding}")
    return numbers


def _term(x: Quantization, left: int, pair: Pair, target: Target) -> Int64:
    ends = np.array([end - x.zero_point for end in x.type_limits], np.int64) << left
    check_unwrapped(ends, pair, target)
    return requantize(ends, *pair, target.rounding)


def check_unwrapped(values: Int64, pair: Pair, target: Target) -> None:
    """Raise ScaleError if the target's left shift takes one of ``values`` beyond int32."""
    if wraps(values, pair[1], target.rounding).any():
        raise ScaleError(
            f"target {target.name!r} shifts up to {np.abs(values).max()} to the left by "
            f"{31 - pair[1]} places, beyond 32 bits"
        )
