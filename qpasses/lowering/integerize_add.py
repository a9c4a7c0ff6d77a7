"""IntegerizeAdd: sums and differences of two stored tensors become IntAdd and IntSub."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from opsets.errors import UsageError
from opsets.realised import quotient_rounding
from opsets.target import Target
from qpasses.ir.graph import Graph, Node, is_float
from qpasses.ir.patterns import activations, clamp, stored_input, stored_output, value_of
from qpasses.ir.record import SIGNALS, NodeRecord, Quantization
from qpasses.ir.rewriting import NOT_MINE, Context, Declined, Outcome, Pass
from qpasses.lowering.numbers.add_numbers import choose_add
from qpasses.lowering.numbers.rescaled_numbers import rescaled_numbers
from qpasses.lowering.numbers.stream_numbers import stream_multipliers
from qpasses.lowering.numbers.word_numbers import unlike_widths
from qpasses.lowering.put_integer_node import (
    output_codes,
    own_constants,
    put_integer_node,
    scales,
    sources,
    with_zero,
)


class IntegerizeAdd(Pass):
    """Replace a quantized Add or Sub (with Relu or Clip behind it) by one integer node.

    before: ``y = Q(Relu(Add(DQ(a), DQ(b))))``
    after:  ``y = qpasses.IntAdd(a, a_zero, b, b_zero, a_multiplier, b_multiplier, ...)``
    **Exact** up to the multipliers: the pairs that differ from real arithmetic are counted in
    the evidence. Of int16 there are too many: the evidence is a bound.
    Targets that round each operand get IntRescaledAdd and IntRescaledSub.
    """

    op_types: ClassVar = frozenset({"Add", "Sub"})

    def guard(self, graph: Graph, node: Node) -> Declined | None:
        """At least one activation."""
        if not is_float(node.outputs[0]):
            return None  # shape arithmetic
        if not activations(node):
            return Declined(f"{node.op} of two constants")
        operands = [value for value in map(value_of, node.inputs) if value is not None]
        if not all(np.isfinite(value).all() for value in operands):
            return Declined(f"{node.op} of a constant that holds infinite values")
        return None

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Choose multipliers on all pairs of stored integers, put IntAdd or IntSub there."""
        settings = context.settings
        a, b = (stored_input(tensor, settings, SIGNALS) for tensor in node.inputs)
        found = stored_output(graph, node, settings, SIGNALS)
        if a is None and b is None and found is None:
            return NOT_MINE  # float or integers on both sides
        if a is None or b is None or found is None:
            return Declined("an operand or the result is not quantized per tensor")
        y, absorbed = found
        kinds = {each.quantization.dtype for each in (a, b, y)}
        if len(kinds - {"int16"}) > 1:
            return Declined("operands and result are stored in different types")
        if problem := unlike_widths(context.target, node.op, *kinds):
            return Declined(problem)
        bounds = clamp(absorbed, y.quantization)
        meanings = a.quantization, b.quantization, y.quantization
        try:
            op, numbers = _numbers(node.op, *meanings, bounds, context.target)
        except UsageError as error:
            return Declined(str(error))
        target = context.target
        once = target.add_form("int16" in kinds) == "one_rounding"
        attributes = {"rounding": quotient_rounding(target) if once else target.rounding}
        inputs = [
            *with_zero(a, context),
            *with_zero(b, context),
            *own_constants(node.name, numbers, context),
            *output_codes(y.quantization, bounds, context),
        ]
        record = NodeRecord(sources(node, *absorbed), scales(a=a, b=b, y=y))
        return put_integer_node(
            graph, op, node.name, inputs, y.tensor, attributes, record, context
        )


def _numbers(
    op: str,
    a: Quantization,
    b: Quantization,
    y: Quantization,
    bounds: tuple[int, int],
    target: Target,
) -> tuple[str, Mapping[str, NDArray[np.int32]]]:
    """The integer op, its multipliers and shifts.

    Raises UsageError for what the target cannot express.
    """
    has_words = "int16" in (a.dtype, b.dtype, y.dtype)
    if target.add_form(has_words) != "one_rounding":
        return f"IntRescaled{op}", rescaled_numbers(a, b, y, target)
    if has_words:
        return f"Int{op}", stream_multipliers(a, b, y, target)
    choice = choose_add(a, b, y, bounds, target, f"Int{op}")
    names = "a_multiplier", "b_multiplier", "shift"
    return f"Int{op}", {name: getattr(choice, name) for name in names}
