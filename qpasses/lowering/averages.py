"""Averages: which integers a pool or mean gets by the rules of a target, and its node."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opsets.fixed_point import ROUNDINGS
from opsets.forms import MEAN_FORMS, POOL_FORMS
from opsets.multipliers import Pair, ScaleError
from opsets.qpasses_v1 import OPS
from opsets.realised import node_rounding
from opsets.rounding import NodeRounding, wraps
from opsets.target import Target
from qpasses.evidence.thresholds import Interval
from qpasses.ir.graph import Graph, Node
from qpasses.ir.patterns import Stored, clamp
from qpasses.ir.record import NodeRecord, Quantization, middle_code
from qpasses.ir.rewriting import Context, Rewritten
from qpasses.lowering.put_integer_node import (
    own_constants,
    put_integer_node,
    scales,
    sources,
)

_ROUNDINGS: Mapping[str, NodeRounding] = {"divided": "half_away", "reciprocal": "half_up"}
"""Of the forms that round in their own way."""

_WIDEST = (1 << 31) - 1


@dataclass(frozen=True)
class Numbers:
    """The integers of an average; ``raw``: zero points are left in what it reads and writes.

    That moves ties only: input and output have one zero point then. Codes count as int8.
    """

    multiplier: int
    shift: int
    rounding: NodeRounding
    raw: bool = False


MOST_COUNTED = 1 << 20
"""Up to so many cells, a reciprocal gives what a division by them does."""

MOST_COUNTED_WORDS = 1 << 13
"""The same of cells of 16 bits."""

_CELLS_ALONE = Numbers(2, 1, "half_away")
"""1, as a node has it."""


def is_usual(target: Target) -> bool:
    """Whether a quotient by a number of cells that is known late can be its average."""
    rule = target.multiplier, target.min_shift, target.max_shift, target.elementwise
    return rule == ("nearest", 1, 61, None) and target.rounding in ROUNDINGS


def follows_shape(target: Target) -> bool:
    """Whether windows of an AveragePool may differ in size."""
    return is_usual(target) if target.average_pool == "requantized" else True


def pool_numbers(
    x: Quantization, y: Quantization, cells: int, reachable: Interval, target: Target
) -> Numbers:
    """Of a pool over so many cells, which sum to what is ``reachable``.

    Raises ScaleError for scales that the form does not take or the target cannot express.
    """
    form = POOL_FORMS[target.average_pool]
    if form.one_scale:
        _check_alike(x, y, target)
    pair = form.numbers(x.scale / y.scale, cells, target)
    rounding = _ROUNDINGS.get(target.average_pool) or node_rounding(target)
    found = _numbers(pair, rounding, reachable)
    return replace(found, raw=target.average_pool == "divided")


def counted_numbers(x: Quantization, y: Quantization, target: Target) -> Numbers:
    """Of a pool that divides each sum by the cells it has: 1, and ties go away from zero.

    That is form ``divided``, and ``reciprocal`` too, TOSA's AVG_POOL2D: of n cells it
    multiplies the sum by M = ((2**30 + 1) << k) // n, k = ceil(log2(n)), which is above
    2**(30 + k) / n, but by less than 2. So the product is farther from zero than the quotient,
    by less than 510 / 2**30, since a sum has at most 255 n levels: a tie goes away from zero,
    and nothing else, which is 1 / 2n from a tie at least, gets past one while n <=
    MOST_COUNTED. Of 16 bits the excess is 2**16 / 2**30 at most, and n <= MOST_COUNTED_WORDS.

    Raises ScaleError for two scales.
    """
    _check_alike(x, y, target)
    return replace(_CELLS_ALONE, raw=target.average_pool == "divided")


def _check_alike(x: Quantization, y: Quantization, target: Target) -> None:
    if x != y:
        raise ScaleError(
            f"target {target.name!r} needs input and output of one scale and zero point, "
            f"got {x.scale:.6g}, {x.zero_point} and {y.scale:.6g}, {y.zero_point}"
        )


def mean_numbers(
    x: Quantization, y: Quantization, cells: int, reachable: Interval, target: Target
) -> Numbers:
    """Of a ReduceMean: the multiplier holds 1 / cells. Raises ScaleError."""
    pair = MEAN_FORMS[target.mean].numbers(x.scale / y.scale, cells, target)
    return _numbers(pair, node_rounding(target), reachable)


def sum_numbers(
    x: Quantization, y: Quantization, reachable: Interval, target: Target
) -> Numbers:
    """Of a ReduceSum. Raises ScaleError."""
    pair = target.scale_to_multiplier(x.scale / y.scale)
    return _numbers(pair, node_rounding(target), reachable)


def _numbers(pair: Pair, rounding: NodeRounding, reachable: Interval) -> Numbers:
    """A pair as nodes have it: one rounding shifts by one place or more, to the right."""
    multiplier, shift = pair
    if rounding in ROUNDINGS and shift < 1:
        multiplier, shift = multiplier << (1 - shift), 1
    if multiplier > _WIDEST:
        raise ScaleError(f"no int32 multiplier scales by {pair[0]} * 2**{-pair[1]}")
    ends = np.concatenate([reachable.low, reachable.high])
    if wraps(ends, shift, rounding).any():
        raise ScaleError(f"its left shift by {31 - shift} could leave int32")
    return Numbers(multiplier, shift, rounding)


def put_average(
    graph: Graph,
    node: Node,
    op: str,
    ends: tuple[Stored, tuple[Stored, list[Node]]],
    numbers: Numbers,
    attributes: Mapping[str, Any],
    cells: int,
    context: Context,
) -> Rewritten:
    """Put ``op`` in place of ``node``, from stored x to stored y with what y absorbs."""
    x, (y, absorbed) = ends
    source, meaning = x.quantization, y.quantization
    zeros = source.zero_point, meaning.zero_point
    if numbers.raw:
        zeros = middle_code(source.dtype, 8), middle_code(meaning.dtype, 8)
    given = {**attributes, "rounding": numbers.rounding}
    shape = (1,) * len(OPS[op].constants["multiplier"].dims)
    scaling = {
        name: np.full(shape, value, np.int32)
        for name, value in (("multiplier", numbers.multiplier), ("shift", numbers.shift))
    }
    inputs = [
        x.tensor,
        context.scalar(source.dtype, zeros[0]),
        *own_constants(node.name, scaling, context),
        context.scalar(meaning.dtype, zeros[1]),
        *(context.scalar(meaning.dtype, code) for code in clamp(absorbed, meaning)),
    ]
    record = NodeRecord(sources(node, *absorbed), scales(x=x, y=y), cells=cells)
    return put_integer_node(graph, op, node.name, inputs, y.tensor, given, record, context)
