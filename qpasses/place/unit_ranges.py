"""Unit ranges: results from 0 to 1 that a target stores in steps of 1 / 256."""

from dataclasses import replace

from calibration import Range
from qpasses.ir.graph import Graph
from qpasses.ir.settings import Settings
from qpasses.place.chains import find_chains
from qpasses.place.planning import Plan
from qpasses.place.ranges import UNIT, Ranges


def with_unit_ranges(graph: Graph, chosen: Plan, found: Ranges, settings: Settings) -> Ranges:
    """``found``, with 255 / 256 as the end of a Softmax of form ``gemmlowp``, and of a Sigmoid
    where the target has unit ranges for it.

    TFLite's kernels take no other. Tensors that an override matches keep what it says; the
    state that such a result is the next value of has its range.
    """
    low, high = settings.limits
    if high - low != 255:
        return found
    names = [
        node.outputs[0].name
        for node in chosen.computing
        if node.op == "Softmax" and settings.softmax == "gemmlowp"
    ]
    if settings.target.sigmoid_range == "unit":
        chains = find_chains(graph, chosen)
        names += [each.end for each in chains if each.function.ops == ["Sigmoid"]]
    names = [
        name
        for name in names
        if name in chosen.tensors and settings.rules.override(name) is None
    ]
    names += [start for start, end in chosen.states if end in names and start in found.ranges]
    return replace(
        found,
        ranges={**found.ranges, **dict.fromkeys(names, Range(0.0, 255 / 256))},
        methods={**found.methods, **dict.fromkeys(names, UNIT)},
    )
