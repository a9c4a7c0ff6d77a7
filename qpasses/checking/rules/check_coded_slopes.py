"""IntCodedPRelu: codes of slopes, and the multipliers of both sides of zero."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import trunc
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.multipliers import Pair, ScaleError
from opsets.realised import node_pair, slopes_are_coded
from opsets.target import Target
from qpasses.checking.meaning import DifferenceError, Site, unlike
from qpasses.checking.rules.check_multipliers import real_scale
from qpasses.checking.rules.check_slopes import rectified

Below = tuple[Any, Any, Any]
"""Codes, multipliers and shifts below zero: numbers, or lists of one for each slope."""


def int_coded_p_relu(site: Site) -> Iterator[str]:
    """LeakyRelu, or PRelu with constant slopes, in the form of a target."""
    target = site.settings.target
    if not slopes_are_coded(target):
        raise DifferenceError("its target has no rule of its own for slopes")
    x, slopes = yield from rectified(site)
    try:
        expected = _numbers(x.scale, site.y.scale, slopes, site.first.op, target)
    except ScaleError as error:
        raise DifferenceError(str(error)) from error
    for name, value in expected.items():
        yield from unlike(name, site.given[name], np.array(value, np.int32))


def _numbers(
    x: float, y: float, slopes: NDArray[np.float32], op: str, target: Target
) -> Mapping[str, Any]:
    if target.slopes == "common_shift":
        if x != y:
            raise DifferenceError("its input and output have different scales")
        above, below = node_pair((1, 0), target.rounding), _common_shift(slopes, target)
    else:
        above = _pair(real_scale(op, (x,), y, target), target)
        if target.slopes == "multipliers":
            below = _each_multiplied(op, x, y, slopes, target)
        elif op == "LeakyRelu":
            below = 1, *_pair(real_scale(op, (x, float(slopes)), y, target), target)
        else:
            below = _stored(op, x, y, slopes, target)
    names = "multiplier", "shift", "slope_codes", "slope_multiplier", "slope_shift"
    return dict(zip(names, (*above, *below), strict=True))


def _pair(scale: Fraction, target: Target) -> Pair:
    """Multiplier and shift of a slope; the multiplier has its sign."""
    multiplier, shift = target.elementwise_multiplier(abs(scale))
    return node_pair((multiplier if scale >= 0 else -multiplier, shift), target.rounding)


def _each_multiplied(
    op: str, x: float, y: float, slopes: NDArray[Any], target: Target
) -> Below:
    known = {
        each: _pair(real_scale(op, (x, each), y, target), target)
        for each in {*slopes.ravel().tolist()}
    }
    pairs = np.array([known[each] for each in slopes.ravel().tolist()], np.int64)
    return 1, *(part.reshape(slopes.shape) for part in pairs.T)


def _stored(op: str, x: float, y: float, slopes: NDArray[Any], target: Target) -> Below:
    """Codes of int8, less the zero point, with one multiplier."""
    real = slopes.astype(np.float64)
    low, high = real.min(initial=0), real.max(initial=0)
    scale = float(np.float32((high - low) / 255)) or 1.0
    zero = min(max(round(-128 - float(low) / scale), -128), 127)
    codes = np.minimum(np.maximum(np.rint(real / scale) + zero, -128), 127) - zero
    return codes, *_pair(real_scale(op, (x, scale), y, target), target)


def _common_shift(slopes: NDArray[Any], target: Target) -> Below:
    """Codes of 8 bits with one shift, the first that takes the largest to 64 or beyond."""
    if slopes.size == 1:
        multiplier, shift = target.elementwise_multiplier(abs(float(slopes)))
        code = -multiplier if slopes < 0 else multiplier
        return code, *node_pair((1, shift), target.rounding)
    real = [Fraction(float(each)) for each in slopes.ravel()]
    largest = max(map(abs, real))
    if largest > 127:
        raise DifferenceError(f"no code of 8 bits holds its slope {float(largest):.6g}")
    fitting = (shift for shift in range(63) if largest * 2 ** (shift + 1) >= 127)
    shift = next(fitting, 0)
    codes = np.array([trunc(each * 2**shift) for each in real]).reshape(slopes.shape)
    return codes, *node_pair((1, shift), target.rounding)
