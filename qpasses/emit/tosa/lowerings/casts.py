"""Whole numbers and conditions: as others, or as codes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import helper

from opsets.rounding import requantize
from qpasses.emit.operations import RefusedError, Value
from qpasses.emit.tosa.equal_rescales import UNCHANGED
from qpasses.emit.tosa.lowering import Lowering, offset
from qpasses.evidence.thresholds import Interval
from qpasses.ir.graph import Node


def cast(to: Lowering, node: Node) -> None:
    """Integers as int32; true is 1, and whatever is not 0."""
    dtype = helper.tensor_dtype_to_np_dtype(int(node.attrs["to"]))
    of, program = np.dtype(node.inputs[0].dtype), to.program
    if of.kind not in "biu" or dtype not in (of, np.bool_, np.int32, np.int64):
        raise RefusedError(f"a Cast of {of} to {dtype}")
    x = to.laid(node.inputs[0])
    value = x.value if dtype == of else _whole(to, x.value, of)
    if dtype == np.bool_ and dtype != of:
        is_none = program.elementwise("equal", value, program.same_rank(0, value))
        value = program.add("logical_not", [is_none], value.shape, "i1")
    to.write(node.outputs[0], value, x.order)


def int_cast(to: Lowering, node: Node) -> None:
    """As int32 between the first and the last number that tell codes apart, RESCALE."""
    given, laid = to.constants(node), to.laid(node.inputs[0])
    first, last = (int(given[name]) for name in ("x_min", "x_max"))
    level = to.program.clamp(_whole(to, laid.value, np.dtype(node.attrs["of"])), first, last)
    if (times := _factor(node, given, first, last)) is not None:
        if times != 1:
            level = to.program.multiply(level, to.program.same_rank(times, level))
        codes = to.ended(level, UNCHANGED, given)
    else:
        ends = (np.array([end], np.int64) for end in (first, last))
        codes = to.requantized(level, node, Interval(*ends))
    to.write(node.outputs[0], codes, laid.order)


def _factor(
    node: Node, given: Mapping[str, NDArray[Any]], first: int, last: int
) -> int | None:
    """The whole number that each level is times the number cast; None where there is none."""
    pair = given["multiplier"], given["shift"]
    numbers = np.arange(first, last + 1)
    found = requantize(numbers, *pair, node.attrs["rounding"])
    times = round(int(pair[0]) / (1 << int(pair[1])))
    return times if np.array_equal(found, numbers * times) else None


def _whole(to: Lowering, value: Value, of: np.dtype[Any]) -> Value:
    """What the program holds of integers of type ``of``, or of conditions, as int32."""
    level = to.program.cast(value, "i32")
    if not offset(of):
        return level
    return to.program.elementwise("add", level, to.program.same_rank(offset(of), level))


LOWERINGS = {
    "Cast": cast,
    "IntCast": int_cast,
}
