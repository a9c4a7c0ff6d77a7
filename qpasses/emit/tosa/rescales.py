"""Scales of wide integers, exact in every rounding that a node may have."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import ROUNDINGS
from opsets.rounding import LAST_STEP, wraps
from qpasses.emit.tosa.equal_rescales import Pairs, UnequalError, check_bounds, same_ratios
from qpasses.emit.tosa.wide import Wide
from qpasses.evidence.thresholds import Interval

Numbers = NDArray[Any]

_DOUBLE = 1 << 53
"""Below it a product in double is exact."""


def rescaled(
    number: Wide,
    multiplier: Numbers,
    shift: Numbers,
    rounding: str,
    rest: Numbers | None = None,
) -> Wide:
    """``(number * multiplier + rest) / 2**shift``, rounded as ``opsets.rounding`` says.

    ``multiplier``, ``shift`` and ``rest`` are single, or have the rank of ``number``, or one
    for each channel, which are the last axis. Raises UnequalError where there is no form.
    """
    rank, program = len(number.some.shape), number.program

    def column(numbers: Numbers) -> Numbers:
        wide = numbers.astype(object)
        return wide if wide.ndim == rank else wide.reshape([*[1] * (rank - 1), -1])

    factors, places = column(multiplier), column(shift)
    last = {str(name): each for name, each in LAST_STEP.items()}.get(rounding)
    if last is not None:
        _check_wraps(number, places, rounding)
        lifted = Wide.constant(program, factors << np.maximum(31 - places, 0))
        number = (number * lifted).rounded(31, "half_up")
        factors, places, rounding = factors**0, np.maximum(places - 31, 0), last
    most = int(places.max())
    product = number * Wide.constant(program, factors << (most - places))
    if rest is not None:
        product = product + Wide.constant(program, column(rest) << (most - places))
    if rounding == "half_to_even_in_double" and max(-product.low, product.high) < _DOUBLE:
        rounding = "half_to_even"
    found = [each for each in ROUNDINGS if each == rounding]
    if not found:
        raise UnequalError(f"there is no form of sums rounded {rounding}")
    return product.rounded(most, found[0])


def _check_wraps(number: Wide, places: Numbers, rounding: str) -> None:
    ends = (np.int64(np.clip(end, -(1 << 62), 1 << 62)) for end in (number.low, number.high))
    if any(wraps(end, places.astype(np.int64), rounding).any() for end in ends):
        raise UnequalError("its sums wrap as they are shifted to the left")


def scaled_term(number: Wide, multiplier: Numbers, shift: Numbers, rounding: str) -> Wide:
    """The same of one multiplier, by RESCALE where that is what it computes."""
    pairs = fitting_pairs(number, multiplier, shift, rounding)
    if pairs is None:
        return rescaled(number, multiplier, shift, rounding)
    factor, places = (int(each[0]) for each in pairs)
    half = 1 << (places - 1)
    low, high = ((end * factor + half) >> places for end in (number.low, number.high))
    value = number.program.rescale(number.int32(), "i32", pairs)
    return Wide.of(number.program, value, low, high)


def fitting_pairs(
    number: Wide, multiplier: Numbers, shift: Numbers, rounding: str
) -> Pairs | None:
    """What RESCALE computes it by, if it does."""
    if rounding != "half_up":
        return None
    try:
        pairs = same_ratios({"multiplier": multiplier, "shift": shift})
        check_bounds(pairs[1], Interval(np.array([number.low]), np.array([number.high])))
    except UnequalError:
        return None
    return pairs
