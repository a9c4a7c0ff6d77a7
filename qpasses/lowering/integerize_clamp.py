"""IntegerizeClamp: Relu and Clip that no computing node absorbed."""

from typing import ClassVar

import numpy as np

from opsets.multipliers import ScaleError
from qpasses.ir.graph import Graph, Node, add_node, input_at
from qpasses.ir.patterns import (
    bounds,
    clamp,
    data_inputs,
    stored_input,
    stored_output,
    value_of,
)
from qpasses.ir.record import SIGNALS, NodeRecord
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.ir.stages import CLAMPING
from qpasses.lowering.integerize_rescaling import rescaled, rescaling_pair, rescaling_table
from qpasses.lowering.numbers.word_numbers import unlike_widths
from qpasses.lowering.put_integer_node import (
    put_integer_node,
    scales,
    shared_tables,
    sources,
)


class IntegerizeClamp(Pass):
    """Clamp stored integers: a Clip where the scale stays, else a table.

    before: ``y = Q(Relu(DQ(x)))``
    after:  ``y = Clip(x, y_min, y_max)``, or ``y = qpasses.Lut(x, table)``; of 16 bits
            ``y = qpasses.IntRescale(x, ..., y_min, y_max)``
    **Exact:** QuantizeLinear is monotone: clamping the value is clamping what is stored. Of 16
    bits up to the multiplier.
    """

    op_types: ClassVar = CLAMPING

    def guard(self, graph: Graph, node: Node) -> Declined | None:
        """Constant bounds."""
        if not data_inputs(node):
            return Declined(f"{node.op} of a constant")
        limits = [input_at(node, index) for index in (1, 2)]
        if any(limit is not None and value_of(limit) is None for limit in limits):
            return Declined(f"{node.op} with a bound that is not constant")
        return None

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Put Clip or Lut between the two stored tensors."""
        settings = context.settings
        x = stored_input(node.inputs[0], settings, SIGNALS)
        found = stored_output(graph, node, settings, SIGNALS)
        if x is None and found is None:
            return NOT_MINE  # a float tensor on both sides
        if x is None or found is None:
            return Declined("its input or output is not quantized per tensor")
        y, behind = found
        nodes = [node, *behind]
        low, high = clamp(nodes, y.quantization)
        rule = "Relu" if low >= y.quantization.zero_point else "Quantize"
        kinds = x.quantization.dtype, y.quantization.dtype
        if problem := unlike_widths(context.target, node.op, *kinds):
            return Declined(problem)
        if "int16" in kinds:
            return rescaled(graph, rule, nodes, x, y, (low, high), context)
        try:
            pair = rescaling_pair(rule, x.quantization, y.quantization, context.target)
        except ScaleError as error:
            return Declined(f"another scale: {error}")
        if x.quantization != y.quantization and not context.target.tables:
            return Declined(
                f"{node.op} to another scale needs a table: target {context.target.name!r} "
                "has none"
            )
        for absorbed in behind:
            absorbed.outputs.clear()
        if x.quantization == y.quantization:
            ends = [context.scalar(y.quantization.dtype, value) for value in (low, high)]
            add_node(graph, "Clip", node.name, [x.tensor, *ends], [y.tensor])
            context.record.nodes[node.name] = NodeRecord(sources(*nodes), {})
            return REWRITTEN
        rounding = context.target.rounding
        table = rescaling_table(x.quantization, y.quantization, rounding, pair)
        table = np.clip(table, low, high).astype(table.dtype)
        inputs = [x.tensor, *shared_tables(node.name, {"table": table}, context)]
        record = NodeRecord(
            source=sources(*nodes),
            scales=scales(x=x, y=y),
            bounds=[end if np.isfinite(end) else None for end in bounds(nodes)],
            requantizes=pair or (),
        )
        return put_integer_node(graph, "Lut", node.name, inputs, y.tensor, {}, record, context)
