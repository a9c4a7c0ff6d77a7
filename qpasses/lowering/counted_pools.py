"""Windows of an AveragePool: where they lie, and IntCountedAveragePool where they differ."""

from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from opsets.division import LARGEST_DIVISOR_IN_INT64
from opsets.fixed_point import saturating_multiplier
from opsets.multipliers import ScaleError
from opsets.qpasses_v1.int_reduce import MOST_CELLS
from opsets.realised import node_rounding, takes_words
from opsets.word_products import multiplier_bits
from qpasses.evidence.prove_reductions import sums
from qpasses.ir.graph import Graph, Node
from qpasses.ir.patterns import Stored
from qpasses.ir.rewriting import Context, Declined, Outcome
from qpasses.ir.windows import all_pads, geometry_of
from qpasses.lowering.averages import (
    MOST_COUNTED,
    MOST_COUNTED_WORDS,
    Numbers,
    counted_numbers,
    follows_shape,
    put_average,
)


def put_counted(
    graph: Graph, node: Node, x: Stored, found: tuple[Stored, list[Node]], context: Context
) -> Outcome:
    """IntCountedAveragePool in place of ``node``, an AveragePool."""
    target, ends = context.target, (x.quantization, found[0].quantization)
    if not follows_shape(target):
        return Declined(
            f"AveragePool whose windows differ in size: target {target.name!r} has another "
            "multiplier for each"
        )
    attributes, cells = _attributes(node), prod(node.attrs["kernel_shape"])
    reachable = sums(cells, ends[0].zero_point, ends[0].dtype)
    form, is_wide = target.average_pool, "int16" in {each.dtype for each in ends}
    is_able = form == "requantized" or takes_words(target)
    if is_wide and not is_able:
        return Declined(
            f"AveragePool: target {target.name!r} has none of 16 bits in this version"
        )
    if form == "requantized":
        ratio = Fraction(ends[0].scale) / Fraction(ends[1].scale)
        bits = target.multiplier_bits
        if is_wide:
            _, largest = reachable.farthest()
            bits = multiplier_bits(abs(largest), bits)
        pair = saturating_multiplier(ratio, bits)
        numbers = Numbers(*pair, node_rounding(target))
    else:
        if form == "divided" and attributes["pads"] != attributes["uncounted_pads"]:
            return Declined(
                f"AveragePool whose padding counts: target {target.name!r} "
                "divides by cells alone"
            )
        most = MOST_COUNTED_WORDS if is_wide else MOST_COUNTED
        if form == "reciprocal" and cells > most:
            return Declined(f"AveragePool of more than {most:,} cells")
        try:
            numbers = counted_numbers(*ends, target)
        except ScaleError as error:
            return Declined(f"AveragePool: {error}")
    is_long = is_wide and cells > MOST_CELLS[2]
    is_long |= (cells << numbers.shift) >= LARGEST_DIVISOR_IN_INT64
    if is_long or not reachable.fits_int32():
        return Declined("AveragePool of so many cells that an integer could overflow")
    op = "IntCountedAveragePool"
    return put_average(graph, node, op, (x, found), numbers, attributes, 1, context)


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
