"""Published algorithms, I-ViT's and I-BERT's: tables of exponentials, exact quotients."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import rounding_shift
from opsets.published import LARGEST, exp_by_polynomial, exp_by_shifts
from opsets.qpasses_v1.i_layer_norm import STEPS
from qpasses.emit.operations import Operations, RefusedError, Value
from qpasses.emit.tosa.equal_rescales import UNCHANGED
from qpasses.emit.tosa.lowering import Lowering, offset
from qpasses.emit.tosa.lowerings.tables import looked_up
from qpasses.emit.tosa.rescales import rescaled
from qpasses.emit.tosa.roots import quotient
from qpasses.emit.tosa.wide import Wide
from qpasses.evidence.thresholds import end_levels
from qpasses.ir.graph import Node

_BELOW = -np.arange(256, dtype=np.int64)
"""How far a code lies from the largest of its row."""


def shiftmax(to: Lowering, node: Node) -> None:
    """Of each exponential, by its distance from the largest, the share of their sum."""
    terms, _top, axis = _exponentials(to, node)
    factor = _inverse(terms.total(axis))
    _write_share(to, node, terms * factor)


def shift_gelu(to: Lowering, node: Node) -> None:
    """The exponential beside that of the largest code's distance from 0, times the code."""
    given, attributes = to.constants(node), node.attrs
    zero, (low, high) = given["x_zero"], end_levels(given["x_zero"])
    terms, top, _axis = _exponentials(to, node)
    codes = np.arange(256) - 128 + offset(zero.dtype) - int(zero)
    places = (int(attributes[name]) for name in ("x0", "fraction_bits"))
    start = to.program.elementwise("add", top, to.program.same_rank(128, top))
    of_zero = looked_up(to, exp_by_shifts(-codes, *places), start)
    share = (terms * _inverse(terms + of_zero)).lowered(32 - int(attributes["output_bits"]))
    level = to.levels(to.laid(node.inputs[0]).value, int(zero) - offset(zero.dtype))
    _write(to, node, Wide.of(to.program, level, low, high) * share)


def i_bert_softmax(to: Lowering, node: Node) -> None:
    """The same of exponentials that a polynomial gives, rounded to 16 bits."""
    given, attributes, program = to.constants(node), node.attrs, to.program
    names = "x0", "b", "c", "fraction_bits"
    exact = exp_by_polynomial(_BELOW, *(int(attributes[name]) for name in names))
    scaled = exact * given["exp_multiplier"].astype(np.int64)
    entries = rounding_shift(scaled, given["exp_shift"], "half_to_even")
    distance, _top, axis = _distance(to, node)
    terms = looked_up(to, entries, distance)
    total = terms.total(axis)
    if terms.low < 0 or total.high >= 1 << 31:
        raise RefusedError("a sum of exponentials that is negative, or has more than 31 bits")
    least = program.elementwise("maximum", total.int32(), program.same_rank(1, distance))
    _write_share(to, node, terms * quotient(program, 32, least))


def _distance(to: Lowering, node: Node) -> tuple[Value, Value, int]:
    """How far codes lie below the largest of their row, that, and where the axis lies."""
    program, laid = to.program, to.laid(node.inputs[0])
    axis = laid.order.index(int(node.attrs["axis"]) % len(laid.order))
    top = program.cast(program.reduce("reduce_max", laid.value, axis), "i32")
    return program.elementwise("sub", top, program.cast(laid.value, "i32")), top, axis


def _exponentials(to: Lowering, node: Node) -> tuple[Wide, Value, int]:
    """I-ViT's, the largest code as it is stored, and where the axis lies."""
    distance, top, axis = _distance(to, node)
    places = (int(node.attrs[name]) for name in ("x0", "fraction_bits"))
    return looked_up(to, exp_by_shifts(_BELOW, *places), distance), top, axis


