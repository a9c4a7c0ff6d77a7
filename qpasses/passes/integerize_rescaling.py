"""IntegerizeRescaling: a tensor stored anew at another scale becomes a table lookup."""

from fractions import Fraction
from typing import ClassVar

import numpy as np

from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from qpasses.edges import byte_codes
from qpasses.graph import Graph, Node, add_node, is_graph_output
from qpasses.passes.base import Context, Declined, Pass
from qpasses.patterns import quantized_by, stored_input
from qpasses.record import NodeRecord, Quantization


class IntegerizeRescaling(Pass):
    """Replace DequantizeLinear directly followed by QuantizeLinear.

    before: ``y = Q(DQ(x))``
    after:  ``y = qpasses.Lut(x, table)``, or x itself where nothing changes
    **Exact:** the table holds the rescaled value of every code.
    """

    op_types: ClassVar = frozenset({"QuantizeLinear"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Declined | None:
        """Put a table between the two stored tensors."""
        settings = context.settings
        x, y = stored_input(node.inputs[0], settings), quantized_by(node, settings)
        if x is None or y is None:
            return None  # the edge of the integer part
        if x.quantization == y.quantization and not is_graph_output(graph, y.tensor):
            for reader in list(y.tensor.outputs):
                for index, tensor in enumerate(reader.inputs):
                    if tensor is y.tensor:
                        reader.inputs[index] = x.tensor
            return None
        if not context.target.tables:
            return Declined(
                f"another scale for {x.tensor.name!r} needs a table: target "
                f"{context.target.name!r} has none"
            )
        table = rescaling_table(x.quantization, y.quantization)
        context.record.nodes[node.name] = NodeRecord(
            source=[node.name],
            scales={"x": [x.quantization.scale], "y": [y.quantization.scale]},
            overload=OPS["Lut"].body(context.flavour, {}, {}).overload,
        )
        add_node(
            graph,
            "Lut",
            node.name,
            [x.tensor, context.table(f"{node.name}.table", table)],
            [y.tensor],
            domain=DOMAIN,
        )
        return None


def rescaling_table(x: Quantization, y: Quantization) -> np.ndarray:
    """[256] of y's type, ordered by the byte of x: the stored y of each stored x."""
    codes = byte_codes(x).astype(np.int64)
    reals = [Fraction(x.scale) * int(code - x.zero_point) for code in codes]
    low, high = y.limits
    levels = [round(real / Fraction(y.scale)) + y.zero_point for real in reals]
    return np.clip(np.array(levels, np.float64), low, high).astype(y.dtype)
