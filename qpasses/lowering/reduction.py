"""IntReduce in place of a sum or a mean."""

from collections.abc import Sequence
from fractions import Fraction
from math import prod

from opsets.division import LARGEST_DIVISOR_IN_INT64
from opsets.fixed_point import saturating_multiplier
from opsets.multipliers import ScaleError
from opsets.qpasses_v1.int_reduce import DIVIDES, DOUBLE_MULTIPLIER, DOUBLE_SHIFTS, FOLDED
from opsets.realised import node_rounding, takes_words
from opsets.target import Target
from qpasses.evidence.prove_reductions import sums
from qpasses.evidence.thresholds import Interval
from qpasses.ir.graph import Graph, Node
from qpasses.ir.patterns import Stored
from qpasses.ir.record import Quantization
from qpasses.ir.rewriting import Context, Declined, Outcome
from qpasses.lowering.averages import (
    Numbers,
    is_usual,
    mean_numbers,
    pool_numbers,
    put_average,
    sum_numbers,
)


def put_reduction(
    graph: Graph,
    node: Node,
    x: Stored,
    found: tuple[Stored, list[Node]],
    axes: Sequence[int],
    keepdims: int,
    context: Context,
) -> Outcome:
    """IntReduce in place of ``node``, which is a sum if its op says so, else a mean."""
    y = found[0].quantization
    count = _count(x, axes, context)
    if count is None:
        return Declined(f"{node.op} of a tensor whose size is not known on the first sample")
    reachable = sums(count, x.quantization.zero_point, x.quantization.dtype)
    try:
        numbers, mean = _numbers(node, x, y, count, axes, reachable, context)
    except ScaleError as error:
        return Declined(f"{node.op}: {error}")
    is_wide = mean != FOLDED and (count << max(numbers.shift, 0)) >= LARGEST_DIVISOR_IN_INT64
    if not reachable.fits_int32() or is_wide:
        return Declined(f"{node.op} of so many elements that an integer could overflow")
    attributes = {"axes": list(axes), "keepdims": keepdims, "mean": mean}
    return put_average(
        graph, node, "IntReduce", (x, found), numbers, attributes, count, context
    )


def _numbers(
    node: Node,
    x: Stored,
    y: Quantization,
    count: int,
    axes: Sequence[int],
    reachable: Interval,
    context: Context,
) -> tuple[Numbers, int]:
    """What the node gets, and its attribute ``mean``. Raises ScaleError."""
    target = context.target
    forms = {"GlobalAveragePool": target.average_pool, "ReduceMean": target.mean}
    form = forms.get(node.op, "requantized")
    is_wide = "int16" in (x.quantization.dtype, y.dtype)
    if is_wide and not ((form == "requantized" and is_usual(target)) or takes_words(target)):
        raise ScaleError(f"target {target.name!r} has none of 16 bits in this version")
    if form == "divided":
        return pool_numbers(x.quantization, y, count, reachable, target), DIVIDES
    if form == "requantized" and is_usual(target):
        ratio = Fraction(x.quantization.scale) / Fraction(y.scale)
        mean = DIVIDES if node.op != "ReduceSum" else 0
        return Numbers(*_scaled(ratio, mean, target), node_rounding(target)), mean
    if node.op == "ReduceSum":
        return sum_numbers(x.quantization, y, reachable, target), 0
    if not all(isinstance(x.tensor.shape[axis], int) for axis in axes):
        raise ScaleError(f"target {target.name!r} has another multiplier for each size")
    if form == "reciprocal":
        return pool_numbers(x.quantization, y, count, reachable, target), FOLDED
    return mean_numbers(x.quantization, y, count, reachable, target), FOLDED


def _count(x: Stored, axes: Sequence[int], context: Context) -> int | None:
    """How many elements are summed, for the sizes of the first sample."""
    shape = context.sizes.get(x.tensor.name, x.tensor.shape)
    sizes = [shape[axis] for axis in axes]
    return max(1, prod(sizes)) if all(isinstance(size, int) for size in sizes) else None


def _scaled(ratio: Fraction, mean: int, target: Target) -> tuple[int, int]:
    """Multiplier and shift of the target, or shorter ones that a fast body computes.

    Whichever bodies are wanted (docs/decisions/0003-one-meaning-for-all-bodies.md). A mean of
    8 bits is off by 2**-13 of a step at most, a sum by 2**-22 of itself.
    """
    limit = DOUBLE_SHIFTS[mean]
    exact = saturating_multiplier(ratio, target.multiplier_bits)
    if not target.fast_kernels or target.rounding != "half_to_even":
        return exact
    bits = DOUBLE_MULTIPLIER.bit_length() - 1
    multiplier, shift = saturating_multiplier(ratio, min(bits, target.multiplier_bits))
    if mean and shift > limit:
        multiplier, shift = round(ratio * (1 << limit)), limit
    return (multiplier, shift) if multiplier and shift <= limit else exact
