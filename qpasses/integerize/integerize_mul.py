"""IntegerizeMul: Mul of two stored tensors becomes IntMul, where the fast kernel is exact."""

from typing import ClassVar

import numpy as np

from opsets.multipliers import ScaleError
from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from opsets.realised import node_rounding
from qpasses.evidence.thresholds import levels, products
from qpasses.integerize.numbers.mul_numbers import choose_mul
from qpasses.integerize.numbers.multiplier_search import unlike_target
from qpasses.ir.elementwise import pair_objection
from qpasses.ir.graph import Graph, Node, add_node
from qpasses.ir.patterns import stored_input, stored_output
from qpasses.ir.record import NodeRecord
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass


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
        zero, *limits = meanings[2].zero_point, *meanings[2].limits
        ends = [context.scalar(meanings[2].dtype, value) for value in (zero, *limits)]
        clamps = {"y_min": ends[1].values, "y_max": ends[2].values}
        context.record.nodes[node.name] = NodeRecord(
            source=[node.name],
            overload=OPS["IntMul"].body("portable", clamps, attributes).overload,
            scales={n: [q.scale] for n, q in zip("aby", meanings, strict=True)},
        )
        inputs = []
        for each in (a, b):
            meaning = each.quantization
            inputs += [each.tensor, context.scalar(meaning.dtype, meaning.zero_point)]
        inputs += [
            context.constant(f"{node.name}.{name}", value)
            for name, value in (("multiplier", choice.multiplier), ("shift", choice.shift))
        ]
        add_node(
            graph,
            "IntMul",
            node.name,
            [*inputs, *ends],
            [y.tensor],
            attributes=attributes,
            domain=DOMAIN,
        )
        return REWRITTEN
