"""IntegerizeCast: whole numbers that a model casts to floats are stored without these."""

from typing import ClassVar

from opsets.errors import UsageError
from opsets.realised import node_rounding
from qpasses.ir.graph import Graph, Node, type_name
from qpasses.ir.patterns import stored_output
from qpasses.ir.record import SIGNALS, NodeRecord
from qpasses.ir.rewriting import NOT_MINE, Context, Declined, Outcome, Pass
from qpasses.ir.whole_numbers import casts_whole_numbers
from qpasses.lowering.numbers.cast_numbers import cast_numbers
from qpasses.lowering.put_integer_node import (
    output_codes,
    own_constants,
    put_integer_node,
    scales,
    sources,
)


class IntegerizeCast(Pass):
    """Store whole numbers, the codes of which are a multiple of them.

    before: ``y = Q(Cast <to = FLOAT> (n))``, n of bool or of whole numbers
    after:  ``y = qpasses.IntCast(n, x_min, x_max, multiplier, shift, ...)``
    **Exact** where the scale is 1 over a whole number, as place chooses it; else, and beyond
    2**24, which float32 rounds, up to the multiplier.
    """

    op_types: ClassVar = frozenset({"Cast"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Put IntCast between the whole numbers and the stored tensor."""
        found = stored_output(graph, node, context.settings, SIGNALS)
        is_left = node.name in context.record.declined  # a size
        if found is None or is_left or not casts_whole_numbers(node):
            return NOT_MINE
        y, clamps = found
        if clamps:
            return NOT_MINE
        n, meaning, target = node.inputs[0], y.quantization, context.target
        of = type_name(n.dtype)
        try:
            numbers = cast_numbers(of, meaning, target)
        except UsageError as error:
            return Declined(f"Cast of {of}: {error}")
        inputs = [
            n,
            *own_constants(node.name, numbers, context),
            *output_codes(meaning, meaning.limits, context),
        ]
        attributes = {"of": of, "rounding": node_rounding(target)}
        record = NodeRecord(sources(node), scales(y=y))
        return put_integer_node(
            graph, "IntCast", node.name, inputs, y.tensor, attributes, record, context
        )
