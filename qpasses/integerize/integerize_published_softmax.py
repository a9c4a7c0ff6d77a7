"""IntegerizePublishedSoftmax: Softmax as I-ViT or I-BERT compute it."""

from typing import ClassVar

from opsets.errors import UsageError
from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from opsets.realised import node_rounding
from qpasses.integerize.integerize_softmax import IntegerizeSoftmax, axis_from_end, row_length
from qpasses.integerize.numbers.published_numbers import softmax_numbers
from qpasses.ir.graph import Graph, Node, add_node
from qpasses.ir.patterns import clamp, stored_input, stored_output
from qpasses.ir.record import NodeRecord
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass


class IntegerizePublishedSoftmax(Pass):
    """Replace a quantized Softmax by I-ViT's Shiftmax or I-BERT's polynomial.

    before: ``y = Q(Softmax(DQ(x)))``
    after:  ``y = qpasses.Shiftmax <axis, x0> (x, multiplier, shift, y_zero, ...)``, or
            ``qpasses.IBertSoftmax``
    **Approximate** within the bound that its evidence states, for rows as long as on the first
    sample: exactly the integers of the published algorithm, requantized to the scale of y.
    """

    op_types: ClassVar = frozenset({"Softmax"})

    def guard(self, graph: Graph, node: Node) -> Declined | None:
        """As for tables: an axis that can be counted from the end."""
        return IntegerizeSoftmax().guard(graph, node)

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Find the integers for the scale of x, put the node in place."""
        form = context.settings.softmax
        x = stored_input(node.inputs[0], context.settings)
        found = stored_output(graph, node, context.settings)
        if form is None or form == "table" or (x is None and found is None):
            return NOT_MINE
        if x is None or found is None:
            return Declined("input or output is not quantized per tensor to 8 bits")
        axis = axis_from_end(node)
        length = row_length(x, axis, context)
        if length is None:
            return Declined("Softmax over rows whose length is not known on the first sample")
        (y, absorbed), target = found, context.target
        try:
            op, numbers, attributes = softmax_numbers(
                form, x.quantization.scale, y.quantization.scale, target
            )
        except UsageError as error:
            return Declined(f"Softmax by {form}: {error}")
        attributes = {"axis": axis, **attributes, "rounding": node_rounding(target)}
        meaning = y.quantization
        bounds = meaning.zero_point, *clamp(absorbed, meaning)
        context.record.nodes[node.name] = NodeRecord(
            source=[node.name, *(each.name for each in absorbed)],
            scales={"x": [x.quantization.scale], "y": [meaning.scale]},
            overload=OPS[op].body("portable", numbers, attributes).overload,
            cells=length,
        )
        inputs = [
            x.tensor,
            *(context.constant(f"{node.name}.{key}", value) for key, value in numbers.items()),
            *(context.scalar(meaning.dtype, value) for value in bounds),
        ]
        add_node(
            graph, op, node.name, inputs, [y.tensor], attributes=attributes, domain=DOMAIN
        )
        return REWRITTEN
