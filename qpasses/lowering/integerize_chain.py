"""IntegerizeChain: everything elementwise between two stored tensors becomes one table."""

from collections.abc import Sequence
from typing import ClassVar

from opsets.errors import ModelError
from opsets.realised import has_wide_tables
from opsets.target import Target
from qpasses.ir.elementwise import differing_axes, made_of
from qpasses.ir.function import Function
from qpasses.ir.graph import Graph, Node
from qpasses.ir.patterns import AnyStored, any_quantized_by, any_stored_input
from qpasses.ir.record import (
    SIGNALS,
    AnyQuantization,
    ChannelQuantization,
    NodeRecord,
    Quantization,
)
from qpasses.ir.rewriting import NOT_MINE, Context, Declined, Outcome, Pass, Rewritten
from qpasses.ir.stages import CLAMPING
from qpasses.lowering.numbers.knots import Lookup, channel_lookup, wide_lookup
from qpasses.lowering.numbers.table_entries import tabulate as tabulate
from qpasses.lowering.put_integer_node import (
    put_integer_node,
    scales,
    shared_tables,
    sources,
)


class IntegerizeChain(Pass):
    """Run a chain on all codes, and look its results up.

    before: ``y = Q(Mul(DQ(x), Sigmoid(DQ(x))))``
    after:  ``y = qpasses.Lut(x, table)``, of 16 bits ``qpasses.LutInterpolated`` or ``Lut16``
    **Exact:** the table holds what onnxruntime makes of every code, one node after the other,
    or, where the target computes tables in double, what onnx's reference evaluator makes, or
    what the target's own rules say (opsets.table_rules).
    A code for which the function is not defined (NaN) takes the result of the nearest code for
    which it is; infinities saturate. **Approximate** are lines between the knots of
    LutInterpolated, which are at most 4 steps of an int16 y from the full table, and equal to
    it on all codes for a y of 8 bits: elsewhere Lut16 holds it. Those of channels, a
    LutInterpolatedPerChannel, may be a step of 8 bits away, or make less noise than the
    rounding of y: elsewhere it is declined.
    """

    op_types: ClassVar = frozenset({"QuantizeLinear"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Put a table between the two stored tensors."""
        y, end = any_quantized_by(node, context.settings, SIGNALS), node.inputs[0]
        nodes, source = made_of(end, context.selection.excluded)
        if source is None or all(each.op in CLAMPING for each in nodes):
            return NOT_MINE  # of several tensors, nothing, or exact without a table
        if not context.target.tables:
            return NOT_MINE
        x = any_stored_input(source, context.settings, SIGNALS)
        if x is None or y is None:
            return NOT_MINE
        axes = differing_axes(nodes) | axes_of(x.quantization, y.quantization)
        if len(axes) > 1:
            return NOT_MINE
        names = [each.name for each in nodes]
        ends = x.quantization, y.quantization
        if reason := _no_words(*ends, context.target):
            return Declined(reason, of=names)
        function = Function.of(nodes, [source], end, graph.opset)
        try:
            found = lookup_of(function, *ends, axes, context.target)
        except ModelError as error:
            return Declined(str(error), of=names)
        low, high = x.quantization.limits
        if len(found.undefined) == high - low + 1:
            return Declined(
                f"{', '.join(function.ops)}: not defined for any code of its input", of=names
            )
        context.record.declined.pop(names[-1], None)  # multipliers that no target expresses
        return put_lookup(graph, found, nodes, x, y, function, context)


def put_lookup(
    graph: Graph,
    found: Lookup,
    nodes: Sequence[Node],
    x: AnyStored,
    y: AnyStored,
    function: Function,
    context: Context,
) -> Rewritten:
    """Put a table of ``nodes`` between two stored tensors, called after the last of them."""
    name = nodes[-1].name
    record = NodeRecord(
        source=sources(*nodes),
        scales=scales(x=x, y=y),
        function=function.as_text(),
        undefined=found.undefined,
    )
    table, *numbers = found.constants.values()
    inputs = [
        x.tensor,
        *shared_tables(name, {"table": table}, context),
        *(context.scalar(each.dtype.name, int(each)) for each in numbers),
    ]
    return put_integer_node(
        graph, found.op, name, inputs, y.tensor, found.attributes, record, context
    )


def _no_words(x: AnyQuantization, y: AnyQuantization, target: Target) -> str:
    """Why what has 16 bits at an end becomes no table, or nothing."""
    if "int16" not in (x.dtype, y.dtype) or has_wide_tables(target):
        return ""
    return f"target {target.name!r} has no tables of 16 bits in this version"


def lookup_of(
    function: Function, x: AnyQuantization, y: AnyQuantization, axes: set[int], target: Target
) -> Lookup:
    """The table, or tables along an axis. Raises ModelError."""
    if x.dtype != "int16":
        table, undefined = tabulate(function, x, y, target.table_rules)
        op = "LutPerChannel" if axes else "Lut"
        return Lookup(op, {"table": table}, {"axis": max(axes)} if axes else {}, undefined)
    if axes:
        return channel_lookup(function, x, y, max(axes), target)
    assert isinstance(x, Quantization) and isinstance(y, Quantization), "those of no axis"
    return wide_lookup(function, x, y, target)


def axes_of(*meanings: AnyQuantization) -> set[int]:
    """Along which channels have parameters of their own."""
    return {each.axis for each in meanings if isinstance(each, ChannelQuantization)}
