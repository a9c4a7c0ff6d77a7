"""Interpolation in fractions: which two places ONNX's Resize mixes, and how, or takes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor, lcm, prod

import numpy as np

from opsets.errors import UsageError
from opsets.fixed_point import Int64


@dataclass(frozen=True)
class Axis:
    """One axis of a Resize: its sizes before and after, and the scale between coordinates."""

    before: int
    after: int
    scale: Fraction


_HALF = Fraction(1, 2)


def _asymmetric(axis: Axis, place: int) -> Fraction:
    return place / axis.scale


def _half_pixel(axis: Axis, place: int) -> Fraction:
    return (place + _HALF) / axis.scale - _HALF


def _pytorch_half_pixel(axis: Axis, place: int) -> Fraction:
    return _half_pixel(axis, place) if axis.after > 1 else Fraction(0)


def _half_pixel_symmetric(axis: Axis, place: int) -> Fraction:
    shrunk = axis.after / (axis.scale * axis.before)
    return Fraction(axis.before, 2) * (1 - shrunk) + _half_pixel(axis, place)


def _align_corners(axis: Axis, place: int) -> Fraction:
    return Fraction(place * (axis.before - 1), max(axis.after - 1, 1))


COORDINATES: Mapping[str, Callable[[Axis, int], Fraction]] = {
    "align_corners": _align_corners,
    "asymmetric": _asymmetric,
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": _pytorch_half_pixel,
}
"""Where a place after a Resize lies before it, by coordinate_transformation_mode."""


NEAREST: Mapping[str, Callable[[Fraction], int]] = {
    "ceil": ceil,
    "floor": floor,
    "round_prefer_ceil": lambda place: floor(place + _HALF),
    "round_prefer_floor": lambda place: ceil(place - _HALF),
}
"""The nearest of places that are whole, by nearest_mode."""


@dataclass(frozen=True)
class Taps:
    """The two places that each place mixes, ``indices``, and by what: ``coefficients``.

    Both are [2, columns]; the coefficients of each column add up to ``total``, of several axes
    their products do.
    """

    indices: Int64
    coefficients: Int64
    total: int


def taps_of(axes: Sequence[Axis], mode: str, nearest: str = "") -> Taps:
    """The taps of three axes, one after the other; in front of ``axes`` those of size 1.

    ``nearest``: how places are rounded, where they are. Where no size changes onnxruntime
    copies, whatever the scales are.
    """
    if all(axis.before == axis.after for axis in axes):
        axes = [replace(axis, scale=Fraction(1)) for axis in axes]
    missing = [Axis(1, 1, Fraction(1))] * (3 - len(axes))
    locate, rounded = COORDINATES[mode], NEAREST.get(nearest, Fraction)
    found = [
        _taps(axis, lambda axis, place: Fraction(rounded(locate(axis, place))))
        for axis in [*missing, *axes]
    ]
    return Taps(
        np.concatenate([each.indices for each in found], axis=1),
        np.concatenate([each.coefficients for each in found], axis=1),
        prod(each.total for each in found),
    )


TEN_BITS = 1 << 10
"""The steps between two places in form ``ten_bits``."""

TEN_BIT_COORDINATES = {
    "align_corners": "align_corners",
    "asymmetric": "asymmetric",
    "half_pixel": "half_pixel",
    "pytorch_half_pixel": "half_pixel",
}
"""TFLite's three ways by coordinate_transformation_mode."""


def ten_bit_taps(axes: Sequence[Axis], mode: str) -> Taps:
    """The taps of height and width as TFLite's kernel of 8 bits finds them, or of width alone.

    Each place is a multiple of the quotient of sizes, in steps of 1 / 1024 and rounded before.
    Source: TensorFlow, ResizeBilinearInteger and ComputeInterpolationValuesInteger in
    lite/kernels/internal/reference/resize_bilinear.h. Raises UsageError for what that does not
    take.
    """
    if len(axes) > 2:
        raise UsageError("TFLite resizes along two axes")
    if any(axis.scale * axis.before != axis.after for axis in axes):
        raise UsageError("TFLite resizes by the quotient of sizes alone: give sizes")
    if mode not in TEN_BIT_COORDINATES or (
        mode == "pytorch_half_pixel" and any(axis.after == 1 for axis in axes)
    ):
        raise UsageError(f"TFLite has no coordinates {mode}")
    columns = [(0, 0, 1, 0)] * (3 - len(axes))
    for axis in axes:
        columns += _ten_bit_columns(axis, TEN_BIT_COORDINATES[mode])
    low, high, before, behind = np.array(columns, np.int64).T
    return Taps(np.stack([low, high]), np.stack([before, behind]), TEN_BITS ** len(axes))


def _ten_bit_columns(axis: Axis, way: str) -> list[tuple[int, int, int, int]]:
    """Both places of each, and by what they are mixed."""
    sizes, last = (axis.before, axis.after), axis.before - 1
    if way == "align_corners" and axis.after > 1:
        sizes = last, axis.after - 1
    step = (TEN_BITS * sizes[0] + sizes[1] // 2) // sizes[1]
    found = []
    for place in range(axis.after):
        at = place * step
        if way == "half_pixel":
            at += step // 2 - TEN_BITS // 2
        low = max(at // TEN_BITS, 0)
        high = min(-(-at // TEN_BITS), last)
        behind = at - TEN_BITS * low if high > low else 0
        found.append((low, max(high, low), TEN_BITS - behind, behind))
    return found


def _taps(axis: Axis, locate: Callable[[Axis, int], Fraction]) -> Taps:
    """Exact taps: over the least common denominator the fractions are integers."""
    last = axis.before - 1
    places = [
        min(max(locate(axis, i), Fraction(0)), Fraction(last)) for i in range(axis.after)
    ]
    total = lcm(*(place.denominator for place in places))
    low = [int(place) for place in places]
    high = [min(each + 1, last) for each in low]
    behind = [int((place - each) * total) for place, each in zip(places, low, strict=True)]
    before = [total - each for each in behind]
    return Taps(np.array([low, high], np.int64), np.array([before, behind], np.int64), total)
