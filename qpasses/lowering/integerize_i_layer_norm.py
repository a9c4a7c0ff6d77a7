"""IntegerizeILayerNorm: LayerNormalization as I-ViT computes it."""

from typing import ClassVar

from opsets.errors import UsageError
from opsets.realised import quotient_rounding
from qpasses.ir.graph import Graph, Node
from qpasses.ir.patterns import clamp, stored_input, stored_output
from qpasses.ir.record import SIGNALS, NodeRecord
from qpasses.ir.rewriting import NOT_MINE, Context, Declined, Outcome, Pass
from qpasses.lowering.integerize_layer_norm import factors_of, row_of
from qpasses.lowering.numbers.published_numbers import i_layer_norm_numbers
from qpasses.lowering.put_integer_node import (
    output_codes,
    own_constants,
    put_integer_node,
    scales,
    sources,
    with_zero,
)


class IntegerizeILayerNorm(Pass):
    """Replace a quantized LayerNormalization over the last axis by I-ViT's I-LayerNorm.

    before: ``y = Q(LayerNormalization(DQ(x), gamma, beta))``
    after:  ``y = qpasses.ILayerNorm <cells> (x, x_zero, bias, multiplier, shift, ...)``
    **Approximate:** exactly the integers of I-ViT, requantized to the scale of y; they are far
    from LayerNorm where the variance is small, and know no epsilon. Rows along several axes,
    factors that differ along others, and a gamma of 0, are left to IntegerizeLayerNorm.
    """

    op_types: ClassVar = frozenset({"LayerNormalization"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Find the integers, put ILayerNorm in place."""
        form = context.settings.layernorm
        if form in (None, "exact"):
            return NOT_MINE
        x = stored_input(node.inputs[0], context.settings, SIGNALS)
        found, row = stored_output(graph, node, context.settings), row_of(node)
        if x is None or found is None or row is None or len(row) != 1:
            return NOT_MINE
        gamma, beta = (factors_of(node, index, row) for index in (1, 2))
        if gamma.ndim > 1:
            return NOT_MINE
        y, absorbed = found
        meaning = y.quantization
        try:
            numbers = i_layer_norm_numbers(form, gamma, beta, x.quantization, meaning.scale)
        except UsageError as error:
            return Declined(f"I-LayerNorm: {error}")
        attributes = {"cells": row[0], "rounding": quotient_rounding(context.target)}
        context.record.declined.pop(node.name, None)
        inputs = [
            *with_zero(x, context),
            *own_constants(node.name, numbers, context),
            *output_codes(meaning, clamp(absorbed, meaning), context),
        ]
        record = NodeRecord(sources(node, *absorbed), scales(x=x, y=y), cells=row[0])
        return put_integer_node(
            graph, "ILayerNorm", node.name, inputs, y.tensor, attributes, record, context
        )
