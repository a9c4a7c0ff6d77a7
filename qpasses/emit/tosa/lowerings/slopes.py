"""Ops of one tensor and constants: tables of what their meaning gives for all codes.

Slopes of which there are many, or of 16 bits, are multiplied by.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.qpasses_v1 import OPS
from qpasses.emit.tosa.equal_rescales import UNCHANGED
from qpasses.emit.tosa.lowering import Lowering, offset
from qpasses.emit.tosa.lowerings.tables import by_code, gathered
from qpasses.emit.tosa.rescales import rescaled
from qpasses.emit.tosa.wide import Wide
from qpasses.evidence.thresholds import end_levels
from qpasses.ir.graph import Node

_CODES = 256


def by_tables(to: Lowering, node: Node) -> None:
    """TABLE; where constants vary over the elements, one behind the other, by ``gather``."""
    x, op, given = node.inputs[0], OPS[node.op], to.constants(node)
    laid, dtype, rank = to.laid(x), np.dtype(x.dtype), len(to.shape(x))
    attributes = {name: each for name, each in node.attrs.items() if name in op.attributes}
    names = list(op.inputs)[1:]
    varying = [name for name in names if given[name].size > 1]
    shape = np.broadcast_shapes(*(given[name].shape for name in varying))
    rows = np.array([np.broadcast_to(given[name], shape).reshape(-1) for name in varying])
    columns, index = np.unique(
        rows.reshape(len(varying), int(np.prod(shape))), axis=1, return_inverse=True
    )
    tables = max(columns.shape[1], 1)
    if tables > _MOST or np.int16 in (dtype, given["y_zero"].dtype):
        _by_products(to, node)
        return
    codes = np.arange(_CODES, dtype=np.uint8).view(dtype).reshape(1, _CODES)
    kept = {name: given[name].reshape(()) for name in names if name not in varying}
    for name, column in zip(varying, columns, strict=True):
        kept[name] = column.astype(given[name].dtype).reshape(-1, 1)
    found = op.reference(codes, *(kept[name] for name in names), **attributes)
    entries = by_code(np.broadcast_to(found, (tables, _CODES)), dtype)
    if tables == 1:
        table = to.program.constant(entries.reshape(-1), "int8")
        value = to.program.add("table", [laid.value, table], laid.value.shape, "i8")
        to.write(node.outputs[0], value, laid.order)
        return
    whole = index.reshape((1,) * (rank - len(shape)) + shape).transpose(laid.order)
    start = to.program.constant(whole * _CODES + _CODES // 2, "int32")
    places = to.program.elementwise("add", to.program.cast(laid.value, "i32"), start)
    to.write(node.outputs[0], gathered(to, entries.reshape(-1), places, "int8"), laid.order)


_MOST = 1024
"""So many tables at most: of more slopes it is computed."""


def _by_products(to: Lowering, node: Node) -> None:
    """Levels above zero, and those below times the slopes, each rounded; one of both is 0."""
    given, laid, program = to.constants(node), to.laid(node.inputs[0]), to.program
    zero, rounding, none = given["x_zero"], node.attrs["rounding"], to.program.same_rank
    level = to.levels(laid.value, int(zero) - offset(zero.dtype))
    low, high = end_levels(zero)
    above, below = (
        Wide.of(program, program.elementwise(op, level, none(0, level)), *ends)
        for op, ends in (("maximum", (0, high)), ("minimum", (low, 0)))
    )

    def elements(name: str) -> NDArray[Any]:
        """As they lie in memory."""
        numbers = given[name].astype(np.int64)
        missing = len(laid.order) - numbers.ndim
        return numbers.reshape((1,) * missing + numbers.shape).transpose(laid.order)

    slopes, shifts = elements("slope_multiplier"), elements("slope_shift")
    if "slope_codes" in given:
        below = below * Wide.constant(program, elements("slope_codes"))
        below = rescaled(below, np.abs(slopes), shifts, rounding)
        below = below * Wide.constant(program, np.sign(slopes))
    else:
        below = rescaled(below, slopes, shifts, rounding)
    total = rescaled(above, given["multiplier"], given["shift"], rounding) + below
    to.write(node.outputs[0], to.ended(total.saturated(), UNCHANGED, given), laid.order)


LOWERINGS = dict.fromkeys(("IBertGelu", "IntCodedPRelu", "IntPRelu"), by_tables)
