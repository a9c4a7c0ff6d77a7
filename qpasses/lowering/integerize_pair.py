"""IntegerizePair: a function of two stored tensors becomes a table of all pairs."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from opsets.errors import ModelError
from opsets.table_rules import USUAL, TableRules
from qpasses.ir.edges import byte_codes, dequantize, quantize_by
from qpasses.ir.elementwise import PAIRING, divisor_of, pair_objection
from qpasses.ir.function import Function
from qpasses.ir.graph import Graph, Node
from qpasses.ir.patterns import stored_input, stored_output
from qpasses.ir.record import NodeRecord, Quantization
from qpasses.ir.rewriting import NOT_MINE, Context, Declined, Outcome, Pass
from qpasses.lowering.put_integer_node import (
    put_integer_node,
    scales,
    shared_tables,
)


class IntegerizePair(Pass):
    """Run an op of two tensors on all 65,536 pairs of codes, and look its results up.

    before: ``y = Q(Mul(DQ(a), DQ(b)))``
    after:  ``y = qpasses.LutPair(a, b, table)``
    Of a Div with what makes its divisor of another tensor, ``Q(Div(DQ(a), Exp(DQ(b))))``.
    **Exact:** the table holds what onnxruntime makes of every pair. Where the op is not
    defined (NaN: 0 / 0), it holds the stored zero; infinities saturate.
    """

    op_types: ClassVar = PAIRING - {"Add", "Sub"}

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Put a table between the three stored tensors."""
        divisor = divisor_of(graph, node, context.selection.excluded)
        inner, source = divisor or ([], node.inputs[-1])
        ends = [*node.inputs[:-1], source]
        stored = [stored_input(tensor, context.settings) for tensor in ends]
        if not any(stored):
            return NOT_MINE  # all in float
        if node.op == "Mul" and not context.target.fast_kernels:
            return NOT_MINE  # IntegerizeMul
        if not context.target.tables:
            target = context.target.name
            return Declined(f"{node.op} needs a table: target {target!r} has none")
        if reason := pair_objection(node):
            return Declined(reason)
        a, b = stored
        found = stored_output(graph, node, context.settings)
        if a is None or b is None or found is None or found[1]:
            return Declined("an input or its output is not quantized to 8 bits")
        y = found[0]
        function = Function.of([*inner, node], ends, node.outputs[0], graph.opset)
        meanings = a.quantization, b.quantization, y.quantization
        try:
            table, undefined = tabulate_pairs(function, *meanings, context.target.table_rules)
        except ModelError as error:
            return Declined(str(error))
        record = NodeRecord(
            source=[each.name for each in (*inner, node)],
            scales=scales(a=a, b=b, y=y),
            function=function.as_text(),
            undefined=undefined,
        )
        name = node.name
        inputs = [a.tensor, b.tensor, *shared_tables(name, {"table": table}, context)]
        return put_integer_node(graph, "LutPair", name, inputs, y.tensor, {}, record, context)


def tabulate_pairs(
    function: Function,
    a: Quantization,
    b: Quantization,
    y: Quantization,
    rules: TableRules = USUAL,
) -> tuple[NDArray[np.integer], list[int]]:
    """[65536] of y's type, at 256 * byte of a + byte of b; codes of a that lack a result."""
    rows, columns = (byte_codes(each) for each in (a, b))
    first, second = (
        dequantize(codes, each, rules.floats) for codes, each in ((rows, a), (columns, b))
    )
    grid = np.broadcast_arrays(first[:, None], second[None])
    inputs = map(np.ascontiguousarray, grid)
    real = function.computed_by(rules, *inputs).reshape(-1)
    missing = np.isnan(real)
    real = np.where(missing, rules.floats(0), real)
    found = missing.reshape(256, 256)[:, _occurs(columns, b)].any(axis=1) & _occurs(rows, a)
    return quantize_by(rules, real, y), sorted(rows[found].tolist())


def _occurs(codes: NDArray[Any], stored: Quantization) -> NDArray[np.bool_]:
    low, high = stored.limits
    return np.asarray((low <= codes) & (codes <= high))
