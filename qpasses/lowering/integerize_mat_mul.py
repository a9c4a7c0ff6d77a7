"""IntegerizeMatMul: products of two stacks of matrices become IntMatMul."""

from typing import ClassVar

import numpy as np

from qpasses.evidence.thresholds import products
from qpasses.ir.graph import Graph, Node, is_float, rank
from qpasses.ir.patterns import (
    Stored,
    multiplies_stacks,
    scaling,
    stored_input,
    stored_output,
    value_of,
)
from qpasses.ir.record import SIGNALS
from qpasses.ir.rewriting import NOT_MINE, Context, Declined, Outcome, Pass
from qpasses.lowering.requantized import Accumulation, Replaced, emit_requantized


class IntegerizeMatMul(Pass):
    """Replace a quantized MatMul, but that with a constant matrix, by one integer node.

    before: ``y = Q(MatMul(DQ(a), DQ(b)))``
    after:  ``y = qpasses.IntMatMul <inner> (a, a_zero, b, b_zero, multiplier, shift, ...)``
    **Exact** up to the multiplier, which takes up a number that the product is multiplied with
    (1 / sqrt(d) in attention), for as many products to a sum as on the first sample. Of
    two activations it is a follower: both are on integers already, or it stays float.
    """

    op_types: ClassVar = frozenset({"MatMul"})

    def guard(self, graph: Graph, node: Node) -> Declined | None:
        """Stacks of matrices, of numbers that a scale can store."""
        if not multiplies_stacks(node) or not is_float(node.outputs[0]):
            return None
        if any((rank(tensor) or 0) < 2 for tensor in node.inputs):
            return Declined("MatMul of a vector, or of a rank that is not known")
        constants = [value for value in map(value_of, node.inputs) if value is not None]
        if not all(np.isfinite(value).all() for value in constants):
            return Declined("MatMul with a constant that holds infinite values")
        return None

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Collect the stored operands, choose the multiplier, put IntMatMul in place."""
        if not multiplies_stacks(node):
            return NOT_MINE
        a, b = (stored_input(tensor, context.settings, SIGNALS) for tensor in node.inputs)
        found = stored_output(graph, node, context.settings, SIGNALS)
        if a is None and b is None and found is None:
            return NOT_MINE  # all in float
        if a is None or b is None or found is None:
            return Declined("an operand or the product is not quantized per tensor")
        y, absorbed = found
        kinds = {each.quantization.dtype for each in (a, b, y)}
        if len(kinds - {"int16"}) > 1:
            return Declined("operands and product are stored in different types")
        inner = _inner_size(a, b, context)
        if inner is None:
            return Declined("MatMul of an inner size that is not known on the first sample")
        inputs = []
        for each in (a, b):
            meaning = each.quantization
            inputs += [each.tensor, context.scalar(meaning.dtype, meaning.zero_point)]
        reachable = products(a.quantization.zero, b.quantization.zero, inner)
        scales = {"a": [a.quantization.scale], "b": [b.quantization.scale]}
        factors = [each for each in absorbed if each.op in ("Mul", "Div")]
        for each in factors:
            number = scaling(each, node.outputs[0])
            assert number is not None, each.name
            scales["factor"] = [number]
        acc = Accumulation(reachable, scales)
        replaced = Replaced(node, y, absorbed[len(factors) :], factors)
        return emit_requantized(
            graph, replaced, "IntMatMul", inputs, {"inner": inner}, acc, context
        )


def _inner_size(a: Stored, b: Stored, context: Context) -> int | None:
    """How many products are summed, for the sizes of the first sample."""
    for operand, axis in ((a, -1), (b, -2)):
        shape = context.sizes.get(operand.tensor.name, operand.tensor.shape)
        if shape and isinstance(size := shape[axis], int):
            return size
    return None
