"""Sums and means: average pools of three kinds, and IntReduce."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from opsets.qpasses_v1.int_reduce import DOUBLE_MULTIPLIER, DOUBLE_SHIFTS
from opsets.realised import quotient_rounding
from qpasses.checking.arithmetic import nearest
from qpasses.checking.clamps import check_end, clamps_behind
from qpasses.checking.meaning import DifferenceError, Site, unlike, unlike_attributes
from qpasses.checking.products import check_record, check_requantized
from qpasses.evidence.thresholds import Interval
from qpasses.graph import Node, constant, input_at, rank, spatial_shape
from qpasses.record import Quantization


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
        "rounding": quotient_rounding(site.settings.target),
    }
    yield from unlike_attributes(site.node.attrs, expected)
    x, y = site.operand(site.inputs["x"], node.inputs[0]), site.y
    yield from unlike("x_zero", site.given["x_zero"], x.zero)
    yield from check_end(site, clamps)
    yield from check_record(site, {"x": [x.scale], "y": [y.scale]})
    ratio = Fraction(x.scale) / Fraction(y.scale)
    numbers = nearest(ratio, site.settings.target.multiplier_bits)
    for name, value in zip(("multiplier", "shift"), numbers, strict=True):
        yield from unlike(name, site.given[name], np.array(value, np.int32))


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
    x = site.operand(site.inputs["x"], site.first.inputs[0])
    yield from unlike("x_zero", site.given["x_zero"], x.zero)
    channels = site.first.inputs[0].shape[1]
    yield from check_requantized(
        site,
        clamps_behind(site),
        {"channels": channels, **attributes},
        {"x": [x.scale]},
        sums_of(x, cells),
        cells,
    )


def sums_of(x: Quantization, cells: int) -> Interval:
    """What so many codes add up to, less the zero point."""
    low, high = (np.array([(end - x.zero_point) * cells], np.int64) for end in x.type_limits)
    return Interval(low, high)


def int_reduce(site: Site) -> Iterator[str]:
    """ReduceMean, ReduceSum, and GlobalAveragePool over a size that is free."""
    site.is_op("GlobalAveragePool", "ReduceMean", "ReduceSum")
    node, clamps = site.first, clamps_behind(site)
    x, y = site.operand(site.inputs["x"], node.inputs[0]), site.y
    yield from unlike("x_zero", site.given["x_zero"], x.zero)
    yield from check_end(site, clamps)
    axes, mean = _axes(node), int(node.op != "ReduceSum")
    keepdims = 1 if node.op == "GlobalAveragePool" else int(node.attrs.get("keepdims", 1))
    expected = {
        "axes": axes,
        "keepdims": keepdims,
        "mean": mean,
        "rounding": quotient_rounding(site.settings.target),
    }
    yield from unlike_attributes(site.node.attrs, expected)
    shape = site.pair.sizes.get(node.inputs[0].name)
    if shape is None:
        raise DifferenceError("how many numbers it adds is not known")
    cells = max(1, prod(shape[axis] for axis in axes))
    yield from check_record(site, {"x": [x.scale], "y": [y.scale]}, cells)
    multiplier, shift = _scaled(Fraction(x.scale) / Fraction(y.scale), mean, site)
    for name, value in (("multiplier", multiplier), ("shift", shift)):
        yield from unlike(name, site.given[name], np.array(value, np.int32))


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


def _scaled(ratio: Fraction, mean: int, site: Site) -> tuple[int, int]:
    """The nearest of the target's width; for the fast body of few bits and a small shift."""
    settings, target = site.settings, site.settings.target
    widest, limit = nearest(ratio, target.multiplier_bits), DOUBLE_SHIFTS[mean]
    fast = target.fast_kernels and settings.bodies == "onnxruntime"
    if not fast or target.rounding != "half_to_even":
        return widest
    bits = DOUBLE_MULTIPLIER.bit_length() - 1
    multiplier, shift = nearest(ratio, min(bits, target.multiplier_bits))
    if mean and shift > limit:
        multiplier, shift = round(ratio * (1 << limit)), limit
    return (multiplier, shift) if multiplier and shift <= limit else widest
