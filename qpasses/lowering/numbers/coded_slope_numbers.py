"""Codes of slopes: the numbers of IntCodedPRelu by the form of a target."""

import numpy as np
from numpy.typing import NDArray

from opsets.errors import UsageError
from opsets.forms import SLOPE_FORMS
from opsets.qpasses_v1 import OPS
from opsets.realised import node_pair
from opsets.target import Target
from qpasses.ir.record import Quantization
from qpasses.lowering.numbers.rescaled_numbers import check_unwrapped

Numbers = dict[str, NDArray[np.int32]]


def coded_slopes(
    x: Quantization, y: Quantization, slopes: NDArray[np.float32], leaky: bool, target: Target
) -> Numbers:
    """Multiplier and shift above zero, codes, multipliers and shifts below, in order.

    ``slopes`` are real, of a LeakyRelu (``leaky``) one number. Raises UsageError for what the
    target cannot express, and where no body computes what it asks for.
    """
    if not slopes.size:
        raise UsageError("there are no slopes")
    places, codes = np.zeros(slopes.shape, np.intp), slopes.astype(np.float64)
    slope_scale = 1.0
    if target.slopes == "multipliers":
        codes, places = np.unique(codes, return_inverse=True)
    elif leaky:
        codes, slope_scale = np.ones(()), float(slopes)
    elif target.slopes == "quantized":
        codes, slope_scale = stored_slopes(slopes)
    form = SLOPE_FORMS[target.slopes]
    given = codes.ravel().tolist()
    op = "LeakyRelu" if leaky else "PRelu"
    numbers = form.numbers(op, x.scale, y.scale, given, slope_scale, target)
    above = node_pair(numbers.above, target.rounding)
    pairs = np.array([node_pair(pair, target.rounding) for pair in numbers.below])
    stored = np.array(numbers.codes).reshape(codes.shape)
    if target.slopes == "multipliers":
        pairs, stored = pairs[places.reshape(slopes.shape)], np.ones(())
    else:
        pairs = pairs[0]
    found = {"multiplier": above[0], "shift": above[1], "slope_codes": stored}
    found |= {"slope_multiplier": pairs[..., 0], "slope_shift": pairs[..., 1]}
    made = {name: np.asarray(value).astype(np.int32) for name, value in found.items()}
    _check(x, made, target)
    return made


def stored_slopes(slopes: NDArray[np.float32]) -> tuple[NDArray[np.float64], float]:
    """Codes less their zero point, and the scale: int8; extremes and zero span all codes."""
    low, high = min(float(slopes.min()), 0.0), max(float(slopes.max()), 0.0)
    scale = float(np.float32((high - low) / 255)) or 1.0
    zero = int(np.clip(np.rint(-128 - low / scale), -128, 127))
    levels = np.rint(slopes.astype(np.float64) / scale)
    return np.clip(levels, -128 - zero, 127 - zero), scale


def _check(x: Quantization, numbers: Numbers, target: Target) -> None:
    rounds = {"rounding": target.rounding}
    if not any(OPS["IntCodedPRelu"].fitting("portable", {}, rounds)):
        raise UsageError(f"no body of IntCodedPRelu rounds as {target.rounding}")
    low, high = (np.array(end - x.zero_point, np.int64) for end in x.type_limits)
    check_unwrapped(high, (int(numbers["multiplier"]), int(numbers["shift"])), target)
    products = low * numbers["slope_codes"].astype(np.int64)
    check_unwrapped(products, (1, int(numbers["slope_shift"].min())), target)
