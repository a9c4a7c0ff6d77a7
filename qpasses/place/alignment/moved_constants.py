"""Constants: what moving nodes put beside what they move, and whether ranges hold it."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from calibration import Range
from qpasses.ir.graph import Graph, Node
from qpasses.ir.moving import moved, moves
from qpasses.ir.patterns import value_of
from qpasses.place.alignment.groups import fill_of
from qpasses.place.planning import Plan
from qpasses.place.ranges import MASKED, Ranges

_ROUNDING = 1 / 512
"""Of the range: half a step of 8 bits, by which every number may be off."""


def clipped_constants(
    graph: Graph, chosen: Plan, found: Ranges, shared: Mapping[str, Range]
) -> dict[str, float]:
    """By integer node that moves constants, one of them that is beyond its range.

    Of nodes whose result is observed: behind a fill of minus infinity before a MaxPool
    nothing asks for it. Infinities saturate wherever they are wanted, as what drops scores.
    """
    clipped = {}
    for node in graph.nodes:
        name = node.outputs[0].name
        if not moves(node) or id(node) not in chosen.integer or name not in found.ranges:
            continue
        if found.methods[name] == MASKED:
            continue
        wanted = shared[name].with_zero()
        for value in _moved_constants(node):
            beyond = max(value - wanted.high, wanted.low - value)
            if np.isfinite(value) and beyond > _ROUNDING * wanted.width:
                clipped[node.name] = float(value)
    return clipped


def _moved_constants(node: Node) -> Iterator[np.floating[Any]]:
    """The extremes of each constant that a node moves, and what a Pad fills with."""
    constants = [value_of(tensor) for tensor in moved(node)]
    for value in [*constants, fill_of(node)]:
        if value is not None and value.size:
            yield from (value.min(), value.max())
