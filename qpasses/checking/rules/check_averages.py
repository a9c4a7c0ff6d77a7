"""Sums and means: average pools of three kinds, and IntReduce.

All mean sum(x - x_zero) * multiplier / (cells * 2**shift), rounded, for the real mean or sum
times the scale of x over that of y. So cells are counted as ONNX lays windows, and multiplier
and shift are the nearest to that ratio in the widths of the target, or in those of double
where a fast body computes in it (``_shortened``). Targets with formulas of their own
(``reciprocal``, ``folded``, ``divided``, multipliers by a rule) define what the integers are,
not how near they come: there the rule is that formula again.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from opsets.fixed_point import ROUNDINGS
from opsets.qpasses_v1.int_reduce import DOUBLE_MULTIPLIER, DOUBLE_SHIFTS
from opsets.realised import node_rounding, takes_words
from opsets.target import Target
from qpasses.checking.arithmetic import nearest
from qpasses.checking.meaning import (
    DifferenceError,
    Site,
    check_record,
    unlike,
    unlike_attributes,
)
from qpasses.checking.rules.check_clamps import check_end, clamps_behind, stored_bounds
from qpasses.checking.rules.check_multipliers import rule_pair
from qpasses.checking.rules.check_products import check_requantized
from qpasses.evidence.thresholds import Interval
from qpasses.ir.graph import Node, constant, input_at, rank, spatial_shape
from qpasses.ir.record import Quantization


def int_average_pool(site: Site) -> Iterator[str]:
    """AveragePool whose windows all hold as many cells."""
    site.is_op("AveragePool")
    axes = _axes_of_windows(site)
    if not all(each.is_even() for each in axes):
        raise DifferenceError(f"the windows of {site.first.name!r} differ in size")
    if site.settings.target.average_pool == "divided":
        raise DifferenceError("its target divides sums by their cells")
    kernel = [each.kernel for each in axes]
    geometry = _geometry(axes) | {"pads": _ends(each.pads for each in axes)}
    yield from _pool(site, prod(kernel), {"kernel_shape": kernel, **geometry})


def int_counted_average_pool(site: Site) -> Iterator[str]:
    """AveragePool whose windows differ: padding is no cell, nor what ceil_mode adds."""
    site.is_op("AveragePool")
    node, clamps, axes = site.first, clamps_behind(site), _axes_of_windows(site)
    taken = [each.written_out() for each in axes]
    for ours, theirs in zip(taken, axes, strict=True):
        if ours.size is not None and ours.cells() != theirs.cells():
            raise DifferenceError(f"no padding gives the windows of {node.name!r}")
    expected = {
        "channels": node.inputs[0].shape[1],
        "kernel_shape": [each.kernel for each in axes],
        **_geometry(axes),
        "pads": _ends(each.pads for each in taken),
        "uncounted_pads": _ends(each.uncounted for each in taken),
    }
    target = site.settings.target
    x, y = site.operand(site.inputs["x"], node.inputs[0]), site.y
    yield from check_record(site, {"x": [x.scale], "y": [y.scale]})
    is_wide, bits = "int16" in (x.dtype, y.dtype), target.multiplier_bits
    if is_wide and not (target.average_pool == "requantized" or takes_words(target)):
        raise DifferenceError("its target has no pools of 16 bits")
    if is_wide:  # products with sums are integers that double holds
        bits = min(bits, _DOUBLE_BITS - _sum_bits(x, prod(expected["kernel_shape"])))
    if target.average_pool == "divided":
        if any(each.pads != each.uncounted for each in taken):
            raise DifferenceError("its target counts no padding")
        yield from _divided(site, clamps, x, expected)
        return
    yield from unlike("x_zero", site.given["x_zero"], x.zero)
    yield from check_end(site, clamps)
    if target.average_pool == "reciprocal":
        yield from _times_reciprocals(site, x, expected)
        return
    if not _is_usual(target):
        raise DifferenceError("its target has a multiplier for each size of a window")
    expected["rounding"] = target.rounding
    yield from unlike_attributes(site.node.attrs, expected)
    ratio = Fraction(x.scale) / Fraction(y.scale)
    yield from _numbers(site, nearest(ratio, bits))


_DOUBLE_BITS = 53


def _sum_bits(x: Quantization, cells: int) -> int:
    """Of the largest sum of so many codes."""
    low, high = x.type_limits
    return (cells * max(high - x.zero_point, x.zero_point - low)).bit_length()


def _times_reciprocals(
    site: Site, x: Quantization, expected: Mapping[str, Any]
) -> Iterator[str]:
    """TOSA's reciprocal of each number of cells: a division, ties away from zero.

    The reciprocal of n, in units of 2**-(30 + ceil(log2(n))), is above the real one by at most
    2, which takes ties away from zero and, for so few cells, nothing past a tie.
    """
    if x != site.y:
        yield "its input and output are stored in different ways"
    reach = 1 << 15 if x.dtype == "int16" else 255
    if prod(expected["kernel_shape"]) * 2 * 2 * reach > 1 << 30:
        raise DifferenceError("it has more cells than a reciprocal divides by")
    yield from unlike_attributes(site.node.attrs, {**expected, "rounding": "half_away"})
    yield from _numbers(site, _to_the_right((1, 0), "half_away"))


@dataclass(frozen=True)
class _Axis:
    """Windows along one axis of ``size`` (None: any), with paddings at both ends of it.

    ``uncounted``: how many places of the paddings are no cells. ``ceil``: a last window may
    reach over the end, where nothing is counted.
    """

    size: int | None
    kernel: int
    dilation: int
    stride: int
    pads: tuple[int, int]
    uncounted: tuple[int, int]
    ceil: bool

    @property
    def reach(self) -> int:
        """From the first place of a window to its last."""
        return (self.kernel - 1) * self.dilation

    def cells(self) -> list[int]:
        """How many each window holds; none starts behind the input."""
        assert self.size is not None
        room = self.size + sum(self.pads) - self.reach - 1
        count = (room + (self.stride - 1) * self.ceil) // self.stride + 1
        starts = (self.stride * i - self.pads[0] for i in range(count))
        first = self.uncounted[0] - self.pads[0]
        last = self.size + self.pads[1] - self.uncounted[1]
        return [
            sum(first <= start + self.dilation * i < last for i in range(self.kernel))
            for start in starts
            if start < self.size
        ]

    def is_even(self) -> bool:
        """Whether every window holds the whole kernel, for any size if it is not known."""
        if self.size is None:
            return not (any(self.uncounted) or self.ceil)
        return set(self.cells()) <= {self.kernel}

    def is_whole(self) -> bool:
        """Whether there is one window, over everything."""
        return not any(self.pads) and self.reach + 1 == self.kernel == self.size

    def written_out(self) -> "_Axis":
        """The same windows by padding alone: what ceil_mode adds is no cell.

        Its last window reaches stride - 1 over the end at most, and starts inside.
        """
        more = min(self.pads[1] + self.stride - 1, self.reach) - self.pads[1]
        if not self.ceil:
            return self
        pads, uncounted = ((first, last + more) for first, last in (self.pads, self.uncounted))
        return replace(self, pads=pads, uncounted=uncounted, ceil=False)


def _axes_of_windows(site: Site) -> list[_Axis]:
    """Of an AveragePool, as ONNX defines it. Raises DifferenceError for automatic padding."""
    node, kernel = site.first, site.first.attrs["kernel_shape"]
    if node.attrs.get("auto_pad", "NOTSET") not in ("NOTSET", ""):
        raise DifferenceError(f"how {node.name!r} is padded is not known")
    dims = len(kernel)
    sizes = spatial_shape(node.inputs[0]) or [None] * dims
    dilations, strides = (
        node.attrs.get(name) or [1] * dims for name in ("dilations", "strides")
    )
    pads = node.attrs.get("pads") or [0] * (2 * dims)
    pairs = list(zip(pads[:dims], pads[dims:], strict=True))
    counts = node.attrs.get("count_include_pad", 0)
    return [
        _Axis(
            *(sizes[i], kernel[i], dilations[i], strides[i], pairs[i]),
            uncounted=(0, 0) if counts else pairs[i],
            ceil=bool(node.attrs.get("ceil_mode", 0)),
        )
        for i in range(dims)
    ]


def _geometry(axes: Sequence[_Axis]) -> dict[str, list[int]]:
    return {
        "dilations": [each.dilation for each in axes],
        "strides": [each.stride for each in axes],
    }


def _ends(pairs: Iterable[tuple[int, int]]) -> list[int]:
    """All first ends, then all last ones, as ONNX lists them."""
    return [end for ends in zip(*pairs, strict=True) for end in ends]


def _divided(
    site: Site, clamps: Sequence[Node], x: Quantization, expected: Mapping[str, Any]
) -> Iterator[str]:
    """A sum of codes as int8, zero points left in, divided by its cells: ties away from 0."""
    y, middle = site.y, 128 if site.y.dtype == "uint8" else 0
    if x != y:
        yield "its input and output are stored in different ways"
    yield from unlike_attributes(site.node.attrs, {**expected, "rounding": "half_away"})
    ends = zip(("y_min", "y_max"), stored_bounds(y, clamps), strict=True)
    for name, value in (("x_zero", middle), ("y_zero", middle), *ends):
        yield from unlike(name, site.given[name], np.array(value, y.dtype))
    yield from _numbers(site, _to_the_right((1, 0), "half_away"))


def _numbers(site: Site, pair: tuple[int, int], shape: Sequence[int] = ()) -> Iterator[str]:
    for name, value in zip(("multiplier", "shift"), pair, strict=True):
        yield from unlike(name, site.given[name], np.full(shape, value, np.int32))


def _is_usual(target: Target) -> bool:
    """Whether it has no rule of its own for a sum that is divided later."""
    shifts = target.min_shift, target.max_shift
    rule = target.multiplier, target.elementwise, shifts
    return rule == ("nearest", None, (1, 61)) and target.rounding in ROUNDINGS


def _to_the_right(pair: tuple[int, int], rounding: str) -> tuple[int, int]:
    """What is shifted less than one place by one rounding is so by one place, multiplied."""
    multiplier, shift = pair
    less = 1 - shift if rounding in ROUNDINGS else 0
    return (multiplier * 2**less, 1) if less > 0 else pair


def int_global_average_pool(site: Site) -> Iterator[str]:
    """GlobalAveragePool over a size that is known, and AveragePool with one window."""
    site.is_op("AveragePool", "GlobalAveragePool")
    windows = _axes_of_windows(site) if site.first.op == "AveragePool" else []
    if not all(each.is_whole() for each in windows):
        raise DifferenceError(f"the window of {site.first.name!r} is not all there is")
    spatial = spatial_shape(site.first.inputs[0])
    if spatial is None:
        raise DifferenceError(f"the size that {site.first.name!r} reduces is not known")
    yield from _pool(site, prod(spatial), {"spatial_shape": list(spatial)})


def _pool(site: Site, cells: int, attributes: dict[str, Any]) -> Iterator[str]:
    x, target = site.operand(site.inputs["x"], site.first.inputs[0]), site.settings.target
    yield from unlike("x_zero", site.given["x_zero"], x.zero)
    expected = {"channels": site.first.inputs[0].shape[1], **attributes}
    clamps, reachable = clamps_behind(site), sums_of(x, cells)
    if target.average_pool == "requantized" and target.elementwise is None:
        scales = {"x": [x.scale]}
        yield from check_requantized(site, clamps, expected, scales, reachable, cells)
        return
    rounding: str = node_rounding(target)
    pair = rule_pair(x.scale / site.y.scale / cells, target, elementwise=True)
    if target.average_pool == "reciprocal":
        rounding, pair = "half_up", _reciprocal(cells)
        if x != site.y:
            yield "its input and output are stored in different ways"
    yield from unlike_attributes(site.node.attrs, {**expected, "rounding": rounding})
    yield from check_end(site, clamps)
    yield from check_record(site, {"x": [x.scale], "y": [site.y.scale]}, cells)
    if not reachable.fits_int32():
        raise DifferenceError("its accumulator can leave int32")
    yield from _numbers(site, _to_the_right(pair, rounding), (1,))


def _reciprocal(cells: int) -> tuple[int, int]:
    """TOSA's multiplier and shift for a mean of so many."""
    places = math.ceil(math.log2(cells))
    return (2**30 + 1) * 2**places // cells, 30 + places


