"""Averages: avg_pool2d where that rounds alike, else sums of windows and RESCALE."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.convolution import convolve
from opsets.fixed_point import Int64
from opsets.forms import reciprocal_scale
from qpasses.emit import mlir
from qpasses.emit.layouts import channels_last
from qpasses.emit.operations import WIDE, RefusedError, Value
from qpasses.emit.tosa.equal_rescales import (
    UNCHANGED,
    UNCHANGED_WIDE,
    Pairs,
    UnequalError,
    equal_rescale,
    same_ratios,
)
from qpasses.emit.tosa.lowering import Lowering, offset
from qpasses.emit.tosa.lowerings.places import taken
from qpasses.emit.tosa.lowerings.products import convolved, exact, geometry_of
from qpasses.emit.tosa.quotients import level_of
from qpasses.emit.tosa.wide import Wide
from qpasses.evidence.prove import accumulator_interval
from qpasses.evidence.prove_reductions import reduced_thresholds, sums
from qpasses.evidence.thresholds import Interval, levels, meaning_thresholds
from qpasses.ir.graph import Node

_Given = Mapping[str, NDArray[Any]]
_Ends = list[tuple[int, int]]


@dataclass(frozen=True)
class _Windows:
    """Windows over two axes of a picture, channels last.

    ``counted`` are the ends along each axis that are cells, zeros, and ``uncounted`` those
    farther outside that are none.
    """

    kernel: list[int]
    strides: list[int]
    gaps: list[int]
    counted: _Ends
    uncounted: _Ends

    @property
    def pads(self) -> _Ends:
        """All ends."""
        both = zip(self.counted, self.uncounted, strict=True)
        return [(a[0] + b[0], a[1] + b[1]) for a, b in both]

    def cells(self, sizes: Sequence[int]) -> Int64:
        """How many each window holds [rows, columns], 1 at least."""
        rows, columns = (self._along(axis, size) for axis, size in enumerate(sizes))
        return np.asarray(np.maximum(rows[:, None] * columns, 1), np.int64)

    def _along(self, axis: int, size: int) -> Int64:
        lengths = size + sum(self.counted[axis]), self.kernel[axis]
        there, window = (np.ones((1, 1, each), np.int64) for each in lengths)
        steps, gaps = [self.strides[axis]], [self.gaps[axis]]
        pads = self.uncounted[axis]
        found = convolve(there, window, 1, strides=steps, dilations=gaps, pads=pads)
        return np.asarray(found[0, 0], np.int64)


def _pictures(to: Lowering, node: Node) -> tuple[Value, _Windows]:
    """What an average reads, a row as a picture of one line."""
    rank = len(to.shape(node.inputs[0]))
    if rank not in (3, 4):
        raise RefusedError("an average over three dimensions")
    value = to.read(node.inputs[0], channels_last(rank))
    kernel = list(node.attrs.get("kernel_shape") or value.shape[1:-1])
    pads, strides, gaps = geometry_of(node, value.shape[1:-1], kernel)
    flat = node.attrs.get("uncounted_pads") or [0] * 2 * len(kernel)
    outside = list(zip(flat[: len(kernel)], flat[len(kernel) :], strict=True))
    inside = [(a[0] - b[0], a[1] - b[1]) for a, b in zip(pads, outside, strict=True)]
    if rank == 3:
        value = to.program.reshape(value, (value.shape[0], 1, *value.shape[1:]))
        kernel, strides, gaps = [1, *kernel], [1, *strides], [1, *gaps]
        inside, outside = [(0, 0), *inside], [(0, 0), *outside]
    return value, _Windows(kernel, strides, gaps, inside, outside)


def int_average_pool(to: Lowering, node: Node) -> None:
    """avg_pool2d, else a depthwise convolution of ones, then RESCALE."""
    given = to.constants(node)
    if len(to.shape(node.inputs[0])) == 5:
        acc, reachable = _summed_deep(to, node), accumulator_interval(node, given)
        to.write(node.outputs[0], to.requantized(acc, node, reachable), channels_last(5))
        return
    value, windows = _pictures(to, node)
    codes = _avg_pool2d(to, node, value, windows)
    if codes is None:
        acc = _summed(to, given, value, windows)
        codes = to.requantized(acc, node, accumulator_interval(node, given))
    _write(to, node, codes)


def int_counted_average_pool(to: Lowering, node: Node) -> None:
    """avg_pool2d, else a depthwise convolution of ones, then a RESCALE for each position."""
    given = to.constants(node)
    value, windows = _pictures(to, node)
    codes = _avg_pool2d(to, node, value, windows)
    if codes is not None:
        _write(to, node, codes)
        return
    acc, cells = _summed(to, given, value, windows), windows.cells(value.shape[1:-1])
    if acc.element == WIDE:  # int32 holds what the node adds
        acc = to.program.rescale(acc, "i32", UNCHANGED_WIDE)
    if (cells == cells[0, 0]).all():
        _write(to, node, _divided(to, node, acc, cells[:1, 0]))
        return
    batch, rows, columns, channels = acc.shape
    apart = to.program.transpose(acc, (0, 3, 1, 2))
    apart = to.program.reshape(apart, (batch, channels, rows * columns))
    codes = _divided(to, node, apart, cells.reshape(-1))
    sizes = (rows, columns) if len(to.shape(node.inputs[0])) == 4 else (columns,)
    to.write(node.outputs[0], to.program.reshape(codes, (batch, channels, *sizes)))


def int_global_average_pool(to: Lowering, node: Node) -> None:
    """avg_pool2d, else levels summed by reduce_sum along each spatial axis, then RESCALE."""
    given, x = to.constants(node), node.inputs[0]
    rank = len(to.shape(x))
    codes = _avg_pool2d(to, node, *_pictures(to, node)) if rank < 5 else None
    if codes is not None:
        _write(to, node, codes)
        return
    zero = int(given["x_zero"]) - offset(given["x_zero"].dtype)
    acc = to.levels(to.read(x, channels_last(rank)), zero)
    for axis in range(1, rank - 1):
        acc = to.program.reduce("reduce_sum", acc, axis)
    codes = to.requantized(acc, node, accumulator_interval(node, given))
    to.write(node.outputs[0], codes, channels_last(rank))


def _write(to: Lowering, node: Node, codes: Value) -> None:
    rank = len(to.shape(node.inputs[0]))
    if rank == 3:
        codes = to.program.reshape(codes, (codes.shape[0], *codes.shape[2:]))
    to.write(node.outputs[0], codes, channels_last(rank))


def _summed(to: Lowering, given: _Given, value: Value, windows: _Windows) -> Value:
    """int32 sums of levels in each window.

    Where a window may lie before the picture, all may: then padding is made part of it.
    """
    channels, geometry = value.shape[-1], (windows.strides, windows.gaps)
    zero, pads = int(given["x_zero"]) - offset(given["x_zero"].dtype), windows.pads
    reach = [(k - 1) * gap + 1 for k, gap in zip(windows.kernel, windows.gaps, strict=True)]
    if any(ends[0] >= each for ends, each in zip(pads, reach, strict=True)):
        value = to.program.pad(value, [(0, 0), *pads, (0, 0)], zero)
        pads = [(0, 0)] * len(pads)
    value, pads = exact(to, value, windows.kernel, pads, *geometry)
    ones = np.ones((channels, 1, *windows.kernel), np.int8)
    bias = np.zeros(channels, np.int32)
    (acc,) = convolved(to, value, ones, bias, (zero, 0), (pads, *geometry), channels)
    return acc


def _summed_deep(to: Lowering, node: Node) -> Value:
    """int32 sums of levels over three axes: of pictures, then of what lies along the first."""
    given, value = to.constants(node), to.read(node.inputs[0], channels_last(5))
    batch, depth, *picture, channels = value.shape
    pads, strides, gaps = geometry_of(node, value.shape[1:-1], node.attrs["kernel_shape"])
    kernel = list(node.attrs["kernel_shape"])
    flat = to.program.reshape(value, (batch * depth, *picture, channels))
    windows = _Windows(kernel[1:], strides[1:], gaps[1:], pads[1:], [(0, 0)] * 2)
    acc = _summed(to, given, flat, windows)
    acc = to.program.reshape(acc, (batch, depth, *acc.shape[1:]))
    acc = to.program.pad(acc, [(0, 0), pads[0], *[(0, 0)] * 3], 0)
    count = (acc.shape[1] - (kernel[0] - 1) * gaps[0] - 1) // strides[0] + 1
    starts = np.arange(count, dtype=np.int32) * strides[0]
    parts = [taken(to, acc, 1, starts + tap * gaps[0]) for tap in range(kernel[0])]
    return reduce(partial(to.program.elementwise, "add"), parts)


def _avg_pool2d(to: Lowering, node: Node, value: Value, windows: _Windows) -> Value | None:
    """AVG_POOL2D of codes, if its reciprocals give what the node does, else None.

    It divides by the cells that are no padding, so padding that counts is put on before.
    """
    given, kernel, strides = to.constants(node), windows.kernel, windows.strides
    if given["x_zero"].dtype != given["y_zero"].dtype or value.element == "i32":
        return None
    ends = zip(windows.uncounted, kernel, strict=True)
    if max(windows.gaps) > 1 or any(max(each) >= k for each, k in ends):
        return None
    most = to.program.largest_kernel
    if most is not None and max(*kernel, *strides) > most:
        return None
    cells = np.unique(windows.cells(value.shape[1:-1]))
    if not all(_is_reciprocal(node, given, int(each)) for each in cells):
        return None
    x_zero, y_zero = (
        int(given[name]) - offset(given[name].dtype) for name in ("x_zero", "y_zero")
    )
    value = to.program.pad(value, [(0, 0), *windows.counted, (0, 0)], x_zero)
    value, pads = exact(to, value, kernel, windows.uncounted, strides, windows.gaps)
    around = zip(value.shape[1:-1], pads, kernel, strides, strict=True)
    shape = [(size + sum(each) - k) // stride + 1 for size, each, k, stride in around]
    zeros = [to.program.zero_point(zero, value.element) for zero in (x_zero, y_zero)]
    element = value.element
    codes = to.program.add(
        *("avg_pool2d", [value, *zeros], (value.shape[0], *shape, value.shape[-1]), element),
        kernel=mlir.integers(kernel),
        stride=mlir.integers(strides),
        pad=mlir.integers([end for each in pads for end in each]),
        acc_type="i32",
    )
    low, high = (int(given[name]) - offset(given[name].dtype) for name in ("y_min", "y_max"))
    return to.program.clamp(codes, low, high)


def _is_reciprocal(node: Node, given: _Given, cells: int) -> bool:
    """Whether each sum of so many cells becomes what TOSA's reciprocal of them makes of it."""
    steps = levels(*(int(given[name]) for name in ("y_zero", "y_min", "y_max")))
    reachable = _reached(given, cells)
    multiplier, shift = (np.array([each], np.int64) for each in reciprocal_scale(cells))
    theirs = meaning_thresholds(multiplier, shift, steps, "half_up")
    if node.op == "IntCountedAveragePool":
        ours = reduced_thresholds(given, cells, node.attrs["rounding"])
    else:
        own = [given[n].reshape(-1).astype(np.int64) for n in ("multiplier", "shift")]
        if reachable.wraps(own[1], node.attrs["rounding"]):
            return False
        ours = meaning_thresholds(own[0], own[1], steps, node.attrs["rounding"])
    return bool((reachable.clip(ours) == reachable.clip(theirs)).all())


