"""GemmlowpSoftmax: MUL with a shift of 31 is the doubled high half that gemmlowp rounds."""

from opsets.fixed_point import rounding_shift
from opsets.gemmlowp import (
    LARGEST_SUM,
    NEWTON_STEPS,
    ONE,
    ONE_OF_2,
    ONE_OF_SUM,
    POWERS_OF_SUMS,
    SLOPE,
    START,
    SUM_BITS,
)
from opsets.qpasses_v1.gemmlowp_softmax import OUTPUT_BITS
from qpasses.emit.operations import Operations, RefusedError, Value
from qpasses.emit.tosa.equal_rescales import UNCHANGED
from qpasses.emit.tosa.lowering import Lowering
from qpasses.emit.tosa.lowerings.tables import looked_up
from qpasses.ir.graph import Node


def gemmlowp_softmax(to: Lowering, node: Node) -> None:
    """Each exponential times a reciprocal of their sum, by Newton's steps in int32."""
    given, program, laid = to.constants(node), to.program, to.laid(node.inputs[0])
    axis = laid.order.index(int(node.attrs["axis"]) % len(laid.order))
    top = program.cast(program.reduce("reduce_max", laid.value, axis), "i32")
    distance = program.elementwise("sub", top, program.cast(laid.value, "i32"))
    entries = given["exponentials"].astype("int64")
    shorts = looked_up(to, rounding_shift(entries, SUM_BITS, "half_away"), distance)
    sums = shorts.total(axis)
    if sums.high > LARGEST_SUM:
        raise RefusedError("a sum of exponentials that can reach 512")
    number = program.same_rank
    total = program.elementwise("maximum", sums.int32(), number(ONE_OF_SUM, distance))
    share, places = _reciprocal(program, total)
    wanted = _high(program, share, looked_up(to, entries, distance).int32())
    # rounded by one place after all others: half up
    before = program.elementwise("add", places, number(30 - OUTPUT_BITS, places))
    doubled = program.right_shift(wanted, before)
    raised = program.elementwise("add", doubled, number(1, doubled))
    codes = to.ended(program.right_shift(raised, 1), UNCHANGED, given)
    to.write(node.outputs[0], codes, laid.order)


def _reciprocal(program: Operations, total: Value) -> tuple[Value, Value]:
    """``opsets.gemmlowp.reciprocal`` of sums from 1 on."""
    number, places = program.same_rank, program.same_rank(0, total)
    for power in POWERS_OF_SUMS:
        is_past = program.elementwise("greater_equal", total, number(power, total))
        more = program.elementwise("add", places, number(1, places))
        places = program.select(is_past, more, places)
    room = program.elementwise("sub", number(SUM_BITS - 1, places), places)
    half = program.left_shift(total, room)
    slope = _high(program, half, number(-SLOPE, half))
    x = program.elementwise("add", number(START, slope), slope)
    for _ in range(NEWTON_STEPS):
        near_one = _high(program, half, x)
        error = program.elementwise("sub", number(ONE_OF_2, near_one), near_one)
        x = program.elementwise("add", x, program.left_shift(_high(program, x, error), 2))
    is_one = program.elementwise("greater_equal", x, number((ONE + 1) // 2, x))
    below = program.elementwise("minimum", x, number(ONE // 2, x))
    return program.select(is_one, number(ONE, x), program.left_shift(below, 1)), places


def _high(program: Operations, a: Value, b: Value) -> Value:
    """floor((a * b + 2**30) / 2**31)."""
    return program.multiply(a, b, shift=31)


LOWERINGS = {"GemmlowpSoftmax": gemmlowp_softmax}
