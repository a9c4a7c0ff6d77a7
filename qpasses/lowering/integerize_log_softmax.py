"""IntegerizeLogSoftmax: LogSoftmax becomes a table, a sum and an integer logarithm."""

from typing import ClassVar

from opsets.realised import quotient_rounding
from qpasses.ir.graph import Graph, Node
from qpasses.ir.patterns import clamp, stored_input, stored_output
from qpasses.ir.record import NodeRecord
from qpasses.ir.rewriting import NOT_MINE, Context, Declined, Outcome, Pass
from qpasses.lowering.integerize_softmax import guard_rows, rows_of, table_limit
from qpasses.lowering.numbers.log_softmax_tables import log_softmax_tables
from qpasses.lowering.put_integer_node import (
    output_codes,
    put_integer_node,
    scales,
    shared_tables,
    sources,
)


class IntegerizeLogSoftmax(Pass):
    """Replace a quantized LogSoftmax by a table of exponentials and the logarithm of a sum.

    before: ``y = Q(LogSoftmax(DQ(x)))``
    after:  ``y = qpasses.IntLogSoftmax <axis> (x, denominators, distances, octaves, ...)``
    **Approximate:** within the bound that its evidence states, for rows as long as on the
    first sample. What is below the range of y is its lowest code. It is a follower, as
    Softmax.
    """

    op_types: ClassVar = frozenset({"LogSoftmax"})

    def guard(self, _graph: Graph, node: Node) -> Declined | None:
        """An axis that can be counted from the end."""
        return guard_rows(node)

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Fill the tables for the length of the rows, put IntLogSoftmax in place."""
        x = stored_input(node.inputs[0], context.settings)
        found = stored_output(graph, node, context.settings)
        if x is None and found is None:
            return NOT_MINE  # in float
        if x is None or found is None:
            return Declined("its input or output is not quantized per tensor to 8 bits")
        axis, length = rows_of(node, x, context)
        if length is None:
            return Declined("LogSoftmax over rows of no known length on the first sample")
        largest = table_limit(node, length, context)
        if isinstance(largest, Declined):
            return largest
        y, behind = found
        meaning, name = y.quantization, node.name
        tables = log_softmax_tables(x.quantization.scale, meaning.scale, largest)
        rounding = quotient_rounding(context.target)
        attributes = {"fraction_bits": tables.fraction_bits, "rounding": rounding}
        attributes["axis"] = axis
        inputs = [
            x.tensor,
            *shared_tables(name, tables.inputs(), context),
            *output_codes(meaning, clamp(behind, meaning), context),
        ]
        record = NodeRecord(sources(node, *behind), scales(x=x, y=y), cells=length)
        return put_integer_node(
            graph, "IntLogSoftmax", name, inputs, y.tensor, attributes, record, context
        )
