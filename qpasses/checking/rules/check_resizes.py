"""IntResize: interpolation, its taps computed again as exact fractions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor, lcm

import numpy as np

from qpasses.checking.meaning import (
    DifferenceError,
    Site,
    check_record,
    float_constant,
    unlike,
    unlike_attributes,
)
from qpasses.checking.rules.check_averages import sums_of
from qpasses.checking.rules.check_clamps import clamps_behind, stored_bounds
from qpasses.checking.rules.check_products import check_requantized
from qpasses.ir.graph import Node
from qpasses.ir.record import Quantization


@dataclass(frozen=True)
class Line:
    """An axis: its size before and after, and after / before as the node gives it."""

    before: int
    after: int
    factor: Fraction

    def within(self, index: int, mode: str) -> Fraction:
        """``place``, moved to the nearest end of the axis where it lies outside."""
        return min(max(self.place(index, mode), Fraction(0)), Fraction(self.before - 1))

    def place(self, index: int, mode: str) -> Fraction:
        """Where ``index`` behind the Resize lies before it, by ONNX's formulas."""
        size = self.factor * self.before
        if mode == "asymmetric":
            return index / self.factor
        if mode == "align_corners":
            return Fraction(index * (self.before - 1), max(self.after - 1, 1))
        if mode == "pytorch_half_pixel" and self.after == 1:
            return Fraction(0)
        pixel = (index + Fraction(1, 2)) / self.factor - Fraction(1, 2)
        if mode == "half_pixel_symmetric":
            return Fraction(self.before, 2) * (1 - self.after / size) + pixel
        if mode in ("half_pixel", "pytorch_half_pixel"):
            return pixel
        raise DifferenceError(f"coordinates {mode!r} have no integer form")


def int_resize(site: Site) -> Iterator[str]:
    """Resize along the last axes: with mode linear, of 16 bits also with mode nearest."""
    site.is_op("Resize")
    node = site.first
    x = site.operand(site.inputs["x"], node.inputs[0])
    picks = node.attrs.get("mode", "nearest") == "nearest"
    if picks and (x.dtype != "int16" or x != site.y or len(site.chain) != 1):
        raise DifferenceError(f"{node.name!r} only moves codes")
    lines = _lines(node)
    mode = node.attrs.get("coordinate_transformation_mode", "half_pixel")
    if site.settings.target.resize == "ten_bits" and not picks:
        yield from _ten_bits(site, x, lines, mode)
        return
    yield from unlike("x_zero", site.given["x_zero"], x.zero)
    padded = [Line(1, 1, Fraction(1))] * (3 - len(lines)) + lines
    indices, coefficients, total = [], [], 1
    for line in padded:
        places = [line.within(i, mode) for i in range(line.after)]
        if picks:
            places = [_nearest(place, node) for place in places]
        parts = lcm(*(place.denominator for place in places))
        for place in places:
            first = floor(place)
            behind = int((place - first) * parts)
            indices.append((first, min(first + 1, line.before - 1)))
            coefficients.append((parts - behind, behind))
        total *= parts
    for name, table in (("indices", indices), ("coefficients", coefficients)):
        yield from unlike(name, site.given[name], np.array(table, np.int32).T)
    attributes = {
        "dims": len(lines),
        "x_sizes": [line.before for line in padded],
        "y_sizes": [line.after for line in padded],
    }
    scales, reachable = {"x": [x.scale]}, sums_of(x, total)
    clamps = clamps_behind(site)
    yield from check_requantized(site, clamps, attributes, scales, reachable, total)


