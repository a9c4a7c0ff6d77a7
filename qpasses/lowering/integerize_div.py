"""IntegerizeDiv: Div of stored tensors of which some have 16 bits becomes IntDiv."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from opsets.errors import ModelError, UsageError
from opsets.realised import has_wide_tables, quotient_rounding
from opsets.target import Target
from qpasses.ir.elementwise import divisor_of, pair_objection
from qpasses.ir.function import Function
from qpasses.ir.graph import Graph, Node, Tensor, new_tensor
from qpasses.ir.patterns import Stored, clamp, stored_input, stored_output
from qpasses.ir.record import SIGNALS, NodeRecord, Quantization
from qpasses.ir.rewriting import NOT_MINE, Context, Declined, Outcome, Pass
from qpasses.lowering.integerize_chain import put_lookup
from qpasses.lowering.numbers.knots import Lookup, lookup, words_of_results
from qpasses.lowering.numbers.word_numbers import quotient_multiplier
from qpasses.lowering.put_integer_node import (
    output_codes,
    own_constants,
    put_integer_node,
    scales,
    sources,
    with_zero,
)


class IntegerizeDiv(Pass):
    """Replace a quantized quotient of two tensors, some of 16 bits, by one integer node.

    before: ``y = Q(Div(DQ(a), DQ(b)))``
    after:  ``y = qpasses.IntDiv(a, a_zero, b, b_zero, multiplier, shift, y_zero, ...)``
    Of what makes the divisor of one other tensor, ``Q(Div(DQ(a), Sqrt(DQ(t))))``, a table of
    16 bits comes first: ``b = qpasses.Lut16(t, table)``, or Lut, or LutInterpolated. Its scale
    is that of the largest result which any code of t has.
    **Exact** up to the multiplier and the rounding of the divisor; the evidence has a bound.
    Where the divisor is rounded to 0, the result saturates. With 8 bits throughout
    IntegerizePair has a table of all pairs.
    """

    op_types: ClassVar = frozenset({"Div"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Choose the multiplier, put IntDiv in place, and before it the table of a divisor."""
        settings, excluded = context.settings, context.selection.excluded
        inner, source = divisor_of(graph, node, excluded) or ([], node.inputs[-1])
        a, t = (stored_input(each, settings, SIGNALS) for each in (node.inputs[0], source))
        found = stored_output(graph, node, settings, SIGNALS)
        if a is None or t is None or found is None or pair_objection(node):
            return NOT_MINE
        y, absorbed = found
        kinds = {each.quantization.dtype for each in (a, t, y)}
        if "int16" not in kinds:
            return NOT_MINE
        if len(kinds - {"int16"}) > 1:
            return Declined("Div: operands and result are stored in different types")
        try:
            table = _table(graph, inner, source, t, context) if inner else None
            b = table.y if table else t
            numbers = _numbers(a.quantization, b.quantization, y.quantization, context.target)
        except (ModelError, UsageError) as error:
            return Declined(f"Div: {error}")
        if table:
            context.record.tensors[b.tensor.name] = b.quantization
            put_lookup(graph, table.found, inner, t, b, table.function, context)
            for each in inner:  # which other passes found no form for
                context.record.declined.pop(each.name, None)
        inputs = [
            *with_zero(a, context),
            *with_zero(b, context),
            *own_constants(node.name, numbers, context),
            *output_codes(y.quantization, clamp(absorbed, y.quantization), context),
        ]
        record = NodeRecord(sources(node, *absorbed), scales(a=a, b=b, y=y))
        attributes = {"rounding": quotient_rounding(context.target)}
        return put_integer_node(
            graph, "IntDiv", node.name, inputs, y.tensor, attributes, record, context
        )


@dataclass(frozen=True)
class _Table:
    """Of a divisor: what it is stored as, ``y``, and what it is looked up in."""

    function: Function
    found: Lookup
    y: Stored


def _table(
    graph: Graph, nodes: Sequence[Node], source: Tensor, t: Stored, context: Context
) -> _Table:
    """The table of what ``nodes`` make of ``source``, stored as ``t``.

    Raises UsageError where the target has none, ModelError for a function that has none.
    """
    target, end = context.target, nodes[-1].outputs[0]
    if not has_wide_tables(target):
        raise UsageError(f"target {target.name!r} has no tables of 16 bits in this version")
    function = Function.of(nodes, [source], end, graph.opset)
    meaning = words_of_results(function, t.quantization, target)
    found = lookup(function, t.quantization, meaning, target)
    name = context.fresh(f"{end.name}_quantized")
    return _Table(function, found, Stored(new_tensor(name, end, np.dtype(np.int16)), meaning))


def _numbers(
    a: Quantization, b: Quantization, y: Quantization, target: Target
) -> Mapping[str, NDArray[np.int32]]:
    scale = Fraction(a.scale) / (Fraction(b.scale) * Fraction(y.scale))
    pair = quotient_multiplier(scale, target)
    names = "multiplier", "shift"
    return {name: np.array(value, np.int32) for name, value in zip(names, pair, strict=True)}
