"""IntegerizeGelu: GELU as I-ViT or I-BERT compute it, not as a table."""

from typing import ClassVar

from opsets.errors import UsageError
from opsets.realised import node_rounding
from qpasses.ir.elementwise import made_of
from qpasses.ir.graph import Graph, Node
from qpasses.ir.patterns import quantized_by, stored_input
from qpasses.ir.record import NodeRecord
from qpasses.ir.rewriting import NOT_MINE, Context, Declined, Outcome, Pass
from qpasses.lowering.numbers.published_numbers import gelu_numbers
from qpasses.lowering.put_integer_node import (
    output_codes,
    own_constants,
    put_integer_node,
    scales,
    with_zero,
)


class IntegerizeGelu(Pass):
    """Replace a quantized Gelu by I-ViT's ShiftGELU or I-BERT's polynomial.

    before: ``y = Q(Gelu(DQ(x)))``
    after:  ``y = qpasses.ShiftGelu <axis, x0> (x, x_zero, multiplier, shift, ...)``, or
            ``qpasses.IBertGelu``
    **Approximate:** exactly the integers of the published algorithm, requantized to the scale
    of y; how far they are from GELU its evidence says. ShiftGELU looks at rows along the last
    axis. Where no number fits, it stays a table if the target has tables.
    """

    op_types: ClassVar = frozenset({"QuantizeLinear"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Find the integers for the scale of x, put the node in place."""
        settings, target, end = context.settings, context.target, node.inputs[0]
        nodes, source = made_of(end, context.selection.excluded)
        form = settings.gelu
        if source is None or [each.op for each in nodes] != ["Gelu"]:
            return NOT_MINE
        x, y = stored_input(source, settings), quantized_by(node, settings)
        if form is None or form == "table" or x is None or y is None:
            return NOT_MINE
        name, meaning = nodes[0].name, y.quantization
        try:
            op, numbers, attributes = gelu_numbers(
                form, x.quantization.scale, meaning.scale, target
            )
        except UsageError as error:
            return Declined(f"Gelu by {form}: {error}", of=[name])
        attributes = {**attributes, "rounding": node_rounding(target)}
        inputs = [
            *with_zero(x, context),
            *own_constants(name, numbers, context),
            *output_codes(meaning, meaning.limits, context),
        ]
        record = NodeRecord([name], scales(x=x, y=y))
        return put_integer_node(graph, op, name, inputs, y.tensor, attributes, record, context)
