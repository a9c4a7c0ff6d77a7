"""IntCast: what is stored of whole numbers, and which of these are told apart."""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from qpasses.checking.meaning import (
    DifferenceError,
    Site,
    check_record,
    unlike,
    unlike_attributes,
)
from qpasses.checking.rules.check_clamps import check_end
from qpasses.checking.rules.check_multipliers import (
    expected_pair,
    expected_rounding,
    real_scale,
)
from qpasses.ir.graph import constant


def int_cast(site: Site) -> Iterator[str]:
    """Cast of bool or whole numbers to float32, whose codes are a multiple of them."""
    site.is_op("Cast")
    given, made = site.first.inputs[0], site.first.outputs[0]
    found = site.pair.meaning(site.inputs["x"])
    if found.real != given.name or found.stored is not None or constant(given) is not None:
        raise DifferenceError(f"casts {found.real!r}, the float model {given.name!r}")
    if made.dtype != np.float32 or given.dtype is None or isinstance(given.dtype, int):
        raise DifferenceError(f"the float model casts {given.dtype} to {made.dtype}")
    y, of, target = site.y, np.dtype(given.dtype), site.settings.target
    yield from check_end(site, site.chain[1:])
    yield from check_record(site, {"y": [y.scale]})
    expected = {"of": of.name, "rounding": expected_rounding(target)}
    yield from unlike_attributes(site.node.attrs, expected)
    pair = expected_pair(real_scale("Quantize", [1.0], y.scale, target), target, True)
    low, high = _told_apart(of, y.scale, *(end - y.zero_point for end in y.limits))
    named = zip(("x_min", "x_max", "multiplier", "shift"), (low, high, *pair), strict=True)
    for name, value in named:
        yield from unlike(name, site.given[name], np.array(value, np.int32))


def _told_apart(
    of: np.dtype[np.generic], scale: float, low: int, high: int
) -> tuple[int, int]:
    """The whole numbers a step beyond the levels ``low`` and ``high``, within the type."""
    if of.kind == "b":
        least, most = 0, 1
    elif of.kind in "iu":
        least, most = -(1 << of.itemsize * 8 - 1), (1 << of.itemsize * 8 - 1) - 1
        if of.kind == "u":
            least, most = 0, (1 << of.itemsize * 8) - 1
    else:
        raise DifferenceError(f"the float model casts {of}, which are no whole numbers")
    step = Fraction(scale)
    below, above = (low - 1) * step, (high + 1) * step
    first, last = (
        below.numerator // below.denominator,
        -(-above.numerator // above.denominator),
    )
    return min(max(first, least), most), min(max(last, least), most)
