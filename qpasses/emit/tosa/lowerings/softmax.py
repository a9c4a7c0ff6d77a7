"""Softmax by tables: exponentials, their sum, the level of the quotient, or a logarithm."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.qpasses_v1.int_log_softmax import OCTAVES, PIECES
from opsets.qpasses_v1.table_softmax16 import FRACTION_BITS
from qpasses.emit.operations import RefusedError, Value
from qpasses.emit.tosa.equal_rescales import UNCHANGED
from qpasses.emit.tosa.lowering import Lowering
from qpasses.emit.tosa.lowerings.tables import looked_up
from qpasses.emit.tosa.quotients import Quotient, level_of
from qpasses.emit.tosa.wide import Wide
from qpasses.ir.graph import Node


def table_softmax(to: Lowering, node: Node) -> None:
    """By how far codes lie below the largest; published ones by their bytes, rounded down."""
    given, x, program = to.constants(node), node.inputs[0], to.program
    laid, number = to.laid(x), to.program.same_rank
    axis = laid.order.index(int(node.attrs["axis"]) % len(laid.order))
    place = program.cast(laid.value, "i32")
    if not node.attrs["published"]:
        top = program.cast(program.reduce("reduce_max", laid.value, axis), "i32")
        place = program.elementwise("sub", top, place)
    elif np.dtype(x.dtype) == np.uint8:
        place = program.elementwise("add", place, number(128, place))
    else:
        place = program.masked(place, 255)
    divisor = _sum(looked_up(to, given["denominators"].astype(np.int64), place), axis)
    shares = looked_up(to, given["numerators"], place)
    rounding: Quotient = "down" if node.attrs["published"] else node.attrs["rounding"]
    to.write(node.outputs[0], _share(to, shares, divisor, given, rounding), laid.order)


def table_softmax16(to: Lowering, node: Node) -> None:
    """By the two bytes of how far codes lie below the largest: a product for each."""
    given, program, laid = to.constants(node), to.program, to.laid(node.inputs[0])
    axis = laid.order.index(int(node.attrs["axis"]) % len(laid.order))
    code = program.cast(laid.value, "i32")
    distance = program.elementwise("sub", program.reduce("reduce_max", code, axis), code)
    parts = {"high": program.right_shift(distance, 8), "low": program.masked(distance, 255)}
    high, low = (looked_up(to, given[name].astype(np.int64), at) for name, at in parts.items())
    terms = (high * low).rounded(FRACTION_BITS, "half_up")
    divisor = _sum(terms, axis).raised(int(given["shift"]))
    shares = terms.times(int(given["multiplier"]))
    level = _share(to, shares, divisor, given, node.attrs["rounding"])
    to.write(node.outputs[0], level, laid.order)


def _sum(terms: Wide, axis: int) -> Wide:
    """Of exponentials, 1 at least."""
    program, total = terms.program, terms.total(axis)
    if terms.low < 0 or total.high >= 1 << 31:
        raise RefusedError("a sum of exponentials that is negative, or has more than 31 bits")
    one = program.same_rank(1, terms.some)
    least = program.elementwise("maximum", total.int32(), one)
    return Wide.of(program, least, 1, max(total.high, 1))


def _share(
    to: Lowering,
    dividend: Wide,
    divisor: Wide,
    given: Mapping[str, NDArray[Any]],
    rounding: Quotient,
) -> Value:
    """The codes of the quotient."""
    zero, ends = int(given["y_zero"]), (int(given["y_min"]), int(given["y_max"]))
    level = level_of(dividend, divisor, (ends[0] - zero, ends[1] - zero), rounding)
    return to.ended(level, UNCHANGED, given)


def int_log_softmax(to: Lowering, node: Node) -> None:
    """Less how far a code lies below the largest, and the logarithm of the sum of all."""
    given, x, program = to.constants(node), node.inputs[0], to.program
    laid = to.laid(x)
    axis = laid.order.index(int(node.attrs["axis"]) % len(laid.order))
    top = program.cast(program.reduce("reduce_max", laid.value, axis), "i32")
    distance = program.elementwise("sub", top, program.cast(laid.value, "i32"))
    terms = looked_up(to, given["denominators"].astype(np.int64), distance)
    total = terms.total(axis)
    if terms.low < 0 or int(given["denominators"][0]) < 1 or total.high >= 1 << OCTAVES:
        raise RefusedError("a sum of exponentials that is no positive number of 41 bits")
    logarithm = _logarithm(to, total, given)
    depth = looked_up(to, given["distances"], distance) + logarithm
    level = (depth.number(0) - depth).rounded(
        int(node.attrs["fraction_bits"]), node.attrs["rounding"]
    )
    to.write(node.outputs[0], to.ended(level.saturated(), UNCHANGED, given), laid.order)


def _logarithm(to: Lowering, total: Wide, given: Mapping[str, NDArray[Any]]) -> Wide:
    """By the first bit of sums from 1 to 2**41 - 1, eight more, and a line by twenty more."""
    octave, head = _first_bit(total)
    program, number = to.program, to.program.same_rank
    place = program.elementwise("sub", program.right_shift(head, 20), number(PIECES, head))
    rest = Wide.of(program, program.masked(head, (1 << 20) - 1), 0, (1 << 20) - 1)
    rise = looked_up(to, np.diff(given["logarithms"]), place)
    low = looked_up(to, given["logarithms"][:-1], place)
    return looked_up(to, given["octaves"], octave) + low + (rise * rest).lowered(20)


def _first_bit(total: Wide) -> tuple[Value, Value]:
    """Its place, and 29 bits from it on."""
    program, number = total.program, total.program.same_rank
    above, below = total.lowered(20).int32(), total.lowest(20).int32()

    def first(x: Value, places: int) -> Value:
        zeros = program.add("clz", [x], x.shape, "i32")
        return program.elementwise("sub", number(31 + places, zeros), zeros)

    def minus(a: int, b: Value) -> Value:
        return program.elementwise("sub", number(a, b), b)

    few = program.elementwise("minimum", above, number(511, above))
    short = program.elementwise("add", program.left_shift(few, 20), below)
    places = first(short, 0), first(above, 20)
    right = program.elementwise("maximum", minus(0, minus(28, places[1])), number(0, above))
    heads = (
        program.left_shift(short, minus(28, places[0])),
        program.elementwise(
            "add",
            program.left_shift(above, minus(48, places[1])),
            program.right_shift(below, right),
        ),
    )
    is_long = program.elementwise("greater", above, number(511, above))
    octave, head = (program.select(is_long, b, a) for a, b in (places, heads))
    return octave, head


LOWERINGS = {
    "IntLogSoftmax": int_log_softmax,
    "TableSoftmax": table_softmax,
    "TableSoftmax16": table_softmax16,
}
