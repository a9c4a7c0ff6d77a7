"""IntegerizeChain: everything elementwise between two stored tensors becomes one table."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from opsets.errors import ModelError
from opsets.hard_swish import hard_swish_levels
from opsets.table_rules import USUAL, TableRules
from qpasses.ir.edges import codes, dequantize, in_rows, quantize_by, rows_of
from qpasses.ir.elementwise import differing_axes, made_of
from qpasses.ir.function import Function
from qpasses.ir.graph import Graph, Node
from qpasses.ir.patterns import any_quantized_by, any_stored_input
from qpasses.ir.record import AnyQuantization, ChannelQuantization, NodeRecord, Quantization
from qpasses.ir.rewriting import NOT_MINE, Context, Declined, Outcome, Pass
from qpasses.ir.stages import CLAMPING
from qpasses.lowering.put_integer_node import (
    put_integer_node,
    scales,
    shared_tables,
    sources,
)


class IntegerizeChain(Pass):
    """Run a chain on all 256 codes, and look its results up.

    before: ``y = Q(Mul(DQ(x), Sigmoid(DQ(x))))``
    after:  ``y = qpasses.Lut(x, table)``
    **Exact:** the table holds what onnxruntime makes of every code, one node after the other,
    or, where the target computes tables in double, what onnx's reference evaluator makes, or
    what the target's own rules say (opsets.table_rules).
    A code for which the function is not defined (NaN) takes the result of the nearest code for
    which it is; infinities saturate.
    """

    op_types: ClassVar = frozenset({"QuantizeLinear"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Put a table between the two stored tensors."""
        y, end = any_quantized_by(node, context.settings), node.inputs[0]
        nodes, source = made_of(end, context.selection.excluded)
        if source is None or all(each.op in CLAMPING for each in nodes):
            return NOT_MINE  # of several tensors, nothing, or exact without a table
        if not context.target.tables:
            return NOT_MINE
        x = any_stored_input(source, context.settings)
        if x is None or y is None:
            return NOT_MINE
        axes = differing_axes(nodes) | axes_of(x.quantization, y.quantization)
        if len(axes) > 1:
            return NOT_MINE
        function = Function.of(nodes, [source], end, graph.opset)
        try:
            ends = x.quantization, y.quantization
            table, undefined = tabulate(function, *ends, context.target.table_rules)
        except ModelError as error:
            return Declined(str(error), of=[each.name for each in nodes])
        if len(undefined) == context.settings.codes:
            return Declined(
                f"{', '.join(function.ops)}: not defined for any code of its input",
                of=[each.name for each in nodes],
            )
        op = "LutPerChannel" if axes else "Lut"
        name = nodes[-1].name
        context.record.declined.pop(name, None)  # multipliers that no target expresses
        record = NodeRecord(
            source=sources(*nodes),
            scales=scales(x=x, y=y),
            function=function.as_text(),
            undefined=undefined,
        )
        inputs = [x.tensor, *shared_tables(name, {"table": table}, context)]
        attributes = {"axis": max(axes)} if axes else {}
        return put_integer_node(graph, op, name, inputs, y.tensor, attributes, record, context)


def axes_of(*meanings: AnyQuantization) -> set[int]:
    """Along which channels have parameters of their own."""
    return {each.axis for each in meanings if isinstance(each, ChannelQuantization)}


def tabulate(
    function: Function, x: AnyQuantization, y: AnyQuantization, rules: TableRules = USUAL
) -> tuple[NDArray[Any], list[int]]:
    """[256] or [C, 256] of y's type, ordered by the byte of x; the codes without a result.

    Such codes of x have none in one channel at least, all of them none in any. What lies
    beyond the limits of x has an entry too. For int16 it is 65,536 in place of 256, and two
    bytes.
    """
    if function.ops == ["HardSwish"] and rules.hard_swish == "int16":
        table = _hard_swish(x, y)
        if table is not None:
            return table, []
    stored = codes(x)
    codes_in_rows = function.inputs(stored, rows_of(x, y))
    real = function.computed_by(rules, dequantize(codes_in_rows, in_rows(x), rules.floats))
    rows = real.reshape(-1, stored.size)
    low, high = x.limits
    missing = np.isnan(rows).any(axis=0) & (low <= stored) & (stored <= high)
    filled = np.reshape([_filled(row, stored) for row in rows], real.shape)
    return quantize_by(rules, filled, in_rows(y)), sorted(stored[missing].tolist())


def _hard_swish(x: AnyQuantization, y: AnyQuantization) -> NDArray[Any] | None:
    """[256] of y's type; None where TFLite has no arithmetic for it."""
    if not isinstance(x, Quantization) or not isinstance(y, Quantization):
        return None
    if x.zero.itemsize != 1 or y.zero.itemsize != 1:
        return None
    levels = hard_swish_levels(codes(x).astype(np.int64) - x.zero_point, x.scale, y.scale)
    if levels is None:
        return None
    return np.asarray(np.clip(levels + y.zero_point, *y.limits), y.dtype)


def _filled(
    real: NDArray[np.floating[Any]], stored: NDArray[Any]
) -> NDArray[np.floating[Any]]:
    """``real`` of each ``stored``; where it is NaN, that of the nearest that has one."""
    defined = np.flatnonzero(~np.isnan(real))
    if not defined.size:
        return np.zeros_like(real)  # of no use: it is declined
    levels = stored.astype(np.int64)
    order = defined[np.argsort(levels[defined])]
    above = np.searchsorted(levels[order], levels)
    below = order[np.maximum(above - 1, 0)]
    above = order[np.minimum(above, order.size - 1)]
    is_nearer = levels[above] - levels < levels - levels[below]
    found: NDArray[np.floating[Any]] = real[np.where(is_nearer, above, below)]
    return found
