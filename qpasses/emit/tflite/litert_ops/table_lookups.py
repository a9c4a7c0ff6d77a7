"""Tables: the operator that has the same one, or CAST, ADD and GATHER."""

import numpy as np
from numpy.typing import NDArray

from opsets.qpasses_v1 import OPS
from qpasses.emit.tflite.litert_ops.native_tables import native_of
from qpasses.emit.tflite.tflite_lowering import TfliteLowering
from qpasses.emit.tosa.lowering import offset
from qpasses.emit.tosa.lowerings.tables import (
    by_code,
    lut_interpolated,
    lut_interpolated_per_channel,
    lut_per_channel,
)
from qpasses.ir.graph import Node

_CODES = 256


def lut(to: TfliteLowering, node: Node) -> None:
    """Entries by code, from the lowest on."""
    table, laid = to.constants(node)["table"], to.laid(node.inputs[0])
    if laid.value.element == "i8":
        look_up(to, node, table)
        return
    program, half = to.program, len(table) // 2
    places = program.cast(laid.value, "i32")
    places = program.elementwise("add", places, program.same_rank(half, places))
    entries, _ = to.as_stored(np.roll(table, half), "")
    held = program.stored(entries, program.meaning)
    program.call_constant(held, f"{node.name}/table")
    to.write(node.outputs[0], program.looked_up(held, places), laid.order)


def look_up(to: TfliteLowering, node: Node, table: NDArray[np.generic]) -> None:
    """``table`` [256]: by the byte of the code."""
    program, laid = to.program, to.laid(node.inputs[0])
    index = np.dtype(node.inputs[0].dtype)
    entries = by_code(table, index).astype("int16" if table.dtype == np.int16 else "int8")
    x, y = program.tensor(laid.value).meaning, program.meaning
    if x is not None and y is not None and entries.dtype == np.int8:
        native = native_of(entries, x, y, to.runtime)
        if native is not None:
            found = program.operator(
                *(native.name, native.version, [laid.value], laid.value.shape, "i8"),
                *(native.options, y),
                **native.numbers,
            )
            found = program.limited(found, native.low, native.high)
            to.write(node.outputs[0], found, laid.order)
            return
    places = program.cast(laid.value, "i32")
    places = program.elementwise("add", places, program.same_rank(_CODES // 2, places))
    held = program.stored(entries, program.meaning)
    program.call_constant(held, f"{node.name}/table")
    to.write(node.outputs[0], program.looked_up(held, places), laid.order)


def lut_pair(to: TfliteLowering, node: Node) -> None:
    """The entry of a pair is at 256 * a + b."""
    program, (a, b) = to.program, node.inputs[:2]
    given, codes = to.constants(node)["table"], np.arange(_CODES)
    rows, columns = (
        codes if each.dtype == np.uint8 else np.roll(codes, _CODES // 2) for each in (a, b)
    )
    entries = given.reshape(_CODES, _CODES)[np.ix_(rows, columns)].reshape(-1)
    order = to.common_order([a, b])
    first, second = (program.cast(to.broadcast(each, order), "i32") for each in (a, b))
    places = program.multiply(first, program.same_rank(_CODES, first))
    places = program.elementwise("add", places, second)
    middle = program.same_rank(_CODES * _CODES // 2 + _CODES // 2, places)
    places = program.elementwise("add", places, middle)
    held = (entries.astype(np.int16) - offset(entries.dtype)).astype(np.int8)
    table = program.stored(held, program.meaning)
    program.call_constant(table, f"{node.name}/table")
    to.write(node.outputs[0], program.looked_up(table, places), order)


def by_table(to: TfliteLowering, node: Node) -> bool:
    """An op of one tensor of bytes and numbers, by what it gives for each code; False where
    its numbers vary over the elements.
    """
    op, given, dtype = OPS[node.op], to.constants(node), np.dtype(node.inputs[0].dtype)
    names = list(op.inputs)[1:]
    if dtype.itemsize > 1 or any(given[name].size > 1 for name in names):
        return False
    attributes = {name: each for name, each in node.attrs.items() if name in op.attributes}
    codes = np.arange(_CODES, dtype=np.uint8).view(dtype)
    numbers = (given[name].reshape(()) for name in names)
    look_up(to, node, op.reference(codes, *numbers, **attributes))
    return True


LOWERINGS = {
    "Lut": lut,
    "Lut16": lut,
    "LutInterpolated": lut_interpolated,
    "LutInterpolatedPerChannel": lut_interpolated_per_channel,
    "LutPair": lut_pair,
    "LutPerChannel": lut_per_channel,
}
