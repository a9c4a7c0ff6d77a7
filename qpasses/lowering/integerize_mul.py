"""IntegerizeMul: Mul of two stored tensors becomes IntMul, where the fast kernel is exact."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from opsets.errors import UsageError
from opsets.realised import node_rounding
from opsets.target import Target
from opsets.word_products import furthest
from qpasses.evidence.thresholds import levels, products
from qpasses.ir.elementwise import pair_objection
from qpasses.ir.graph import Graph, Node
from qpasses.ir.patterns import clamp, stored_input, stored_output
from qpasses.ir.record import SIGNALS, NodeRecord, Quantization
from qpasses.ir.rewriting import NOT_MINE, Context, Declined, Outcome, Pass
from qpasses.lowering.numbers.mul_numbers import choose_mul
from qpasses.lowering.numbers.multiplier_search import unlike_target
from qpasses.lowering.numbers.word_numbers import unlike_widths, word_multiplier
from qpasses.lowering.put_integer_node import (
    output_codes,
    own_constants,
    put_integer_node,
    scales,
    sources,
    with_zero,
)


class IntegerizeMul(Pass):
    """Replace a quantized product of two tensors by one integer node.

    before: ``y = Q(Mul(DQ(a), DQ(b)))``
    after:  ``y = qpasses.IntMul(a, a_zero, b, b_zero, multiplier, shift, y_zero, ...)``
    **Exact** up to the multiplier: the pairs that differ from real arithmetic are counted in
    the evidence; of int16 there are too many: it is a bound. A table (IntegerizePair) takes
    over where the target wants fast kernels and no multiplier makes one exact. With int16
    there is none: squares, and Relu or Clip behind the product, are taken too.
    """

    op_types: ClassVar = frozenset({"Mul"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Choose the multiplier on all pairs of stored integers, put IntMul in place."""
        settings, target = context.settings, context.target
        a, b = (stored_input(tensor, settings, SIGNALS) for tensor in node.inputs)
        found = stored_output(graph, node, settings, SIGNALS)
        if a is None or b is None or found is None:
            return NOT_MINE
        y, absorbed = found
        meanings = a.quantization, b.quantization, y.quantization
        kinds = {each.dtype for each in meanings}
        has_words = "int16" in kinds
        if pair_objection(node) and not (has_words and _is_square(node)):
            return NOT_MINE
        if not has_words and (absorbed or len(kinds) > 1):
            return NOT_MINE
        if len(kinds - {"int16"}) > 1:
            return Declined("Mul: operands and result are stored in different types")
        if problem := unlike_widths(target, "Mul", *kinds):
            return Declined(problem)
        bounds = clamp(absorbed, y.quantization)
        reachable = products(meanings[0].zero, meanings[1].zero, 1)
        try:
            if has_words:
                numbers = _of_words(*meanings, target)
            else:
                choice = choose_mul(*meanings, target)
                if target.fast_kernels and not choice.exact:
                    return NOT_MINE
                numbers = {"multiplier": choice.multiplier, "shift": choice.shift}
        except UsageError as error:
            return Declined(f"Mul: {error}")
        multiplier, shift = (each.reshape(1).astype(np.int64) for each in numbers.values())
        steps = levels(y.quantization.zero_point, *bounds)
        if problem := unlike_target(multiplier, shift, steps, reachable, target):
            return Declined(f"Mul: {problem}")
        attributes = {"rounding": node_rounding(target)}
        inputs = [
            *with_zero(a, context),
            *with_zero(b, context),
            *own_constants(node.name, numbers, context),
            *output_codes(y.quantization, bounds, context),
        ]
        record = NodeRecord(sources(node, *absorbed), scales(a=a, b=b, y=y))
        return put_integer_node(
            graph, "IntMul", node.name, inputs, y.tensor, attributes, record, context
        )


def _is_square(node: Node) -> bool:
    return node.inputs[0] is node.inputs[1] and node.domain in (None, "")


def _of_words(
    a: Quantization, b: Quantization, y: Quantization, target: Target
) -> Mapping[str, NDArray[np.int32]]:
    ratio = target.real_scale("IntMul", (a.scale, b.scale), y.scale)
    reach = furthest(a.zero) * furthest(b.zero)
    pair = word_multiplier(ratio, reach, target, elementwise=True)
    names = "multiplier", "shift"
    return {name: np.array(value, np.int32) for name, value in zip(names, pair, strict=True)}
