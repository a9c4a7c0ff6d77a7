"""IntegerizeCountedAveragePool: averages over windows that may differ in size."""

from typing import ClassVar

from qpasses.ir.graph import Graph, Node
from qpasses.ir.patterns import stored_input, stored_output
from qpasses.ir.record import SIGNALS
from qpasses.ir.rewriting import Context, Declined, Outcome, Pass
from qpasses.ir.windows import guard_pool, has_equal_windows
from qpasses.lowering.counted_pools import put_counted


class IntegerizeCountedAveragePool(Pass):
    """Replace a quantized AveragePool whose windows may differ in size by an integer one.

    That is where padding does not count, or ceil_mode cuts windows off; sizes may be free.

    before: ``y = Q(AveragePool <pads = [1, 1, 1, 1]> (DQ(x)))``
    after:  ``y = qpasses.IntCountedAveragePool <pads, uncounted_pads> (x, x_zero, ...)``
    **Exact** up to the multiplier. Cells are those that onnxruntime's AveragePool divides by:
    what ceil_mode adds behind never counts, and no window begins there.
    """

    op_types: ClassVar = frozenset({"AveragePool"})

    def takes(self, node: Node) -> bool:
        """Those that IntAveragePool is not for."""
        return node.op in self.op_types and not has_equal_windows(node)

    def guard(self, graph: Graph, node: Node) -> Declined | None:
        """Pads that are written out, and a known number of channels."""
        return guard_pool(node)

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Put IntCountedAveragePool in place."""
        x = stored_input(node.inputs[0], context.settings, SIGNALS)
        found = stored_output(graph, node, context.settings, SIGNALS)
        if x is None or found is None:
            return Declined("input or output is not quantized per tensor to 8 bits")
        return put_counted(graph, node, x, found, context)