def _ten_bits(site: Site, x: Quantization, lines: list[Line], mode: str) -> Iterator[str]:
    """Places in steps of 1 / 1024, codes with their zero points, ties away from the middle."""
    if x != site.y or x.dtype == "int16" or len(lines) > 2:
        raise DifferenceError("its target has no such Resize")
    padded = [Line(1, 1, Fraction(1))] * (3 - len(lines)) + lines
    attributes = {
        "dims": len(lines),
        "x_sizes": [line.before for line in padded],
        "y_sizes": [line.after for line in padded],
        "rounding": "half_away",
    }
    yield from unlike_attributes(site.node.attrs, attributes)
    columns = [(0, 0, 1, 0)] * (3 - len(lines))
    for line in lines:
        if line.factor * line.before != line.after:
            raise DifferenceError("its factor is no quotient of sizes")
        columns += [_ten_bit_column(line, index, mode) for index in range(line.after)]
    table, total = np.array(columns, np.int32).T, 1024 ** len(lines)
    middle = np.array(128 if x.dtype == "uint8" else 0, x.dtype)
    low, high = stored_bounds(x, clamps_behind(site))
    for name, value in {
        **{"x_zero": middle, "indices": table[:2], "coefficients": table[2:]},
        **{"multiplier": np.ones(1, np.int32), "shift": np.array([10 * len(lines)], np.int32)},
        "y_zero": middle,
        **{"y_min": np.array(low, x.dtype), "y_max": np.array(high, x.dtype)},
    }.items():
        yield from unlike(name, site.given[name], value)
    yield from check_record(site, {"x": [x.scale], "y": [x.scale]}, total)


def _ten_bit_column(line: Line, index: int, mode: str) -> tuple[int, int, int, int]:
    """Two places and their coefficients, of what lies at so many 1024ths."""
    before, after = line.before, line.after
    if mode == "align_corners" and after > 1:
        before, after = before - 1, after - 1
    step = floor(Fraction(1024 * before, after) + Fraction(after // 2, after))
    place = index * step
    if mode in ("half_pixel", "pytorch_half_pixel") and (line.after > 1 or mode[0] == "h"):
        place += step // 2 - 512
    elif mode not in ("asymmetric", "align_corners"):
        raise DifferenceError(f"its target has no coordinates {mode!r}")
    first = max(place // 1024, 0)
    second = max(min(-(-place // 1024), line.before - 1), first)
    rest = place - 1024 * first if second > first else 0
    return first, second, 1024 - rest, rest


def _nearest(place: Fraction, node: Node) -> Fraction:
    """The whole place that a Resize takes; halves go by its ``nearest_mode``."""
    how, below = node.attrs.get("nearest_mode", "round_prefer_floor"), floor(place)
    rest = place - below
    is_above = {
        "floor": False,
        "ceil": rest > 0,
        "round_prefer_floor": rest > Fraction(1, 2),
        "round_prefer_ceil": rest >= Fraction(1, 2),
    }
    if how not in is_above:
        raise DifferenceError(f"nearest_mode {how!r} has no integer form")
    return Fraction(below + is_above[how])


def _lines(node: Node) -> list[Line]:
    """From the first axis that is resized on, at least the last."""
    plain = {"antialias": 0, "exclude_outside": 0, "keep_aspect_ratio_policy": "stretch"}
    wrong = any(node.attrs.get(name, value) != value for name, value in plain.items())
    if wrong or node.attrs.get("mode", "nearest") not in ("linear", "nearest"):
        raise DifferenceError(f"{node.name!r} is another kind of Resize")
    shapes = node.inputs[0].shape, node.outputs[0].shape
    if None in shapes:
        raise DifferenceError(f"the sizes of {node.name!r} are not known")
    lines = [
        Line(before, after, factor)
        for before, after, factor in zip(*shapes, _factors(node, shapes[0]), strict=True)
    ]
    first = next((i for i, line in enumerate(lines) if line.factor != 1), len(lines) - 1)
    if not all(
        isinstance(s, int) for line in lines[first:] for s in (line.before, line.after)
    ):
        raise DifferenceError(f"the sizes of {node.name!r} are not known")
    if all(line.before == line.after for line in lines[first:]):  # onnxruntime copies
        return [replace(line, factor=Fraction(1)) for line in lines[first:]]
    return lines[first:]


def _factors(node: Node, before: Sequence[int]) -> list[Fraction]:
    factors, sizes = float_constant(node, 2), float_constant(node, 3)
    given, by_size = (
        (factors, False) if factors is not None and factors.size else (sizes, True)
    )
    if given is None:
        raise DifferenceError(f"the factors of {node.name!r} are not known")
    found = [Fraction(1)] * len(before)
    axes = node.attrs.get("axes") or range(len(before))
    for axis, value in zip(axes, given.tolist(), strict=True):
        if by_size and not isinstance(before[axis], int):
            raise DifferenceError(f"the sizes of {node.name!r} are not known")
        found[axis] = Fraction(value) / (before[axis] if by_size else 1)
    return found