def sums_of(x: Quantization, cells: int) -> Interval:
    """What so many codes add up to, less the zero point."""
    low, high = (np.array([(end - x.zero_point) * cells], np.int64) for end in x.type_limits)
    return Interval(low, high)


def int_reduce(site: Site) -> Iterator[str]:
    """ReduceMean, ReduceSum, and GlobalAveragePool over a size that is free."""
    site.is_op("GlobalAveragePool", "ReduceMean", "ReduceSum")
    node, clamps = site.first, clamps_behind(site)
    x, y, target = site.operand(site.inputs["x"], node.inputs[0]), site.y, site.settings.target
    axes, mean = axes_of(node), int(node.op != "ReduceSum")
    keepdims = 1 if node.op == "GlobalAveragePool" else int(node.attrs.get("keepdims", 1))
    expected = {"axes": axes, "keepdims": keepdims, "mean": mean}
    shape = site.pair.sizes.get(node.inputs[0].name) or node.inputs[0].shape
    sizes = [] if shape is None else [shape[axis] for axis in axes]
    if not sizes or not all(isinstance(size, int) for size in sizes):
        raise DifferenceError("how many numbers it adds is not known")
    cells = max(1, prod(sizes))
    yield from check_record(site, {"x": [x.scale], "y": [y.scale]}, cells)
    form = _form(node, target)
    is_usual = form == "requantized" and _is_usual(target)
    if "int16" in (x.dtype, y.dtype) and not (is_usual or takes_words(target)):
        raise DifferenceError("its target has no such sums of 16 bits")
    if form == "divided":
        yield from _divided(site, clamps, x, expected)
        return
    yield from unlike("x_zero", site.given["x_zero"], x.zero)
    yield from check_end(site, clamps)
    rounding: str = node_rounding(target)
    if is_usual:
        pair = _shortened(Fraction(x.scale) / Fraction(y.scale), mean, target)
    else:
        expected["mean"] = 2 * mean
        if mean and not all(isinstance(node.inputs[0].shape[axis], int) for axis in axes):
            raise DifferenceError("its target has a multiplier for each number of cells")
        if form == "reciprocal":
            rounding, pair = "half_up", _reciprocal(cells)
            if x != y:
                yield "its input and output are stored in different ways"
        else:
            pair = _ruled(x.scale / y.scale, cells, mean, form, target)
        pair = _to_the_right(pair, rounding)
    expected["rounding"] = rounding
    yield from unlike_attributes(site.node.attrs, expected)
    yield from _numbers(site, pair)


