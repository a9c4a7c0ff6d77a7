"""IntPRelu: a multiplier above zero, and one below for each slope."""

from collections.abc import Generator, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.realised import slopes_are_coded
from qpasses.checking.arithmetic import judged_kernel, ruled_multipliers
from qpasses.checking.meaning import (
    DifferenceError,
    Site,
    check_record,
    float_constant,
    unlike,
    unlike_attributes,
)
from qpasses.checking.rules.check_clamps import check_end
from qpasses.checking.rules.check_functions import recorded_function
from qpasses.checking.rules.check_multipliers import expected_pair
from qpasses.evidence.thresholds import Interval, levels
from qpasses.ir.record import Quantization

_TOGETHER = 4096


def int_p_relu(site: Site) -> Iterator[str]:
    """LeakyRelu, or PRelu with constant slopes."""
    target = site.settings.target
    if slopes_are_coded(target):
        raise DifferenceError("its target has multipliers of slopes by a rule of its own")
    x, slopes = yield from rectified(site)
    y, attributes = site.y, {"rounding": target.rounding}
    has_table = site.settings.activation_form == "table" and target.tables
    has_words = "int16" in (x.dtype, y.dtype)
    if has_table and sum(n > 1 for n in slopes.shape) < (1 if has_words else 2):
        yield "has multipliers, unlike the recorded settings"
    if has_words:
        yield from _nearest(site, x, slopes)
        return
    kernel = judged_kernel("IntPRelu", site.given, attributes, target)
    ratio = Fraction(x.scale) / Fraction(y.scale)
    low, high = (end - x.zero_point for end in x.type_limits)
    known = {1.0: (ratio, 0, high, 1)}
    unique, places = np.unique(slopes, return_inverse=True)
    sides = [known[1.0]] + [
        (
            ratio * abs(Fraction(float(s))),
            0 if s < 0 else low,
            -low if s < 0 else 0,
            -1 if s < 0 else 1,
        )
        for s in unique
    ]
    steps = levels(y.zero_point, *y.limits)
    multiplier, shift = [], []
    for start in range(0, len(sides), _TOGETHER):
        scales, first, last, sign = zip(*sides[start : start + _TOGETHER], strict=True)
        ends = Interval(np.array(first, np.int64), np.array(last, np.int64))
        rule = ruled_multipliers(scales, steps, ends, kernel, target)
        multiplier += (rule.multiplier * np.array(sign)).tolist()
        shift += rule.shift.tolist()
    for name, found in (("multiplier", multiplier), ("shift", shift)):
        values = np.array(found, np.int32)
        yield from unlike(name, site.given[name], values[0])
        below = values[1:][places.ravel()].reshape(slopes.shape)
        yield from unlike(f"slope_{name}", site.given[f"slope_{name}"], below)


def _nearest(site: Site, x: Quantization, slopes: NDArray[Any]) -> Iterator[str]:
    """The multipliers of 16 bits, none of which is searched."""
    target, ratio = site.settings.target, Fraction(x.scale) / Fraction(site.y.scale)
    sides = [(ratio, 1)]
    sides += [(ratio * abs(Fraction(float(s))), -1 if s < 0 else 1) for s in slopes.ravel()]
    pairs = [(expected_pair(scale, target, elementwise=False), sign) for scale, sign in sides]
    found = np.array([(sign * m, shift) for (m, shift), sign in pairs], np.int32)
    for name, values in zip(("multiplier", "shift"), found.T, strict=True):
        yield from unlike(name, site.given[name], values[0])
        below = values[1:].reshape(slopes.shape)
        yield from unlike(f"slope_{name}", site.given[f"slope_{name}"], below)


def rectified(site: Site) -> Generator[str, None, tuple[Quantization, NDArray[Any]]]:
    """Check all but multipliers; how the input is stored, and the real slopes."""
    site.is_op("LeakyRelu", "PRelu")
    node = site.first
    if len(site.chain) != 1:
        raise DifferenceError("its record names more than one node")
    x, y = site.operand(site.inputs["x"], node.inputs[0]), site.y
    recorded_function(site, [node.inputs[0]])
    if len({x.dtype, y.dtype} - {"int16"}) > 1:
        raise DifferenceError("its input and output are stored in different types")
    yield from unlike("x_zero", site.given["x_zero"], x.zero)
    yield from check_end(site, ())
    yield from check_record(site, {"x": [x.scale], "y": [y.scale]})
    yield from unlike_attributes(site.node.attrs, {"rounding": site.settings.target.rounding})
    slopes = float_constant(node, 1) if node.op == "PRelu" else None
    if node.op == "LeakyRelu":
        slopes = np.array(node.attrs.get("alpha", 0.01), np.float32)
    if slopes is None or not np.isfinite(slopes).all():
        raise DifferenceError(f"{node.name!r} has no finite slopes")
    return x, slopes.reshape(()) if slopes.size == 1 else slopes
