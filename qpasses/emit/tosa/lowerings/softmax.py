"""Softmax by tables: exponentials by ``gather``, their sum, and the level of the quotient."""

import numpy as np

from qpasses.emit.tosa.equal_rescales import UNCHANGED
from qpasses.emit.tosa.lowering import Lowering
from qpasses.emit.tosa.lowerings.tables import looked_up
from qpasses.emit.tosa.program import RefusedError
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
    terms = looked_up(to, given["denominators"].astype(np.int64), place)
    total = terms.total(axis)
    if terms.low < 0 or total.high >= 1 << 31:
        raise RefusedError("a sum of exponentials that is negative, or has more than 31 bits")
    least = program.elementwise("maximum", total.int32(), number(1, place))
    divisor = Wide.of(program, least, 1, max(total.high, 1))
    shares = looked_up(to, given["numerators"], place)
    rounding: Quotient = "down" if node.attrs["published"] else node.attrs["rounding"]
    zero, ends = int(given["y_zero"]), (int(given["y_min"]), int(given["y_max"]))
    level = level_of(shares, divisor, (ends[0] - zero, ends[1] - zero), rounding)
    to.write(node.outputs[0], to.ended(level, UNCHANGED, given), laid.order)


LOWERINGS = {"TableSoftmax": table_softmax}
