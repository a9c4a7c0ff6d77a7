"""IntegerizeRescaling: a tensor stored anew at another scale: a table lookup or IntRescale."""

from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar

import numpy as np

from opsets.errors import UsageError
from opsets.multipliers import Pair, ScaleError
from opsets.realised import node_rounding
from opsets.rounding import requantize
from opsets.target import Target
from qpasses.evidence.prove_pairs import half_to_even
from qpasses.ir.edges import byte_codes
from qpasses.ir.graph import Graph, Node, Tensor, is_graph_output, producer, redirect
from qpasses.ir.patterns import Stored, quantized_by, stored_input
from qpasses.ir.record import SIGNALS, NodeRecord, Quantization
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.lowering.numbers.stream_numbers import rescale_numbers
from qpasses.lowering.put_integer_node import (
    output_codes,
    own_constants,
    put_integer_node,
    scales,
    shared_tables,
    sources,
    with_zero,
)


class IntegerizeRescaling(Pass):
    """Replace DequantizeLinear directly followed by QuantizeLinear.

    before: ``y = Q(DQ(x))``
    after:  ``y = qpasses.Lut(x, table)``, of 16 bits ``y = qpasses.IntRescale(x, ...)``, or x
    itself where nothing changes
    **Exact** where the target rescales in real arithmetic: the table holds the rescaled value
    of every code. Else, and of 16 bits, it is what a multiplier and a shift make of it.
    """

    op_types: ClassVar = frozenset({"QuantizeLinear"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Put a table between the two stored tensors."""
        settings = context.settings
        x = stored_input(node.inputs[0], settings, SIGNALS)
        y = quantized_by(node, settings, SIGNALS)
        if x is None or y is None or _is_left(node, context):
            return NOT_MINE  # the edge of the integer part
        if x.quantization == y.quantization and _become(graph, x.tensor, y.tensor):
            return REWRITTEN
        if x.quantization == y.quantization and not is_graph_output(graph, y.tensor):
            for reader in list(y.tensor.outputs):
                for index, tensor in enumerate(reader.inputs):
                    if tensor is y.tensor:
                        reader.inputs[index] = x.tensor
            return REWRITTEN
        if "int16" in (x.quantization.dtype, y.quantization.dtype):
            limits = y.quantization.limits
            return rescaled(graph, "Quantize", [node], x, y, limits, context)
        if not context.target.tables:
            return Declined(
                f"another scale for {x.tensor.name!r} needs a table: target "
                f"{context.target.name!r} has none"
            )
        try:
            pair = rescaling_pair("Quantize", x.quantization, y.quantization, context.target)
        except ScaleError as error:
            return Declined(f"another scale: {error}")
        table = rescaling_table(x.quantization, y.quantization, context.target.rounding, pair)
        inputs = [x.tensor, *shared_tables(node.name, {"table": table}, context)]
        record = NodeRecord([node.name], scales(x=x, y=y), requantizes=pair or ())
        return put_integer_node(graph, "Lut", node.name, inputs, y.tensor, {}, record, context)


def _is_left(node: Node, context: Context) -> bool:
    """Whether what is stored are integers that a node of the model computes itself."""
    before = producer(node.inputs[0])
    return before is not None and before.name in context.record.declined


def _become(graph: Graph, x: Tensor, y: Tensor) -> bool:
    """Let what writes ``x`` write ``y``, an output of the graph, if it can."""
    is_free = producer(x) is not None and not is_graph_output(graph, x)
    if not is_graph_output(graph, y) or not is_free:
        return False
    redirect(graph, y, x)
    return True


def rescaled(
    graph: Graph,
    op: str,
    nodes: Sequence[Node],
    x: Stored,
    y: Stored,
    bounds: tuple[int, int],
    context: Context,
) -> Outcome:
    """Put IntRescale, which clamps codes to ``bounds``, in the place of ``nodes``.

    ``op`` is Quantize or Relu, as ``Target.real_scale`` takes it.
    """
    node, meaning = nodes[0], y.quantization
    try:
        numbers = rescale_numbers(op, x.quantization, meaning, context.target)
    except UsageError as error:
        return Declined(f"another scale: {error}")
    attributes = {"rounding": node_rounding(context.target)}
    inputs = [
        *with_zero(x, context),
        *own_constants(node.name, numbers, context),
        *output_codes(meaning, bounds, context),
    ]
    for each in nodes[1:]:
        each.outputs.clear()
    record = NodeRecord(sources(*nodes), scales(x=x, y=y))
    return put_integer_node(
        graph, "IntRescale", node.name, inputs, y.tensor, attributes, record, context
    )


def rescaling_pair(op: str, x: Quantization, y: Quantization, target: Target) -> Pair | None:
    """Multiplier and total right shift, or None where the target has no such rule.

    ``op`` is Quantize or Relu, as ``Target.real_scale`` takes it. Raises ScaleError for a
    quotient of scales that it cannot express.
    """
    if target.rescaling == "real":
        return None
    return target.elementwise_multiplier(target.real_scale(op, (x.scale,), y.scale))


def rescaling_table(
    x: Quantization, y: Quantization, rounding: str, pair: Pair | None
) -> np.ndarray:
    """[256] of y's type, ordered by the byte of x: the stored y of each stored x.

    By multiplier and shift if there are, else the nearest to real arithmetic, ties to even.
    """
    codes = byte_codes(x).astype(np.int64) - x.zero_point
    if pair is not None:
        levels = requantize(codes, *pair, rounding).astype(np.float64)
    else:
        ratio = Fraction(x.scale) / Fraction(y.scale)
        total = codes.astype(object) * ratio.numerator
        levels = half_to_even(total, ratio.denominator).astype(np.float64)
    return np.clip(levels + y.zero_point, *y.limits).astype(y.dtype)
