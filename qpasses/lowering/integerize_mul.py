"""IntegerizeMul: Mul of two stored tensors becomes IntMul, where the fast kernel is exact."""

from typing import ClassVar

import numpy as np

from opsets.multipliers import ScaleError
from opsets.realised import node_rounding
from qpasses.evidence.thresholds import levels, products
from qpasses.ir.elementwise import pair_objection
from qpasses.ir.graph import Graph, Node
from qpasses.ir.patterns import stored_input, stored_output
from qpasses.ir.record import NodeRecord
from qpasses.ir.rewriting import NOT_MINE, Context, Declined, Outcome, Pass
from qpasses.lowering.numbers.mul_numbers import choose_mul
from qpasses.lowering.numbers.multiplier_search import unlike_target
from qpasses.lowering.put_integer_node import (
    output_codes,
    own_constants,
    put_integer_node,
    scales,
    with_zero,
)


class IntegerizeMul(Pass):
    """Replace a quantized product of two tensors by one integer node.

    before: ``y = Q(Mul(DQ(a), DQ(b)))``
    after:  ``y = qpasses.IntMul(a, a_zero, b, b_zero, multiplier, shift, y_zero, ...)``
    **Exact** up to the multiplier: the pairs that differ from real arithmetic are counted in
    the evidence. A table (IntegerizePair) takes over where the target wants fast kernels and
    no multiplier makes one exact.
    """

    op_types: ClassVar = frozenset({"Mul"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Choose the multiplier on all pairs of stored integers, put IntMul in place."""
        if pair_objection(node):
            return NOT_MINE
        a, b = (stored_input(tensor, context.settings) for tensor in node.inputs)
        found = stored_output(graph, node, context.settings)
        if a is None or b is None or found is None or found[1]:
            return NOT_MINE
        y = found[0]
        meanings = a.quantization, b.quantization, y.quantization
        if len({each.dtype for each in meanings}) > 1:
            return NOT_MINE
        target = context.target
        try:
            choice = choose_mul(*meanings, target)
        except ScaleError as error:
            return Declined(f"Mul: {error}")
        if target.fast_kernels and not choice.exact:
            return NOT_MINE
        multiplier, shift = (
            each.reshape(1).astype(np.int64) for each in (choice.multiplier, choice.shift)
        )
        steps = levels(meanings[2].zero_point, *meanings[2].limits)
        reachable = products(meanings[0].zero, meanings[1].zero, 1)
        if problem := unlike_target(multiplier, shift, steps, reachable, target):
            return Declined(f"Mul: {problem}")
        attributes = {"rounding": node_rounding(target)}
        numbers = {"multiplier": choice.multiplier, "shift": choice.shift}
        inputs = [
            *with_zero(a, context),
            *with_zero(b, context),
            *own_constants(node.name, numbers, context),
            *output_codes(meanings[2], meanings[2].limits, context),
        ]
        record = NodeRecord([node.name], scales(a=a, b=b, y=y))
        return put_integer_node(
            graph, "IntMul", node.name, inputs, y.tensor, attributes, record, context
        )