def _form(node: Node, target: Target) -> str:
    if node.op == "ReduceSum":
        return "requantized"
    return target.mean if node.op == "ReduceMean" else target.average_pool


def _ruled(ratio: float, cells: int, mean: int, form: str, target: Target) -> tuple[int, int]:
    """The pair of a sum, or of a mean that has 1 / cells in its multiplier, by the target."""
    if not mean:
        return rule_pair(ratio, target)
    if form == "requantized":
        return rule_pair(ratio / cells, target)
    multiplier, shift = rule_pair(ratio, target)
    places = min(int(math.log2(cells)), 32, 62 - shift)
    return multiplier * 2**places // cells, shift + places


def axes_of(node: Node) -> list[int]:
    """The axes that are reduced, counted from the end."""
    dims = rank(node.inputs[0])
    if dims is None:
        raise DifferenceError(f"the rank of what {node.name!r} reads is not known")
    if node.op == "GlobalAveragePool":
        return list(range(2 - dims, 0))
    tensor = input_at(node, 1)
    given = constant(tensor)
    if given is None and tensor is not None:
        raise DifferenceError(f"the axes of {node.name!r} vary")
    axes = list(node.attrs.get("axes", [])) if given is None else given.ravel().tolist()
    if not axes and node.attrs.get("noop_with_empty_axes", 0):
        raise DifferenceError(f"{node.name!r} reduces nothing")
    return sorted(axis % dims - dims for axis in axes or range(dims))


def _shortened(ratio: Fraction, mean: int, target: Target) -> tuple[int, int]:
    """The nearest of the target's width; of fewer bits for a fast body in double.

    Double is exact up to DOUBLE_MULTIPLIER and DOUBLE_SHIFTS, whatever is summed. It gets the
    most precise pair that stays below: a mean, of 255 steps at most, at the last shift at
    least, a sum only with all of these bits. Larger ratios than any pair has saturate.
    """
    bits, limit = target.multiplier_bits, DOUBLE_SHIFTS[mean]
    below = min(DOUBLE_MULTIPLIER, 1 << bits)
    if not target.fast_kernels or target.rounding != "half_to_even":
        return nearest(ratio, bits)
    if 4 * ratio >= below:
        return below // 2, 1
    pairs = ((round(ratio * 2**shift), shift) for shift in range(limit, 0, -1))
    multiplier, shift = next(pair for pair in pairs if pair[0] < below)
    is_enough = multiplier > 0 if mean else round(ratio * 2 ** (shift + 1)) >= below
    return (multiplier, shift) if is_enough else nearest(ratio, bits)
