"""IntegerizeAveragePool: averages over windows of one size become sums with a multiplier."""

from math import prod
from typing import Any, ClassVar

from opsets.multipliers import ScaleError
from qpasses.evidence.prove_reductions import sums
from qpasses.ir.graph import Graph, Node, spatial_shape
from qpasses.ir.patterns import stored_input, stored_output
from qpasses.ir.record import SIGNALS
from qpasses.ir.rewriting import Context, Declined, Outcome, Pass
from qpasses.ir.windows import geometry_of, guard_pool, has_equal_windows, is_global
from qpasses.lowering.averages import pool_numbers, put_average
from qpasses.lowering.counted_pools import put_counted
from qpasses.lowering.reduction import put_reduction
from qpasses.lowering.requantized import Accumulation, Replaced, emit_requantized


class IntegerizeAveragePool(Pass):
    """Replace a quantized AveragePool or GlobalAveragePool by an integer sum.

    Over a size that is known at run time only it is IntReduce. Of 16 bits it is
    IntCountedAveragePool, or IntReduce over all positions.

    before: ``y = Q(AveragePool(DQ(x)))``
    after:  ``y = qpasses.IntAveragePool(x, x_zero, multiplier, shift, y_zero, y_min, y_max)``
    **Exact** up to the multiplier, which holds x_scale / (y_scale * cells).
    """

    op_types: ClassVar = frozenset({"AveragePool", "GlobalAveragePool"})

    def takes(self, node: Node) -> bool:
        """Those with the same number of cells under every window."""
        return node.op in self.op_types and (
            node.op == "GlobalAveragePool" or has_equal_windows(node)
        )

    def guard(self, graph: Graph, node: Node) -> Declined | None:
        """Pads that are written out, and a known number of channels."""
        return guard_pool(node)

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Put IntAveragePool or IntGlobalAveragePool in place."""
        settings = context.settings
        x = stored_input(node.inputs[0], settings, SIGNALS)
        found = stored_output(graph, node, settings, SIGNALS)
        if x is None or found is None:
            return Declined("input or output is not quantized per tensor to 8 bits")
        spatial, form = spatial_shape(node.inputs[0]), context.target.average_pool
        is_wide = "int16" in (x.quantization.dtype, found[0].quantization.dtype)
        is_late = spatial is None or form == "divided" or is_wide
        if node.op == "GlobalAveragePool" and is_late:
            axes = list(range(2 - len(node.inputs[0].shape), 0))
            return put_reduction(graph, node, x, found, axes, 1, context)
        if form == "divided" or is_wide:
            return put_counted(graph, node, x, found, context)
        attributes: dict[str, Any] = {"channels": node.inputs[0].shape[1]}
        if node.op == "GlobalAveragePool" or is_global(node):
            op, cells = "IntGlobalAveragePool", prod(spatial or ())
            attributes["spatial_shape"] = list(spatial or ())
        else:
            op, kernel = "IntAveragePool", list(node.attrs["kernel_shape"])
            cells = prod(kernel)
            attributes |= {"kernel_shape": kernel, **geometry_of(node)}
        zero_point = x.quantization.zero_point
        reachable = sums(cells, zero_point, x.quantization.dtype)
        if form == "requantized" and context.target.elementwise is None:
            inputs = [x.tensor, context.scalar(x.quantization.dtype, zero_point)]
            acc = Accumulation(reachable, {"x": [x.quantization.scale]}, cells)
            replaced = Replaced(node, *found)
            return emit_requantized(graph, replaced, op, inputs, attributes, acc, context)
        if not reachable.fits_int32():
            return Declined(f"{node.op} of so many cells that an integer could overflow")
        y = found[0].quantization
        try:
            numbers = pool_numbers(x.quantization, y, cells, reachable, context.target)
        except ScaleError as error:
            return Declined(f"{node.op}: {error}")
        return put_average(graph, node, op, (x, found), numbers, attributes, cells, context)
