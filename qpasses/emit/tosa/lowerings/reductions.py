"""Sums and means along axes, resizes: reduce_sum, and gather with coefficients."""

from fractions import Fraction
from math import prod

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64
from opsets.qpasses_v1.int_reduce import DIVIDES
from qpasses.emit.layouts import without
from qpasses.emit.operations import RefusedError, Value
from qpasses.emit.tosa.equal_rescales import (
    UNCHANGED,
    Pairs,
    UnequalError,
    equal_rescale,
    same_ratios,
)
from qpasses.emit.tosa.lowering import Lowering, offset
from qpasses.emit.tosa.lowerings.places import taken
from qpasses.emit.tosa.quotients import level_of
from qpasses.emit.tosa.wide import Wide
from qpasses.evidence.thresholds import Interval, end_levels, levels
from qpasses.ir.graph import Node


def int_reduce(to: Lowering, node: Node) -> None:
    """Levels summed along each axis, then RESCALE; of a mean by its number of cells."""
    given, x = to.constants(node), node.inputs[0]
    shape, stored = to.shape(x), to.laid(x)
    zero = given["x_zero"]
    acc = to.levels(stored.value, int(zero) - offset(zero.dtype))
    axes = {int(axis) % len(shape) for axis in node.attrs["axes"]}
    for axis in sorted(axes):
        acc = to.program.reduce("reduce_sum", acc, stored.order.index(axis))
    cells = prod(shape[axis] for axis in axes)
    low, high = (np.array([end * cells], np.int64) for end in end_levels(zero))
    if node.attrs["mean"] == DIVIDES:
        codes = _divided(to, node, acc, Interval(low, high), cells)
    else:
        codes = to.requantized(acc, node, Interval(low, high))
    if node.attrs["keepdims"]:
        to.write(node.outputs[0], codes, stored.order)
        return
    kept = [
        size for size, axis in zip(codes.shape, stored.order, strict=True) if axis not in axes
    ]
    order = without(stored.order, axes)
    to.write(node.outputs[0], to.program.reshape(codes, kept), order)


def _divided(to: Lowering, node: Node, acc: Value, reachable: Interval, cells: int) -> Value:
    """RESCALE by the multiplier over the cells, if it steps where the quotient does."""
    given, rounding = to.constants(node), node.attrs["rounding"]
    zero, low, high = (int(given[name]) for name in ("y_zero", "y_min", "y_max"))
    steps, factor = levels(zero, low, high), int(given["multiplier"])
    divisor = cells << int(given["shift"])
    if not reachable.fits_int32():
        raise UnequalError("its sums are beyond int32")
    pairs = _equal_pairs(Fraction(factor, divisor), steps, reachable, rounding)
    if pairs is not None:
        return to.ended(acc, pairs, given)
    dividend = Wide.of(to.program, acc, int(reachable.low[0]), int(reachable.high[0]))
    dividend = dividend.times(factor)
    ends = low - zero, high - zero
    level = level_of(dividend, dividend.number(divisor), ends, rounding)
    return to.ended(level, UNCHANGED, given)


def _equal_pairs(
    scale: Fraction, steps: Int64, reachable: Interval, rounding: str
) -> Pairs | None:
    """Of a RESCALE that steps where the quotient does, if there is one."""
    if scale == 0:
        return None
    shift = 62
    while scale * (1 << shift) >= 1 << 31:
        shift -= 1
    start = {"multiplier": np.array(round(scale * (1 << shift))), "shift": np.array(shift)}
    wanted = np.array([[_threshold(scale, int(k), rounding) for k in steps]], np.int64)
    try:
        return equal_rescale(same_ratios(start), steps, reachable, wanted)
    except UnequalError:
        return None


def _threshold(scale: Fraction, step: int, rounding: str) -> int:
    """The smallest integer whose product with ``scale`` rounds to ``step`` or more."""
    tie = (Fraction(step) - Fraction(1, 2)) / scale
    least = -(-tie.numerator // tie.denominator)
    counts = rounding == "half_up" or (
        step % 2 == 0 if rounding == "half_to_even" else step > 0
    )
    return least + int(least == tie and not counts)


def int_resize(to: Lowering, node: Node) -> None:
    """Two elements along each axis, times their coefficients, and RESCALE."""
    given, x = to.constants(node), node.inputs[0]
    shape, stored = to.shape(x), to.laid(x)
    dims, sizes = int(node.attrs["dims"]), list(node.attrs["y_sizes"])
    zero = given["x_zero"]
    acc = to.levels(stored.value, int(zero) - offset(zero.dtype))
    ends, weight = np.cumsum(sizes)[:-1], 1
    tables = (np.split(given[n], ends, axis=1) for n in ("indices", "coefficients"))
    for axis, (index, factors) in enumerate(zip(*tables, strict=True)):
        place = len(shape) - 3 + axis
        weight *= int(np.abs(factors).sum(axis=0).max())
        if axis < 3 - dims:
            if (factors.sum(axis=0) != 1).any():
                raise RefusedError("a Resize with coefficients of an axis it has not")
            continue
        acc = _mixed(to, acc, stored.order.index(place), index, factors)
    low, high = (np.array([end * weight], np.int64) for end in end_levels(zero))
    codes = to.requantized(acc, node, Interval(low, high))
    to.write(node.outputs[0], codes, stored.order)


def _mixed(
    to: Lowering, x: Value, place: int, index: NDArray[np.int32], factors: NDArray[np.int32]
) -> Value:
    """``x`` [.., K, ..] int32 -> [.., W, ..]: at two places of each, times their factors."""
    parts = []
    for places, each in zip(index, factors, strict=True):
        shape = [each.size if k == place else 1 for k in range(len(x.shape))]
        column = to.program.constant(each.reshape(shape), "int32")
        parts.append(to.program.multiply(taken(to, x, place, places), column))
    return to.program.elementwise("add", *parts)


LOWERINGS = {"IntReduce": int_reduce, "IntResize": int_resize}
