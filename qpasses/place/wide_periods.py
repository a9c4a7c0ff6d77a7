"""Wide periods: what Sin and Cos read in steps that are no small part of a period."""

from collections.abc import Container, Mapping

import numpy as np

from calibration import Range
from qpasses.ir.edges import byte_codes
from qpasses.ir.graph import Graph
from qpasses.ir.settings import Settings
from qpasses.place.chains import find_chains
from qpasses.place.planning import Plan
from qpasses.place.tensor_parameters import activation_parameters

_PERIODIC = frozenset({"Cos", "Sin"})

_MOST = 0.25
"""Of what a function spans, so much from one code to the next: half a radian of a sine."""


def wide_periods(
    graph: Graph,
    chosen: Plan,
    ranges: Mapping[str, Range],
    among: Container[str],
    settings: Settings,
) -> list[str]:
    """The tensors ``among`` some of which such a function jumps from code to code."""
    found = list[str]()
    for chain in find_chains(graph, chosen):
        name, function = chain.source, chain.function
        is_open = name in ranges and name in among
        if not is_open or _PERIODIC.isdisjoint(function.ops):
            continue
        stored = activation_parameters(ranges[name], settings)
        levels = np.sort(byte_codes(stored).astype(np.int64)) - stored.zero_point
        x = (levels * stored.scale).astype(np.float32)
        y = np.atleast_2d(function.run(function.inputs(x)))
        spans = y.max(axis=1) - y.min(axis=1)
        if (np.abs(np.diff(y, axis=1)).max(axis=1) > _MOST * spans).any():
            found.append(name)
    return found
