"""IntegerizeLogSoftmax: LogSoftmax becomes a table, a sum and an integer logarithm."""

from typing import ClassVar

import numpy as np

from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from opsets.realised import quotient_rounding
from qpasses.integerize.integerize_softmax import axis_from_end, row_length
from qpasses.integerize.numbers.log_softmax_tables import log_softmax_tables
from qpasses.integerize.numbers.softmax_tables import largest_entry
from qpasses.ir.graph import Graph, Node, add_node, is_float, rank
from qpasses.ir.patterns import clamp, stored_input, stored_output
from qpasses.ir.record import NodeRecord
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass


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
        if is_float(node.outputs[0]) and not rank(node.inputs[0]):
            return Declined("LogSoftmax of a rank that is not known")
        return None

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Fill the tables for the length of the rows, put IntLogSoftmax in place."""
        x = stored_input(node.inputs[0], context.settings)
        found = stored_output(graph, node, context.settings)
        if x is None and found is None:
            return NOT_MINE  # in float
        if x is None or found is None:
            return Declined("its input or output is not quantized per tensor to 8 bits")
        axis = axis_from_end(node)
        length = row_length(x, axis, context)
        if length is None:
            return Declined("LogSoftmax over rows of no known length on the first sample")
        bits = context.settings.softmax_bits
        if not (largest := largest_entry(length, bits)):
            return Declined(f"LogSoftmax over rows too long for an accumulator of {bits} bits")
        y, behind = found
        low, high = clamp(behind, y.quantization)
        scales = x.quantization.scale, y.quantization.scale
        tables, dtype = log_softmax_tables(*scales, largest), y.quantization.dtype
        given = {
            **tables.inputs(),
            "y_zero": y.quantization.zero,
            "y_min": np.array(low, dtype),
            "y_max": np.array(high, dtype),
        }
        rounding = quotient_rounding(context.target)
        attributes = {"fraction_bits": tables.fraction_bits, "rounding": rounding}
        attributes["axis"] = axis
        context.record.nodes[node.name] = NodeRecord(
            source=[node.name, *(each.name for each in behind)],
            scales={"x": [scales[0]], "y": [scales[1]]},
            overload=OPS["IntLogSoftmax"].body("portable", given, attributes).overload,
            cells=length,
        )
        constants = [
            context.table(f"{node.name}.{key}", value)
            if value.ndim
            else context.scalar(value.dtype.name, int(value))
            for key, value in given.items()
        ]
        inputs, end = [x.tensor, *constants], y.tensor
        name = node.name
        add_node(
            graph, "IntLogSoftmax", name, inputs, [end], attributes=attributes, domain=DOMAIN
        )
        return REWRITTEN
