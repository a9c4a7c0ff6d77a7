"""SinkScale: numbers that operands of a product are multiplied with multiply the product."""

from math import prod
from typing import ClassVar

import numpy as np

from qpasses.ir.graph import Graph, Node, Tensor, add_node, new_tensor, producer, sole_consumer
from qpasses.ir.patterns import multiplies_stacks, scaling
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Outcome, Pass

_SMALLEST = 2.0**-100

_KEEPING = frozenset({"Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"})
"""Ops through which a factor passes, of one tensor and constants."""


class SinkScale(Pass):
    """Move a positive number from the operands of a MatMul of two tensors behind it.

    before: ``q = Mul (a, s); k = Transpose (Mul (b, s)); y = MatMul (q, k)``
    after:  ``p = MatMul (a, Transpose (b)); y = Mul (p, s * s)``
    **Exact** in real arithmetic. There it becomes part of the multiplier.
    """

    op_types: ClassVar = frozenset({"MatMul"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite where nothing else reads what is multiplied, and the user excludes none."""
        if not multiplies_stacks(node) or node.name in context.selection.excluded:
            return NOT_MINE
        if node.outputs[0].dtype != np.float32:
            return NOT_MINE
        found = [
            each for each in (_scaled(graph, t, node, context) for t in node.inputs) if each
        ]
        if not found:
            return NOT_MINE
        total = prod(factor for _scaling, _x, factor in found)
        if not _SMALLEST < total < 1 / _SMALLEST:  # float32 would lose it
            return NOT_MINE
        for scaled, x, _factor in found:
            reader = sole_consumer(graph, scaled.outputs[0])
            assert reader is not None, scaled.name
            reader.inputs = [x if t is scaled.outputs[0] else t for t in reader.inputs]
            scaled.outputs.clear()
        _scale_behind(graph, node, total, context)
        return REWRITTEN


def _scaled(
    graph: Graph, operand: Tensor, reader: Node, context: Context
) -> tuple[Node, Tensor, float] | None:
    """The node that scales ``operand``, perhaps before it is moved, its data and factor."""
    while (node := producer(operand)) is not None and sole_consumer(graph, operand) is reader:
        if node.name in context.selection.excluded:
            return None
        for x in node.inputs:
            if (factor := scaling(node, x)) is not None:
                return node, x, factor
        if node.op not in _KEEPING:
            return None
        operand, reader = node.inputs[0], node
    return None


def _scale_behind(graph: Graph, node: Node, factor: float, context: Context) -> None:
    """A Mul by ``factor``, together with that which is there already."""
    product = node.outputs[0]
    behind = sole_consumer(graph, product)
    known = scaling(behind, product) if behind is not None else None
    if (
        behind is not None
        and known is not None
        and _SMALLEST < factor * known < 1 / _SMALLEST
        and behind.name not in context.selection.excluded
    ):
        name, factor = f"{behind.name}.factor", factor * known
        behind.op, behind.inputs = "Mul", [product, _number(context, name, factor)]
        return
    scaled = new_tensor(context.fresh(f"{node.name}_unscaled"), product)
    node.outputs = [scaled]
    name = context.fresh(f"{node.name}.scale")
    inputs = [scaled, _number(context, f"{node.name}.factor", factor)]
    add_node(graph, "Mul", name, inputs, [product])


def _number(context: Context, name: str, value: float) -> Tensor:
    return context.constant(name, np.array(value, np.float32))
