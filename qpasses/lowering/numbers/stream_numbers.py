"""Sums of 16 bits and the way back to 8: multipliers and shifts."""

import numpy as np
from numpy.typing import NDArray

from opsets.errors import UsageError
from opsets.fixed_point import LARGEST_SHIFT, ROUNDINGS
from opsets.forms import ADD_FORMS
from opsets.multipliers import ScaleError
from opsets.realised import node_multiplier
from opsets.target import Target
from qpasses.ir.record import Quantization
from qpasses.lowering.numbers.rescaled_numbers import check_unwrapped


def stream_multipliers(
    a: Quantization, b: Quantization, y: Quantization, target: Target
) -> dict[str, NDArray[np.int32]]:
    """Both multipliers and the shift of a sum with 16 bits: the nearest, or by the rule.

    Doubles hold products of 31 and 16 bits, so that none need be searched. Raises UsageError
    for what no node computes.
    """
    if target.rounding not in ROUNDINGS:
        raise UsageError(f"no sum is rounded once as {target.rounding!r}")
    (first, shift), (second, _) = ADD_FORMS["one_rounding"].numbers(
        a.scale, b.scale, y.scale, target
    )
    left = max(1 - shift, 0)
    numbers = {"a_multiplier": first << left, "b_multiplier": second << left}
    if shift > LARGEST_SHIFT or max(numbers.values()) >= 1 << 31:
        raise ScaleError(f"no sum has the multipliers {first} and {second} with shift {shift}")
    numbers["shift"] = shift + left
    return {name: np.array(value, np.int32) for name, value in numbers.items()}


def rescale_numbers(
    op: str, x: Quantization, y: Quantization, target: Target
) -> dict[str, NDArray[np.int32]]:
    """Multiplier and shift of IntRescale; raises UsageError where the target has none.

    ``op`` is Quantize or Relu, as ``Target.real_scale`` takes it.
    """
    ends = np.array([end - x.zero_point for end in x.type_limits], np.int64)
    scale = target.real_scale(op, (x.scale,), y.scale)
    pair = node_multiplier(scale, target, elementwise=True)
    check_unwrapped(ends, pair, target)
    names = "multiplier", "shift"
    return {name: np.array(v, np.int32) for name, v in zip(names, pair, strict=True)}
