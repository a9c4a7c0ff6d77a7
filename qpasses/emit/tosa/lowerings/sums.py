"""Two tensors element by element: IntAdd, IntSub, IntMul, and sums of rescaled tensors."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpasses.emit.layouts import Order
from qpasses.emit.tosa.equal_rescales import UNCHANGED
from qpasses.emit.tosa.lowering import Lowering, offset
from qpasses.emit.tosa.rescales import fitting_pairs, rescaled, scaled_term
from qpasses.emit.tosa.wide import Wide
from qpasses.evidence.thresholds import Interval, end_levels
from qpasses.ir.graph import Node, Tensor

Given = Mapping[str, NDArray[Any]]


def int_add(to: Lowering, node: Node) -> None:
    """Products of levels and multipliers, exact, summed and rounded once."""
    _of_products(to, node, 1)


def int_sub(to: Lowering, node: Node) -> None:
    """The same, the second operand negative."""
    _of_products(to, node, -1)


def operands(to: Lowering, node: Node) -> tuple[Tensor, Tensor]:
    """The two tensors of a node that declares zero points behind each."""
    return node.inputs[0], node.inputs[2]


def _of_products(to: Lowering, node: Node, sign: int) -> None:
    given, tensors = to.constants(node), operands(to, node)
    order, sides = to.common_order(tensors), list[Wide]()
    for name, tensor, factor in zip("ab", tensors, (1, sign), strict=True):
        level = _level(to, tensor, given[f"{name}_zero"], order)
        sides.append(level.times(factor * int(given[f"{name}_multiplier"])))
    total = (sides[0] + sides[1]).rounded(int(given["shift"]), node.attrs["rounding"])
    to.write(node.outputs[0], to.ended(total.saturated(), UNCHANGED, given), order)


def _level(to: Lowering, tensor: Tensor, zero: NDArray[Any], order: Order) -> Wide:
    """Codes less their zero point."""
    level = to.levels(to.broadcast(tensor, order), int(zero) - offset(zero.dtype))
    return Wide.of(to.program, level, *end_levels(zero))


def int_mul(to: Lowering, node: Node) -> None:
    """Products of levels, RESCALE."""
    given, (a, b) = to.constants(node), operands(to, node)
    order = to.common_order([a, b])
    sides = [
        _level(to, each, given[name], order) for each, name in ((a, "a_zero"), (b, "b_zero"))
    ]
    left, right = (each.int32() for each in sides)
    product = to.program.multiply(left, right)  # 2**30 at most
    corners = [
        x * y for x in (sides[0].low, sides[0].high) for y in (sides[1].low, sides[1].high)
    ]
    ends = (np.array([end], np.int64) for end in (min(corners), max(corners)))
    to.write(node.outputs[0], to.requantized(product, node, Interval(*ends)), order)


def int_rescale(to: Lowering, node: Node) -> None:
    """Levels as int32, RESCALE."""
    given, x = to.constants(node), node.inputs[0]
    stored_x = to.laid(x)
    zero = given["x_zero"]
    ends = (np.array([end], np.int64) for end in end_levels(zero))
    level = to.levels(stored_x.value, int(zero) - offset(zero.dtype))
    to.write(node.outputs[0], to.requantized(level, node, Interval(*ends)), stored_x.order)


def requantize(to: Lowering, node: Node) -> None:
    """Sums that are stored, RESCALE."""
    laid = to.laid(node.inputs[0])
    axis, limits = int(node.attrs["axis"]) % len(laid.order), np.iinfo(np.int32)
    last = (*(k for k in range(len(laid.order)) if k != axis), axis)
    ends = np.array([limits.min], np.int64), np.array([limits.max], np.int64)
    codes = to.requantized(to.read(node.inputs[0], last), node, Interval(*ends))
    to.write(node.outputs[0], codes, last)


def int_rescaled_add(to: Lowering, node: Node) -> None:
    """Each side rescaled to int32, their sum rescaled to codes, as MLIR legalizes it."""
    _of_rescaled(to, node, 1)


def int_rescaled_sub(to: Lowering, node: Node) -> None:
    """The same of a difference."""
    _of_rescaled(to, node, -1)


def _of_rescaled(to: Lowering, node: Node, sign: int) -> None:
    given, tensors = to.constants(node), operands(to, node)
    order, sides, rounding = to.common_order(tensors), list[Wide](), node.attrs["rounding"]
    for name, tensor in zip("ab", tensors, strict=True):
        level = _level(to, tensor, given[f"{name}_zero"], order)
        lifted = _lifted(level, int(given["left_shift"]))
        sides.append(scaled_term(lifted, *_scale(given, name), rounding))
    total = sides[0] + sides[1] if sign > 0 else sides[0] - sides[1]
    pairs = fitting_pairs(total, *_scale(given, "y"), rounding)
    if pairs is None:
        level = rescaled(total, *_scale(given, "y"), rounding)
        codes = to.ended(level.saturated(), UNCHANGED, given)
    else:
        codes = to.ended(total.int32(), pairs, given)
    to.write(node.outputs[0], codes, order)


def _lifted(level: Wide, bits: int) -> Wide:
    """Levels times ``2**bits``; those that just fit int32 are shifted."""
    low, high = (end << bits for end in (level.low, level.high))
    if bits and len(level.columns) == 1 and low >= -(1 << 31) and high < 1 << 31:
        return Wide.of(level.program, level.program.left_shift(level.some, bits), low, high)
    return level.times(1 << bits)


def _scale(given: Given, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    return given[f"{name}_multiplier"], given[f"{name}_shift"]


LOWERINGS = {
    "IntAdd": int_add,
    "IntRescaledAdd": int_rescaled_add,
    "IntRescaledSub": int_rescaled_sub,
    "IntMul": int_mul,
    "IntRescale": int_rescale,
    "IntSub": int_sub,
    "Requantize": requantize,
}
