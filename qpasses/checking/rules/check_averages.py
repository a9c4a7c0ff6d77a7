"""Sums and means: average pools of three kinds, and IntReduce."""

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from opsets.fixed_point import ROUNDINGS
from opsets.qpasses_v1.int_reduce import DOUBLE_MULTIPLIER, DOUBLE_SHIFTS
from opsets.realised import node_rounding
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
    node = site.first
    kernel = list(node.attrs["kernel_shape"])
    dims = len(kernel)
    geometry = {
        "dilations": list(node.attrs.get("dilations") or [1] * dims),
        "pads": list(node.attrs.get("pads") or [0] * (2 * dims)),
        "strides": list(node.attrs.get("strides") or [1] * dims),
    }
    if _windows_differ(node, geometry["pads"], geometry["strides"], geometry["dilations"]):
        raise DifferenceError(f"the windows of {node.name!r} differ in size")
    if site.settings.target.average_pool == "divided":
        raise DifferenceError("its target divides sums by their cells")
    yield from _pool(site, prod(kernel), {"kernel_shape": kernel, **geometry})


def int_counted_average_pool(site: Site) -> Iterator[str]:
    """AveragePool whose windows differ: padding is no cell, nor what ceil_mode adds."""
    site.is_op("AveragePool")
    node, clamps = site.first, clamps_behind(site)
    if node.attrs.get("auto_pad", "NOTSET") not in ("NOTSET", ""):
        raise DifferenceError(f"how {node.name!r} is padded is not known")
    kernel = list(node.attrs["kernel_shape"])
    dims = len(kernel)
    dilations = list(node.attrs.get("dilations") or [1] * dims)
    strides = list(node.attrs.get("strides") or [1] * dims)
    stated = list(node.attrs.get("pads") or [0] * (2 * dims))
    pads = list(stated)
    if node.attrs.get("ceil_mode", 0):
        for i in range(dims):
            reach = (kernel[i] - 1) * dilations[i]
            pads[dims + i] = min(pads[dims + i] + strides[i] - 1, reach)
    counted = stated if node.attrs.get("count_include_pad", 0) else [0] * (2 * dims)
    expected = {
        "channels": node.inputs[0].shape[1],
        "kernel_shape": kernel,
        "dilations": dilations,
        "strides": strides,
        "pads": pads,
        "uncounted_pads": [p - c for p, c in zip(pads, counted, strict=True)],
    }
    target = site.settings.target
    x, y = site.operand(site.inputs["x"], node.inputs[0]), site.y
    yield from check_record(site, {"x": [x.scale], "y": [y.scale]})
    if target.average_pool == "divided":
        if any(counted):
            raise DifferenceError("its target counts no padding")
        yield from _divided(site, clamps, x, expected)
        return
    if target.average_pool != "requantized" or not _is_usual(target):
        raise DifferenceError("its target has a multiplier for each size of a window")
    expected["rounding"] = target.rounding
    yield from unlike_attributes(site.node.attrs, expected)
    yield from unlike("x_zero", site.given["x_zero"], x.zero)
    yield from check_end(site, clamps)
    ratio = Fraction(x.scale) / Fraction(y.scale)
    yield from _numbers(site, nearest(ratio, target.multiplier_bits))


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
    """GlobalAveragePool over a size that is known."""
    site.is_op("GlobalAveragePool")
    spatial = spatial_shape(site.first.inputs[0])
    if spatial is None:
        raise DifferenceError(f"the size that {site.first.name!r} reduces is not known")
    yield from _pool(site, prod(spatial), {"spatial_shape": list(spatial)})