def _reached(given: _Given, cells: int) -> Interval:
    """What so many codes add up to."""
    return sums(cells, int(given["x_zero"]), given["x_zero"].dtype.name)


def _divided(to: Lowering, node: Node, acc: Value, cells: Int64) -> Value:
    """Codes of sums over ``cells``, one number or one for each place along the last axis."""
    given, rounding = to.constants(node), node.attrs["rounding"]
    steps = levels(*(int(given[name]) for name in ("y_zero", "y_min", "y_max")))
    each, places = np.unique(cells, return_inverse=True)
    found = []
    try:
        for count in each.tolist():
            reachable, scale = _reached(given, count), _scale(given, count)
            wanted = reduced_thresholds(given, count, rounding)
            found.append(equal_rescale(_nearest(scale), steps, reachable, wanted))
    except UnequalError:
        return _quotients(to, node, acc, cells)
    return to.ended(acc, _placed(found, places), given)


def _quotients(to: Lowering, node: Node, acc: Value, cells: Int64) -> Value:
    """The same where no RESCALE rounds ties as the node does: the level is searched."""
    given, reachable = to.constants(node), _reached(to.constants(node), int(cells.max()))
    zero, low, high = (int(given[name]) for name in ("y_zero", "y_min", "y_max"))
    ends = int(reachable.low[0]), int(reachable.high[0])
    dividend = Wide.of(to.program, acc, *ends).times(int(given["multiplier"]))
    column = cells.reshape(*[1] * (len(acc.shape) - 1), -1).astype(object)
    divisor = Wide.constant(to.program, column << int(given["shift"]))
    ends = low - zero, high - zero
    return to.ended(
        level_of(dividend, divisor, ends, node.attrs["rounding"]), UNCHANGED, given
    )


def _scale(given: _Given, cells: int) -> Fraction:
    return Fraction(int(given["multiplier"]), cells << int(given["shift"]))


def _nearest(scale: Fraction) -> Pairs:
    """The multiplier and shift of RESCALE that are nearest. Raises UnequalError."""
    shift = 62
    while scale * (1 << shift) >= 1 << 31:
        shift -= 1
    numbers = {"multiplier": round(scale * (1 << shift)), "shift": shift}
    return same_ratios({name: np.array(value) for name, value in numbers.items()})


def _placed(pairs: list[Pairs], places: NDArray[np.intp]) -> Pairs:
    """Pairs of each number of cells at the places that have so many."""
    multiplier, shift = (np.concatenate(each) for each in zip(*pairs, strict=True))
    return multiplier[places], shift[places]


LOWERINGS = {
    "IntAveragePool": int_average_pool,
    "IntCountedAveragePool": int_counted_average_pool,
    "IntGlobalAveragePool": int_global_average_pool,
}