def _inverse(total: Wide) -> Wide:
    """floor((2**31 - 1) / total), of sums that saturate there."""
    program, number = total.program, total.program.same_rank
    if total.high <= LARGEST:
        divisor = total.int32()
    else:
        above, below = total.lowered(31).saturated(), total.lowest(31).int32()
        is_more = program.elementwise("greater", above, number(0, above))
        divisor = program.select(is_more, number(LARGEST, below), below)
    largest = program.same_rank(LARGEST, divisor)
    found = program.add("intdiv", [largest, divisor], divisor.shape, "i32")
    return Wide.of(program, found, 0, LARGEST // min(max(total.low, 1), LARGEST))


def _write_share(to: Lowering, node: Node, product: Wide) -> None:
    _write(to, node, product.lowered(32 - int(node.attrs["output_bits"])))


def _write(to: Lowering, node: Node, number: Wide) -> None:
    given, rounding = to.constants(node), node.attrs["rounding"]
    level = rescaled(number, given["multiplier"], given["shift"], rounding)
    codes = to.ended(level.saturated(), UNCHANGED, given)
    to.write(node.outputs[0], codes, to.laid(node.inputs[0]).order)


def i_layer_norm(to: Lowering, node: Node) -> None:
    """Codes less their mean, times the factor of their row, by Newton's steps from 2**16."""
    given, program, laid = to.constants(node), to.program, to.laid(node.inputs[0])
    number, cells = program.same_rank, int(node.attrs["cells"])
    zero, (low, high) = given["x_zero"], end_levels(given["x_zero"])
    span = high - low + 1
    if cells * span**2 >= 1 << 30:
        raise RefusedError("rows whose squares have more than 30 bits")
    axis = laid.order.index(len(laid.order) - 1)
    code = to.levels(laid.value, int(zero) - offset(zero.dtype))
    mean = _mean(program, program.reduce("reduce_sum", code, axis), cells, span)
    distance = program.elementwise("sub", code, mean)
    variance = program.reduce("reduce_sum", program.multiply(distance, distance), axis)
    root = number(1 << 16, variance)
    for _ in range(STEPS):
        part = program.add("intdiv", [variance, root], variance.shape, "i32")
        root = program.right_shift(program.elementwise("add", root, part), 1)
    factor = program.add("intdiv", [number(LARGEST, root), root], root.shape, "i32")
    factors = Wide.of(program, factor, 0, LARGEST >> 6)  # roots end at 2**6 or more
    product = Wide.of(program, distance, -span, span) * factors
    shape = [cells if k == axis else 1 for k in range(len(laid.order))]

    def column(numbers: NDArray[Any]) -> NDArray[Any]:
        return np.broadcast_to(numbers, (cells,)).reshape(shape)

    normal = product.lowered(1) + Wide.constant(program, column(given["bias"]))
    multiplier, shift = (column(given[name]) for name in ("multiplier", "shift"))
    level = rescaled(normal, multiplier, shift, node.attrs["rounding"])
    to.write(node.outputs[0], to.ended(level.saturated(), UNCHANGED, given), laid.order)


def _mean(program: Operations, total: Value, cells: int, span: int) -> Value:
    """total / cells to the nearest, ties to even; moved up by whole means and back."""
    number = program.same_rank
    lifted = program.elementwise("add", total, number(cells * span, total))
    doubled = program.elementwise("add", lifted, lifted)
    dividend = program.elementwise("add", doubled, number(cells, doubled))
    twice = number(2 * cells, dividend)
    nearest = program.add("intdiv", [dividend, twice], dividend.shape, "i32")
    is_tie = program.elementwise("equal", program.multiply(nearest, twice), dividend)
    mean = program.elementwise("sub", nearest, number(span, nearest))
    odd = program.masked(mean, 1)
    return program.elementwise("sub", mean, program.select(is_tie, odd, number(0, odd)))


LOWERINGS = {
    "ILayerNorm": i_layer_norm,
    "IBertSoftmax": i_bert_softmax,
    "ShiftGelu": shift_gelu,
    "Shiftmax": shiftmax,
}