def _windows_differ(
    node: Node, pads: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> bool:
    if node.attrs.get("auto_pad", "NOTSET") not in ("NOTSET", ""):
        return True
    if any(pads) and not node.attrs.get("count_include_pad", 0):
        return True
    if not node.attrs.get("ceil_mode", 0):
        return False
    sizes, dims = spatial_shape(node.inputs[0]), len(strides)
    if sizes is None:
        return True
    reach = [
        (k - 1) * d + 1 for k, d in zip(node.attrs["kernel_shape"], dilations, strict=True)
    ]
    left = [sizes[i] + pads[i] + pads[i + dims] - reach[i] for i in range(dims)]
    return any(rest % stride for rest, stride in zip(left, strides, strict=True))


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
        rounding, places = "half_up", math.ceil(math.log2(cells))
        pair = (2**30 + 1) * 2**places // cells, 30 + places
        if x != site.y:
            yield "its input and output are stored in different ways"
    yield from unlike_attributes(site.node.attrs, {**expected, "rounding": rounding})
    yield from check_end(site, clamps)
    yield from check_record(site, {"x": [x.scale], "y": [site.y.scale]}, cells)
    if not reachable.fits_int32():
        raise DifferenceError("its accumulator can leave int32")
    yield from _numbers(site, _to_the_right(pair, rounding), (1,))


def sums_of(x: Quantization, cells: int) -> Interval:
    """What so many codes add up to, less the zero point."""
    low, high = (np.array([(end - x.zero_point) * cells], np.int64) for end in x.type_limits)
    return Interval(low, high)


def int_reduce(site: Site) -> Iterator[str]:
    """ReduceMean, ReduceSum, and GlobalAveragePool over a size that is free."""
    site.is_op("GlobalAveragePool", "ReduceMean", "ReduceSum")
    node, clamps = site.first, clamps_behind(site)
    x, y, target = site.operand(site.inputs["x"], node.inputs[0]), site.y, site.settings.target
    axes, mean = _axes(node), int(node.op != "ReduceSum")
    keepdims = 1 if node.op == "GlobalAveragePool" else int(node.attrs.get("keepdims", 1))
    expected = {"axes": axes, "keepdims": keepdims, "mean": mean}
    shape = site.pair.sizes.get(node.inputs[0].name) or node.inputs[0].shape
    sizes = [] if shape is None else [shape[axis] for axis in axes]
    if not sizes or not all(isinstance(size, int) for size in sizes):
        raise DifferenceError("how many numbers it adds is not known")
    cells = max(1, prod(sizes))
    yield from check_record(site, {"x": [x.scale], "y": [y.scale]}, cells)
    form = _form(node, target)
    if form == "divided":
        yield from _divided(site, clamps, x, expected)
        return
    yield from unlike("x_zero", site.given["x_zero"], x.zero)
    yield from check_end(site, clamps)
    if form == "requantized" and _is_usual(target):
        pair = _scaled(Fraction(x.scale) / Fraction(y.scale), mean, target)
    else:
        expected["mean"] = 2 * mean
        if mean and not all(isinstance(node.inputs[0].shape[axis], int) for axis in axes):
            raise DifferenceError("its target has a multiplier for each number of cells")
        pair = _to_the_right(
            _ruled(x.scale / y.scale, cells, mean, form, target), node_rounding(target)
        )
    expected["rounding"] = node_rounding(target)
    yield from unlike_attributes(site.node.attrs, expected)
    yield from _numbers(site, pair)


def _form(node: Node, target: Target) -> str:
    if node.op == "ReduceSum":
        return "requantized"
    return target.mean if node.op == "ReduceMean" else target.average_pool


def _ruled(ratio: float, cells: int, mean: int, form: str, target: Target) -> tuple[int, int]:
    """The pair of a sum, or of a mean that has 1 / cells in its multiplier."""
    if not mean:
        return rule_pair(ratio, target)
    if form == "requantized":
        return rule_pair(ratio / cells, target)
    multiplier, shift = rule_pair(ratio, target)
    places = min(int(math.log2(cells)), 32, 62 - shift)
    return multiplier * 2**places // cells, shift + places


def _axes(node: Node) -> list[int]:
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


def _scaled(ratio: Fraction, mean: int, target: Target) -> tuple[int, int]:
    """The nearest of the target's width; for the fast body of few bits and a small shift."""
    widest, limit = nearest(ratio, target.multiplier_bits), DOUBLE_SHIFTS[mean]
    if not target.fast_kernels or target.rounding != "half_to_even":
        return widest
    bits = DOUBLE_MULTIPLIER.bit_length() - 1
    multiplier, shift = nearest(ratio, min(bits, target.multiplier_bits))
    if mean and shift > limit:
        multiplier, shift = round(ratio * (1 << limit)), limit
    return (multiplier, shift) if multiplier and shift <= limit else widest
