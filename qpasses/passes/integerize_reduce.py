"""IntegerizeReduce: sums and means over any axes become integer sums."""

from collections.abc import Sequence
from fractions import Fraction
from math import prod
from typing import ClassVar

import numpy as np

from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from qpasses.evidence.reductions import sums
from qpasses.graph import Graph, Node, add_node, constant, input_at, is_float, rank
from qpasses.passes.base import Context, Declined, Pass
from qpasses.patterns import Stored, clamp, stored_input, stored_output
from qpasses.record import NodeRecord

LARGEST_DIVISOR = 1 << 62
"""cells * 2**shift, and twice a remainder of it, fit int64."""


class IntegerizeReduce(Pass):
    """Replace a quantized ReduceMean or ReduceSum by one integer node.

    before: ``y = Q(ReduceMean(DQ(x), axes))``
    after:  ``y = qpasses.IntReduce <axes, keepdims, mean> (x, x_zero, multiplier, ...)``
    **Exact** up to the multiplier. The number of cells is asked at run time, so sizes may be
    free. It is a follower: what it reads is on integers already, or it stays float.
    """

    op_types: ClassVar = frozenset({"ReduceMean", "ReduceSum"})

    def guard(self, graph: Graph, node: Node) -> Declined | None:
        """Axes and rank that are known."""
        if not is_float(node.outputs[0]):
            return None  # shape arithmetic
        if reduced_axes(node) is None:
            return Declined(f"{node.op} over axes or a rank that is not known")
        return None

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Declined | None:
        """Put IntReduce in place."""
        x, found = (
            stored_input(node.inputs[0], context.settings),
            stored_output(graph, node, context.settings),
        )
        if x is None and found is None:
            return None  # all in float
        axes = reduced_axes(node)
        if x is None or found is None or axes is None:
            return Declined("input or output is not quantized per tensor to 8 bits")
        keep = int(node.attrs.get("keepdims", 1))
        return put_reduction(graph, node, x, found, axes, keep, context)


def reduced_axes(node: Node) -> list[int] | None:
    """The axes a node reduces, counted from the end, where they are known."""
    dims, axes = rank(node.inputs[0]), constant(input_at(node, 1))
    if dims is None or (axes is None and input_at(node, 1) is not None):
        return None
    given = node.attrs.get("axes", []) if axes is None else np.ravel(axes).tolist()
    if not given and node.attrs.get("noop_with_empty_axes", 0):
        return None
    return sorted((int(axis) % dims) - dims for axis in given or range(dims))


def put_reduction(
    graph: Graph,
    node: Node,
    x: Stored,
    found: tuple[Stored, list[Node]],
    axes: Sequence[int],
    keepdims: int,
    context: Context,
) -> Declined | None:
    """IntReduce in place of ``node``, which is a sum if its op says so, else a mean."""
    y, absorbed = found
    count = _count(x, axes, context)
    if count is None:
        return Declined(f"{node.op} of a tensor whose size is not known on the first sample")
    mean = int(node.op != "ReduceSum")
    meaning, target = y.quantization, context.target
    ratio = Fraction(x.quantization.scale) / Fraction(meaning.scale)
    multiplier, shift = target.scale_to_multiplier(ratio)
    reachable = sums(count, x.quantization.zero_point, x.quantization.dtype)
    if not reachable.fits_int32() or (count << shift) >= LARGEST_DIVISOR:
        return Declined(f"{node.op} of so many elements that an integer could overflow")
    attributes = {
        "axes": list(axes),
        "keepdims": keepdims,
        "mean": mean,
        "rounding": target.rounding,
    }
    context.record.nodes[node.name] = NodeRecord(
        source=[node.name, *(each.name for each in absorbed)],
        scales={"x": [x.quantization.scale], "y": [meaning.scale]},
        rule=f"{target.multiplier_bits}-bit, {target.rounding}: nearest to real arithmetic",
        overload=OPS["IntReduce"].body(context.flavour, {}, attributes).overload,
        cells=count,
    )
    constants = [
        context.constant(f"{node.name}.multiplier", np.array(multiplier, np.int32)),
        context.constant(f"{node.name}.shift", np.array(shift, np.int32)),
        *(
            context.scalar(meaning.dtype, value)
            for value in (meaning.zero_point, *clamp(absorbed, meaning))
        ),
    ]
    zero = context.scalar(x.quantization.dtype, x.quantization.zero_point)
    add_node(
        graph,
        "IntReduce",
        node.name,
        [x.tensor, zero, *constants],
        [y.tensor],
        attributes=attributes,
        domain=DOMAIN,
    )
    return None


def _count(x: Stored, axes: Sequence[int], context: Context) -> int | None:
    """How many elements are summed, for the sizes of the first sample."""
    shape = context.sizes.get(x.tensor.name, x.tensor.shape)
    sizes = [shape[axis] for axis in axes]
    return max(1, prod(sizes)) if all(isinstance(size, int) for size in sizes) else None
