"""Table ranges: what a chain can give, run over the codes of its source."""

from dataclasses import replace

import numpy as np

from calibration import Range
from qpasses.ir.edges import dequantize
from qpasses.ir.function import Function
from qpasses.ir.graph import Graph
from qpasses.ir.settings import Settings
from qpasses.place.alignment import aligned
from qpasses.place.chains import find_chains
from qpasses.place.planning import Plan
from qpasses.place.ranges import FUNCTION, Ranges
from qpasses.place.tensor_parameters import activation_parameters


def with_function_ranges(
    graph: Graph, chosen: Plan, found: Ranges, settings: Settings
) -> Ranges:
    """``found``, the ends of chains with the extremes of their functions instead.

    In graph order, so that a chain behind another one starts from the codes which that one's
    new range gives. Tensors that an override matches keep what it says, and so do those
    whose function gives no finite number.
    """
    for chain in find_chains(graph, chosen):
        if settings.rules.override(chain.end) is not None:
            continue
        shared = aligned(graph, chosen, found, settings).ranges
        extremes = _extremes(chain.function, shared[chain.source], settings)
        if extremes is not None:
            found = replace(
                found,
                ranges={**found.ranges, chain.end: extremes},
                methods={**found.methods, chain.end: FUNCTION},
            )
    return found


def _extremes(function: Function, real: Range, settings: Settings) -> Range | None:
    """Of the finite results for the codes that store ``real``; None where there are none."""
    stored = activation_parameters(real, settings)
    low, high = stored.limits
    x = dequantize(np.arange(low, high + 1), stored, settings.target.float_type)
    results = function.computed(function.inputs(x))
    finite = results[np.isfinite(results)]
    return Range(float(finite.min()), float(finite.max())) if finite.size else None
