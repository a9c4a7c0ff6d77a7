"""IntegerizePublishedSoftmax: Softmax as I-ViT, I-BERT or TFLite compute it."""

from typing import ClassVar

from opsets.errors import UsageError
from qpasses.ir.graph import Graph, Node
from qpasses.ir.patterns import clamp, stored_input, stored_output
from qpasses.ir.record import NodeRecord
from qpasses.ir.rewriting import NOT_MINE, Context, Declined, Outcome, Pass
from qpasses.lowering.integerize_softmax import guard_rows, rows_of
from qpasses.lowering.numbers.published_numbers import softmax_numbers
from qpasses.lowering.put_integer_node import (
    output_codes,
    own_constants,
    put_integer_node,
    scales,
    sources,
)


class IntegerizePublishedSoftmax(Pass):
    """Replace a quantized Softmax by I-ViT's, I-BERT's or TFLite's.

    before: ``y = Q(Softmax(DQ(x)))``
    after:  ``y = qpasses.Shiftmax <axis, x0> (x, multiplier, shift, y_zero, ...)``, or
            ``qpasses.IBertSoftmax``, or ``qpasses.GemmlowpSoftmax (x, exponentials, ...)``
    **Approximate** within the bound that its evidence states, for rows as long as on the first
    sample: exactly the integers of the published algorithm, requantized to the scale of y;
    TFLite's has steps of 1 / 256.
    """

    op_types: ClassVar = frozenset({"Softmax"})

    def guard(self, graph: Graph, node: Node) -> Declined | None:
        """As for tables: an axis that can be counted from the end."""
        return guard_rows(node)

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Find the integers for the scale of x, put the node in place."""
        form = context.settings.softmax
        x = stored_input(node.inputs[0], context.settings)
        found = stored_output(graph, node, context.settings)
        if form is None or form == "table" or (x is None and found is None):
            return NOT_MINE
        if x is None or found is None:
            return Declined("input or output is not quantized per tensor to 8 bits")
        axis, length = rows_of(node, x, context)
        if length is None:
            return Declined("Softmax over rows whose length is not known on the first sample")
        (y, absorbed), target = found, context.target
        try:
            op, numbers, attributes = softmax_numbers(
                form, x.quantization.scale, y.quantization, length, target
            )
        except UsageError as error:
            return Declined(f"Softmax by {form}: {error}")
        attributes = {"axis": axis, **attributes}
        meaning = y.quantization
        inputs = [
            x.tensor,
            *own_constants(node.name, numbers, context),
            *output_codes(meaning, clamp(absorbed, meaning), context),
        ]
        record = NodeRecord(sources(node, *absorbed), scales(x=x, y=y), cells=length)
        return put_integer_node(
            graph, op, node.name, inputs, y.tensor, attributes, record, context
        )
