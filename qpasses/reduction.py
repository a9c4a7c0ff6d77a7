"""IntReduce in place of a sum or a mean."""

from collections.abc import Sequence
from fractions import Fraction
from math import prod

import numpy as np

from opsets.fixed_point import scale_to_multiplier
from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from opsets.qpasses_v1.int_reduce import DOUBLE_MULTIPLIER, DOUBLE_SHIFTS
from qpasses.evidence.reductions import sums
from qpasses.graph import Graph, Node, add_node
from qpasses.passes.base import Context, Declined
from qpasses.patterns import Stored, clamp
from qpasses.record import NodeRecord

LARGEST_DIVISOR = 1 << 62
"""cells * 2**shift, and twice a remainder of it, fit int64."""


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
    multiplier, shift = _scaled(ratio, mean, context)
    reachable = sums(count, x.quantization.zero_point, x.quantization.dtype)
    if not reachable.fits_int32() or (count << shift) >= LARGEST_DIVISOR:
        return Declined(f"{node.op} of so many elements that an integer could overflow")
    attributes = {
        "axes": list(axes),
        "keepdims": keepdims,
        "mean": mean,
        "rounding": target.rounding,
    }
    scaling = {
        "multiplier": np.array(multiplier, np.int32),
        "shift": np.array(shift, np.int32),
    }
    context.record.nodes[node.name] = NodeRecord(
        source=[node.name, *(each.name for each in absorbed)],
        scales={"x": [x.quantization.scale], "y": [meaning.scale]},
        overload=OPS["IntReduce"].body(context.flavour, scaling, attributes).overload,
        cells=count,
    )
    constants = [
        *(context.constant(f"{node.name}.{name}", value) for name, value in scaling.items()),
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


def _scaled(ratio: Fraction, mean: int, context: Context) -> tuple[int, int]:
    """Multiplier and shift of the target, or shorter ones for the fast body.

    A mean of 8 bits is off by 2**-13 of a step at most, a sum by 2**-22 of itself.
    """
    target, limit = context.target, DOUBLE_SHIFTS[mean]
    exact = scale_to_multiplier(ratio, target.multiplier_bits)
    is_wanted = target.fast_kernels and context.flavour == "onnxruntime"
    if not is_wanted or target.rounding != "half_to_even":
        return exact
    bits = DOUBLE_MULTIPLIER.bit_length() - 1
    multiplier, shift = scale_to_multiplier(ratio, min(bits, target.multiplier_bits))
    if mean and shift > limit:
        multiplier, shift = round(ratio * (1 << limit)), limit
    return (multiplier, shift) if multiplier and shift <= limit else exact
