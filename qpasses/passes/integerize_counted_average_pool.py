"""IntegerizeCountedAveragePool: averages over windows that may differ in size."""

from fractions import Fraction
from math import prod
from typing import Any, ClassVar

import numpy as np

from opsets.fixed_point import scale_to_multiplier
from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from qpasses.evidence.reductions import sums
from qpasses.graph import Graph, Node, add_node
from qpasses.passes.base import Context, Declined, Pass
from qpasses.passes.integerize_average_pool import (
    all_pads,
    geometry_of,
    guard_pool,
    has_equal_windows,
)
from qpasses.patterns import Stored, clamp, stored_input, stored_output
from qpasses.record import NodeRecord

LARGEST_DIVISOR = 1 << 62
"""cells * 2**shift, and twice a remainder of it, fit int64."""


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

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Declined | None:
        """Put IntCountedAveragePool in place."""
        x = stored_input(node.inputs[0], context.settings)
        found = stored_output(graph, node, context.settings)
        if x is None or found is None:
            return Declined("input or output is not quantized per tensor to 8 bits")
        target, meaning = context.target, found[0].quantization
        ratio = Fraction(x.quantization.scale) / Fraction(meaning.scale)
        multiplier, shift = (
            np.array(each, np.int32)
            for each in scale_to_multiplier(ratio, target.multiplier_bits)
        )
        cells = prod(node.attrs["kernel_shape"])
        reachable = sums(cells, x.quantization.zero_point, x.quantization.dtype)
        if not reachable.fits_int32() or (cells << int(shift)) >= LARGEST_DIVISOR:
            return Declined("AveragePool of so many cells that an integer could overflow")
        attributes = _attributes(node) | {"rounding": target.rounding}
        constants = {"multiplier": multiplier, "shift": shift}
        body = OPS["IntCountedAveragePool"].body(context.flavour, constants, attributes)
        context.record.nodes[node.name] = NodeRecord(
            source=[node.name, *(each.name for each in found[1])],
            scales={"x": [x.quantization.scale], "y": [meaning.scale]},
            overload=body.overload,
        )
        _put(graph, node, x, found, constants, attributes, context)
        return None


def _attributes(node: Node) -> dict[str, Any]:
    """Where windows lie, and the padding that does not count: ceil_mode's never does."""
    geometry, pads = geometry_of(node), all_pads(node)
    counted = geometry["pads"] if node.attrs.get("count_include_pad", 0) else [0] * len(pads)
    return {
        "channels": node.inputs[0].shape[1],
        "kernel_shape": list(node.attrs["kernel_shape"]),
        **geometry,
        "pads": pads,
        "uncounted_pads": np.subtract(pads, counted).tolist(),
    }


def _put(
    graph: Graph,
    node: Node,
    x: Stored,
    found: tuple[Stored, list[Node]],
    constants: dict[str, Any],
    attributes: dict[str, Any],
    context: Context,
) -> None:
    y, absorbed = found
    meaning = y.quantization
    ends = meaning.zero_point, *clamp(absorbed, meaning)
    inputs = [
        x.tensor,
        context.scalar(x.quantization.dtype, x.quantization.zero_point),
        *(context.constant(f"{node.name}.{name}", each) for name, each in constants.items()),
        *(context.scalar(meaning.dtype, value) for value in ends),
    ]
    add_node(
        graph,
        "IntCountedAveragePool",
        node.name,
        inputs,
        [y.tensor],
        attributes=attributes,
        domain=DOMAIN,
    )
