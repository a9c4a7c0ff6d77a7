"""IntegerizeSoftmax: Softmax becomes two tables and one division."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from opsets.realised import quotient_rounding
from qpasses.ir.graph import Graph, Node, is_float, rank
from qpasses.ir.patterns import Stored, clamp, stored_input, stored_output
from qpasses.ir.record import SIGNALS, NodeRecord, Quantization
from qpasses.ir.rewriting import NOT_MINE, Context, Declined, Outcome, Pass
from qpasses.lowering.numbers.softmax_tables import (
    largest_entry,
    share_multiplier,
    softmax_tables,
    softmax_tables16,
)
from qpasses.lowering.put_integer_node import (
    output_codes,
    own_constants,
    put_integer_node,
    scales,
    shared_tables,
    sources,
)


class IntegerizeSoftmax(Pass):
    """Replace a quantized Softmax by two tables of exponentials and one division.

    before: ``y = Q(Softmax(DQ(x)))``
    after:  ``y = qpasses.TableSoftmax <axis> (x, denominators, numerators, y_zero, ...)``,
            of 16 bits ``qpasses.TableSoftmax16 <axis> (x, high, low, multiplier, shift, ...)``
    **Approximate:** within the bound that its evidence states, for rows as long as on the
    first sample: the tables hold rounded exponentials. It is a follower: what it reads is on
    integers already, or it stays float.
    """

    op_types: ClassVar = frozenset({"Softmax"})

    def guard(self, _graph: Graph, node: Node) -> Declined | None:
        """An axis that can be counted from the end."""
        return guard_rows(node)

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Fill the tables for the length of the rows, put TableSoftmax in place."""
        x = stored_input(node.inputs[0], context.settings, SIGNALS)
        found = stored_output(graph, node, context.settings, SIGNALS)
        if context.settings.softmax != "table" or (x is None and found is None):
            return NOT_MINE  # another form, or in float
        if x is None or found is None:
            return Declined("input or output is not quantized per tensor to 8 or 16 bits")
        axis, length = rows_of(node, x, context)
        if length is None:
            return Declined("Softmax over rows whose length is not known on the first sample")
        largest = table_limit(node, length, context)
        if isinstance(largest, Declined):
            return largest
        y, behind = found
        meaning, name = y.quantization, node.name
        numbers = _numbers(x.quantization, meaning, largest)
        if isinstance(numbers, Declined):
            return numbers
        op, tables, own, others = numbers
        attributes = {"axis": axis, "rounding": quotient_rounding(context.target), **others}
        inputs = [
            x.tensor,
            *shared_tables(name, tables, context),
            *own_constants(name, own, context),
            *output_codes(meaning, clamp(behind, meaning), context),
        ]
        record = NodeRecord(sources(node, *behind), scales(x=x, y=y), cells=length)
        return put_integer_node(graph, op, name, inputs, y.tensor, attributes, record, context)


_Numbers = tuple[str, dict[str, NDArray[Any]], dict[str, NDArray[Any]], dict[str, int]]


def _numbers(x: Quantization, y: Quantization, largest: int) -> _Numbers | Declined:
    """The op, by the width of x: its name, tables, other constants, and own attributes."""
    if x.zero.dtype.itemsize == 1:
        below, above = softmax_tables(x.scale, y.scale, largest, y.zero.dtype.itemsize)
        tables: dict[str, NDArray[Any]] = {"denominators": below, "numerators": above}
        return "TableSoftmax", tables, {}, {"published": 0}
    found = share_multiplier(y.scale, largest)
    if found is None:
        return Declined(f"Softmax whose output has steps of {y.scale:.3g}, which no shift has")
    high, low = softmax_tables16(x.scale, largest)
    multiplier, shift = (np.array(each, np.int32) for each in found)
    own: dict[str, NDArray[Any]] = {"multiplier": multiplier, "shift": shift}
    return "TableSoftmax16", {"high": high, "low": low}, own, {}


def guard_rows(node: Node) -> Declined | None:
    """Why a Softmax or LogSoftmax has no rows that are known, or None."""
    if is_float(node.outputs[0]) and not rank(node.inputs[0]):
        return Declined(f"{node.op} of a rank that is not known")
    return None


def rows_of(node: Node, x: Stored, context: Context) -> tuple[int, int | None]:
    """The axis of a Softmax from the end, and how many codes a row has on the first sample."""
    dims = rank(node.inputs[0]) or 1
    axis = int(node.attrs.get("axis", -1)) % dims - dims
    shape = context.sizes.get(x.tensor.name, x.tensor.shape)
    return axis, max(1, size) if isinstance(size := shape[axis], int) else None


def table_limit(node: Node, length: int, context: Context) -> int | Declined:
    """The largest entry of a table of which ``length`` are summed."""
    bits = context.settings.softmax_bits
    if largest := largest_entry(length, bits):
        return largest
    return Declined(f"{node.op} over rows too long for an accumulator of {bits} bits")
