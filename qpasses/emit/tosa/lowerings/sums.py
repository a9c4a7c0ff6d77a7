"""Two tensors element by element: IntAdd, IntSub, IntMul, and sums of rescaled tensors."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpasses.emit.tosa.equal_rescales import (
    MOST_UNCHANGED,
    UNCHANGED,
    Pairs,
    UnequalError,
    check_bounds,
    same_ratios,
)
from qpasses.emit.tosa.lowering import Lowering, RefusedError, offset
from qpasses.emit.tosa.program import Value
from qpasses.evidence.thresholds import Interval, end_levels
from qpasses.ir.graph import Node, Tensor

Given = Mapping[str, NDArray[Any]]

_LOW_BITS = 12
"""Of a multiplier: what is below them is summed apart, so that all fits int32."""


def int_add(to: Lowering, node: Node) -> None:
    """Sums of products in two halves of int32, rounded once as the node says."""
    given = to.constants(node)
    _two_halves(to, node, given, 1)


def int_sub(to: Lowering, node: Node) -> None:
    """The same, the second operand negative."""
    given = to.constants(node)
    _two_halves(to, node, given, -1)


def operands(to: Lowering, node: Node) -> tuple[Tensor, Tensor]:
    """The two tensors of a node that declares zero points behind each."""
    return node.inputs[0], node.inputs[2]


def _two_halves(to: Lowering, node: Node, given: Given, sign: int) -> None:
    """total = high * 2**12 + low with 0 <= low < 2**12, which a right shift drops.

    A tie, which half to even may round down, is where low and the bits that the shift drops
    of high + half are zero.
    """
    program, (a, b) = to.program, operands(to, node)
    order = to.common_order([a, b])
    shift, rounding = int(given["shift"]) - _LOW_BITS, node.attrs["rounding"]
    multipliers = int(given["a_multiplier"]), sign * int(given["b_multiplier"])
    if shift < 1 or rounding not in ("half_up", "half_to_even"):
        raise RefusedError(f"a sum rounded {rounding} and shifted by {shift + _LOW_BITS}")
    sides = [
        to.levels(to.broadcast(tensor, order), int(given[name]) - offset(given[name].dtype))
        for tensor, name in ((a, "a_zero"), (b, "b_zero"))
    ]
    widest = sum(
        max(map(abs, end_levels(given[name]))) * ((abs(m) >> _LOW_BITS) + 1)
        for name, m in zip(("a_zero", "b_zero"), multipliers, strict=True)
    )
    widest += (1 << (shift - 1)) + 1024  # the carry is less
    if widest >= 1 << 31 or widest >> shift >= MOST_UNCHANGED:
        raise RefusedError("a sum of more than 43 bits")
    mask = (1 << _LOW_BITS) - 1
    low = _sum_of_products(to, sides, [m & mask for m in multipliers])
    high = _sum_of_products(to, sides, [m >> _LOW_BITS for m in multipliers])
    number = program.same_rank
    carry = _shifted(to, low, _LOW_BITS)
    high = program.elementwise("add", high, carry)
    half = number(1 << (shift - 1), high)
    lifted = program.elementwise("add", high, half)
    level = _shifted(to, lifted, shift)
    if rounding == "half_to_even":
        dropped = program.elementwise("bitwise_and", lifted, number((1 << shift) - 1, high))
        below = program.elementwise("bitwise_and", low, number(mask, low))
        rest = program.elementwise("bitwise_or", dropped, below)
        is_tie = program.elementwise("equal", rest, number(0, rest))
        level = to.one_less_if_odd(level, is_tie)
    to.write(node.outputs[0], to.ended(level, UNCHANGED, given), order)


def _sum_of_products(to: Lowering, sides: list[Value], factors: list[int]) -> Value:
    products = [
        to.program.multiply(side, to.program.same_rank(factor, side))
        for side, factor in zip(sides, factors, strict=True)
    ]
    return to.program.elementwise("add", *products)


def _shifted(to: Lowering, x: Value, by: int) -> Value:
    """x / 2**by, rounded down."""
    number = to.program.same_rank(by, x)
    return to.program.elementwise("arithmetic_right_shift", x, number, round="false")


def int_mul(to: Lowering, node: Node) -> None:
    """Products of levels, RESCALE."""
    given, (a, b) = to.constants(node), operands(to, node)
    order = to.common_order([a, b])
    corners = [m * n for m in end_levels(given["a_zero"]) for n in end_levels(given["b_zero"])]
    ends = (np.array([end], np.int64) for end in (min(corners), max(corners)))
    sides = [
        to.levels(to.broadcast(tensor, order), int(given[name]) - offset(given[name].dtype))
        for tensor, name in ((a, "a_zero"), (b, "b_zero"))
    ]
    product = to.program.multiply(*sides)
    to.write(node.outputs[0], to.requantized(product, node, Interval(*ends)), order)


def int_rescale(to: Lowering, node: Node) -> None:
    """Levels as int32, RESCALE."""
    given, x = to.constants(node), node.inputs[0]
    stored_x = to.laid(x)
    zero = given["x_zero"]
    ends = (np.array([end], np.int64) for end in end_levels(zero))
    level = to.levels(stored_x.value, int(zero) - offset(zero.dtype))
    to.write(node.outputs[0], to.requantized(level, node, Interval(*ends)), stored_x.order)


def int_rescaled_add(to: Lowering, node: Node) -> None:
    """Each side rescaled to int32, their sum rescaled to codes, as MLIR legalizes it."""
    _of_rescaled(to, node, "add")


def int_rescaled_sub(to: Lowering, node: Node) -> None:
    """The same of a difference."""
    _of_rescaled(to, node, "sub")


def _of_rescaled(to: Lowering, node: Node, op: str) -> None:
    given, tensors = to.constants(node), operands(to, node)
    order, sides, most = to.common_order(tensors), list[Value](), 0
    if node.attrs["rounding"] != "half_up":
        raise RefusedError(f"a sum of terms rounded {node.attrs['rounding']}")
    left = int(given["left_shift"])
    for name, tensor in zip("ab", tensors, strict=True):
        zero = given[f"{name}_zero"]
        level = to.levels(to.broadcast(tensor, order), int(zero) - offset(zero.dtype))
        lifted = to.program.multiply(level, to.program.same_rank(1 << left, level))
        widest = max(map(abs, end_levels(zero))) << left
        pairs = _pairs(given, name, widest)
        sides.append(to.program.rescale(lifted, "i32", pairs))
        most += (widest * int(pairs[0][0]) >> int(pairs[1][0])) + 1
    total = to.program.elementwise(op, *sides)
    to.write(node.outputs[0], to.ended(total, _pairs(given, "y", most), given), order)


def _pairs(given: Given, name: str, widest: int) -> Pairs:
    """What an operand is rescaled by, which reaches so far on either side."""
    own = {each: given[f"{name}_{each}"] for each in ("multiplier", "shift")}
    ends = np.array([-widest], np.int64), np.array([widest], np.int64)
    try:
        pairs = same_ratios(own)
        check_bounds(pairs[1], Interval(*ends))
    except UnequalError as error:
        raise RefusedError(str(error)) from error
    return pairs


LOWERINGS = {
    "IntAdd": int_add,
    "IntRescaledAdd": int_rescaled_add,
    "IntRescaledSub": int_rescaled_sub,
    "IntMul": int_mul,
    "IntRescale": int_rescale,
    "IntSub": int_sub,
}
