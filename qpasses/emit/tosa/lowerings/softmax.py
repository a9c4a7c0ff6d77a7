"""Softmax by tables, on int32 alone: the level is searched bit by bit, by exact products."""

import numpy as np

from qpasses.emit.tosa.equal_rescales import UNCHANGED
from qpasses.emit.tosa.lowering import Lowering, RefusedError
from qpasses.emit.tosa.lowerings.tables import looked_up
from qpasses.emit.tosa.program import Value
from qpasses.ir.graph import Node

_LIMB = 20
"""Numbers of 40 bits are two of so many."""

_MASK = (1 << _LIMB) - 1


def table_softmax(to: Lowering, node: Node) -> None:
    """Exponentials by ``gather``, their sum, and the largest level k that is reached.

    k is if (2 k - 1) * total <= 2 * numerator; equal, a tie, counts as the rounding says.
    """
    given, x = to.constants(node), node.inputs[0]
    shape, stored, program = to.shape(x), to.laid(x), to.program
    rounding, number = node.attrs["rounding"], to.program.same_rank
    if node.attrs["published"] or rounding not in ("half_to_even", "half_up"):
        raise RefusedError("a Softmax of another form")
    axis = stored.order.index(int(node.attrs["axis"]) % len(shape))
    terms, shares = given["denominators"].astype(np.int64), given["numerators"]
    if int(terms.max()) * stored.value.shape[axis] >= 1 << 31 or terms.min() < 0:
        raise RefusedError("a sum of exponentials of more than 31 bits")
    top = program.cast(program.reduce("reduce_max", stored.value, axis), "i32")
    distance = program.elementwise("sub", top, program.cast(stored.value, "i32"))
    total = program.reduce("reduce_sum", looked_up(to, terms, distance), axis)
    total = program.elementwise("maximum", total, number(1, total))
    doubled = 2 * shares.astype(np.int64)
    if doubled.max() >> _LIMB >= 1 << 30:
        raise RefusedError("numerators of more than 50 bits")
    numerator = tuple(
        looked_up(to, limb, distance) for limb in (doubled >> _LIMB, doubled & _MASK)
    )
    divisor = (
        _shifted(to, total),
        program.elementwise("bitwise_and", total, number(_MASK, total)),
    )
    zero, high = int(given["y_zero"]), int(given["y_max"])
    level = number(0, distance)
    for bit in reversed(range((high - zero).bit_length())):
        tried = program.elementwise("add", level, number(1 << bit, distance))
        reached = _is_reached(to, tried, numerator, divisor, rounding)
        level = program.add("select", [reached, tried, level], distance.shape, "i32")
    to.write(node.outputs[0], to.ended(level, UNCHANGED, given), stored.order)


def _shifted(to: Lowering, x: Value) -> Value:
    number = to.program.same_rank(_LIMB, x)
    return to.program.elementwise("arithmetic_right_shift", x, number, round="false")


def _is_reached(
    to: Lowering,
    k: Value,
    numerator: tuple[Value, ...],
    divisor: tuple[Value, Value],
    rounding: str,
) -> Value:
    """Whether (2 k - 1) * divisor is less than the numerator, or equal and a tie counts."""
    program, number = to.program, to.program.same_rank
    doubled = program.elementwise("add", k, k)
    odd = program.elementwise("sub", doubled, number(1, doubled))
    low = program.multiply(odd, divisor[1])
    high = program.elementwise("add", program.multiply(odd, divisor[0]), _shifted(to, low))
    low = program.elementwise("bitwise_and", low, number(_MASK, low))
    if rounding == "half_up":
        below = program.elementwise("greater_equal", numerator[1], low)
    else:  # an even k takes its tie
        parity = program.elementwise("bitwise_and", k, number(1, k))
        least = program.elementwise("add", low, parity)
        below = program.elementwise("greater_equal", numerator[1], least)
    same = program.elementwise("equal", numerator[0], high)
    less = program.elementwise("greater", numerator[0], high)
    both = program.elementwise("logical_and", same, below)
    return program.elementwise("logical_or", less, both)


LOWERINGS = {"TableSoftmax": table_softmax}
