"""IntegerizeSoftmax: Softmax becomes two tables and one division."""

from typing import Any, ClassVar

from numpy.typing import NDArray

from opsets.realised import quotient_rounding
from qpasses.ir.graph import Graph, Node, is_float, rank
from qpasses.ir.patterns import Stored, clamp, stored_input, stored_output
from qpasses.ir.record import SIGNALS, NodeRecord
from qpasses.ir.rewriting import NOT_MINE, Context, Declined, Outcome, Pass
from qpasses.lowering.numbers.softmax_tables import largest_entry, softmax_tables
from qpasses.lowering.put_integer_node import (
    output_codes,
    put_integer_node,
    scales,
    shared_tables,
    sources,
)


class IntegerizeSoftmax(Pass):
    """Replace a quantized Softmax by two tables of exponentials and one division.

    before: ``y = Q(Softmax(DQ(x)))``
    after:  ``y = qpasses.TableSoftmax <axis> (x, denominators, numerators, y_zero, ...)``
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
        x = stored_input(node.inputs[0], context.settings)
        found = stored_output(graph, node, context.settings, SIGNALS)
        if context.settings.softmax != "table" or (x is None and found is None):
            return NOT_MINE  # another form, or in float
        if x is None or found is None:
            return Declined("input or output is not quantized per tensor to 8 bits")
        axis, length = rows_of(node, x, context)
        if length is None:
            return Declined("Softmax over rows whose length is not known on the first sample")
        largest = table_limit(node, length, context)
        if isinstance(largest, Declined):
            return largest
        y, behind = found
        meaning, name = y.quantization, node.name
        below, above = softmax_tables(
            x.quantization.scale, meaning.scale, largest, meaning.zero.dtype.itemsize
        )
        tables: dict[str, NDArray[Any]] = {"denominators": below, "numerators": above}
        rounding = quotient_rounding(context.target)
        attributes = {"axis": axis, "published": 0, "rounding": rounding}
        inputs = [
            x.tensor,
            *shared_tables(name, tables, context),
            *output_codes(meaning, clamp(behind, meaning), context),
        ]
        record = NodeRecord(sources(node, *behind), scales(x=x, y=y), cells=length)
        return put_integer_node(
            graph, "TableSoftmax", name, inputs, y.tensor, attributes, record, context
        )


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
