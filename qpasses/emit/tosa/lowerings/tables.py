"""Tables: of one tensor by ``table``, of channels and of two tensors by ``gather``."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpasses.emit.operations import NUMPY, Value
from qpasses.emit.tosa.equal_rescales import LARGEST_SHIFT, UNCHANGED
from qpasses.emit.tosa.lowering import Lowering, offset
from qpasses.emit.tosa.wide import Wide, limbs_of
from qpasses.ir.graph import Node, Tensor

_CODES = 256


def lut(to: Lowering, node: Node) -> None:
    """TABLE, whose entries begin with that of the lowest code."""
    x, given = to.laid(node.inputs[0]), to.constants(node)
    table, index = given["table"], np.dtype(node.inputs[0].dtype)
    if index == np.int16 or table.dtype == np.int16:
        _look_up_words(to, node, table)
        return
    entries = by_code(table, index)
    value = to.program.add(
        *("table", [x.value, to.program.constant(entries, "int8")], x.value.shape, "i8")
    )
    to.write(node.outputs[0], value, x.order)


def _look_up_words(to: Lowering, node: Node, table: NDArray[Any]) -> None:
    """By ``gather``, at the bits of the code."""
    laid, index, program = to.laid(node.inputs[0]), node.inputs[0].dtype, to.program
    place = program.cast(laid.value, "i32")
    if index == np.uint8:
        place = program.elementwise("add", place, program.same_rank(128, place))
    else:
        place = program.masked(place, len(table) - 1)
    dtype = NUMPY[to.element_of(table.dtype, "table")]
    entries = table.astype(np.int32) - offset(table.dtype)
    to.write(node.outputs[0], gathered(to, entries, place, dtype), laid.order)


def lut_interpolated(to: Lowering, node: Node) -> None:
    """TABLE of int16, else two entries by ``gather``, and the line between them."""
    given, laid, program = to.constants(node), to.laid(node.inputs[0]), to.program
    table, number = given["table"].astype(np.int64), program.same_rank
    found = program.interpolated(laid.value, table)
    if found is not None:
        ends = (int(end) * 128 for end in (table.min(), table.max()))
        to.write(node.outputs[0], _of_lines(to, node, found, *ends), laid.order)
        return
    wide = program.cast(laid.value, "i32")
    place = program.right_shift(wide, 7)
    place = program.elementwise("add", place, number(256, place))
    low, rise = (looked_up(to, each, place) for each in (table[:-1], np.diff(table)))
    part = Wide.of(program, program.masked(wide, 127), 0, 127)
    level = (low.times(128) + rise * part).rounded(int(given["shift"]), node.attrs["rounding"])
    to.write(node.outputs[0], to.ended(level.saturated(), UNCHANGED, given), laid.order)


def _of_lines(to: Lowering, node: Node, value: Value, low: int, high: int) -> Value:
    """Codes of what TABLE gives, which has seven bits more."""
    given, rounding = to.constants(node), node.attrs["rounding"]
    shift = given["shift"].reshape(-1).astype(np.int64) + 30
    if rounding == "half_up" and shift[0] <= LARGEST_SHIFT:
        return to.ended(value, (np.array([1 << 30]), shift), given)
    level = Wide.of(to.program, value, low, high).rounded(int(given["shift"]), rounding)
    return to.ended(level.saturated(), UNCHANGED, given)


def by_code(entries: NDArray[Any], index: np.dtype[Any]) -> NDArray[Any]:
    """Entries [..., 256] by byte of the code, as int8 or int32, from the code -128 on.

    A byte of uint8 is 128 higher as it is stored here, one of int8 as it is.
    """
    held = np.int32 if entries.dtype == np.int16 else np.int8
    stored = (entries.astype(np.int32) - offset(entries.dtype)).astype(held)
    return stored if index == np.uint8 else np.roll(stored, _CODES // 2, axis=-1)


def lut_per_channel(to: Lowering, node: Node) -> None:
    """One table behind the other, looked up at 256 * channel + code."""
    x, tables = node.inputs[0], to.constants(node)["tables"]
    order = to.laid(x).order
    value, entries = to.read(x, order), by_code(tables, x.dtype).reshape(-1)
    start = _starts(to, node, _CODES, _CODES // 2, order)
    places = to.program.elementwise("add", to.program.cast(value, "i32"), start)
    dtype = NUMPY[to.element_of(tables.dtype, "tables")]
    to.write(node.outputs[0], gathered(to, entries, places, dtype), order)


def lut_interpolated_per_channel(to: Lowering, node: Node) -> None:
    """The same of two entries by ``gather``, and the line between them."""
    given, laid, program = to.constants(node), to.laid(node.inputs[0]), to.program
    value, tables = to.read(node.inputs[0], laid.order), given["tables"].astype(np.int64)
    value = program.cast(value, "i32")
    start = _starts(to, node, _SEGMENTS, _SEGMENTS // 2, laid.order)
    place = program.elementwise("add", program.right_shift(value, 7), start)
    rows = tables[:, :-1].reshape(-1), np.diff(tables).reshape(-1)
    low, rise = (looked_up(to, each, place) for each in rows)
    part = Wide.of(program, program.masked(value, 127), 0, 127)
    level = (low.times(128) + rise * part).rounded(int(given["shift"]), node.attrs["rounding"])
    to.write(node.outputs[0], to.ended(level.saturated(), UNCHANGED, given), laid.order)


_SEGMENTS = 512


def _starts(
    to: Lowering, node: Node, entries: int, middle: int, order: Sequence[int]
) -> Value:
    """Where the code 0 of each channel lies in tables of so many ``entries``."""
    channels, rank = len(to.constants(node)["tables"]), len(to.shape(node.inputs[0]))
    axis = int(node.attrs["axis"]) % rank
    shape = [channels if each == axis else 1 for each in order]
    return to.program.constant(np.arange(channels).reshape(shape) * entries + middle, "int32")


def gathered(to: Lowering, entries: NDArray[Any], places: Value, dtype: str) -> Value:
    """``entries`` [K], as numbers of this type, at int32 ``places`` of any shape."""
    count = int(np.prod(places.shape))
    table = to.program.constant(entries.reshape(1, -1, 1), dtype)
    flat = to.program.reshape(places, (1, count))
    found = to.program.add("gather", [table, flat], (1, count, 1), table.element)
    return to.program.reshape(found, places.shape)


def looked_up(to: Lowering, entries: NDArray[np.int64], places: Value) -> Wide:
    """``entries`` [K] at int32 ``places``."""
    low, high = int(entries.min()), int(entries.max())
    if low >= -(1 << 31) and high < 1 << 31:
        return Wide.of(to.program, gathered(to, entries, places, "int32"), low, high)
    limbs = [gathered(to, each, places, "int32") for each in limbs_of(entries)]
    return Wide.of_limbs(to.program, limbs, low, high)


def lut_pair(to: Lowering, node: Node) -> None:
    """A table of all pairs of bytes, looked up at 256 * a + b."""
    a, b = node.inputs[:2]
    table = to.constants(node)["table"]
    index = np.arange(_CODES)
    rows, columns = (
        index if each.dtype == np.uint8 else np.roll(index, _CODES // 2) for each in (a, b)
    )
    entries = table.reshape(_CODES, _CODES)[np.ix_(rows, columns)]
    _look_up(to, node, (a, b), entries)


def _look_up(
    to: Lowering, node: Node, tensors: tuple[Tensor, Tensor], entries: NDArray[Any]
) -> None:
    """``entries`` [256, 256], from the lowest codes on."""
    order = to.common_order(tensors)
    a, b = (to.program.cast(to.broadcast(each, order), "i32") for each in tensors)
    wide = to.program.multiply(a, to.program.same_rank(_CODES, a))
    places = to.program.elementwise("add", wide, b)
    middle = to.program.same_rank(_CODES * _CODES // 2 + _CODES // 2, places)
    places = to.program.elementwise("add", places, middle)
    stored = (entries.astype(np.int16) - offset(entries.dtype)).astype(np.int8)
    to.write(node.outputs[0], gathered(to, stored.reshape(-1), places, "int8"), order)


LOWERINGS = {
    "Lut": lut,
    "Lut16": lut,
    "LutInterpolated": lut_interpolated,
    "LutInterpolatedPerChannel": lut_interpolated_per_channel,
    "LutPair": lut_pair,
    "LutPerChannel": lut_per_channel,
}
