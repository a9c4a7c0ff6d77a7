"""Growing states: what a state is at first has few of the codes that iterations make it need.

Around a loop there is one scale, that of the widest: of a state that grows on and on 8 bits
hold the end, and little or nothing of the beginning, from which all else follows.
"""

from collections.abc import Mapping

import numpy as np

from calibration import Range
from qpasses.ir.flow import CARRIED
from qpasses.ir.graph import Graph, Tensor
from qpasses.ir.patterns import real_value_of
from qpasses.place.alignment import few_codes
from qpasses.place.planning import Plan


def growing_states(
    graph: Graph,
    chosen: Plan,
    ranges: Mapping[str, Range],
    shared: Mapping[str, Range],
    codes: int,
) -> dict[str, int]:
    """By state of a Loop or Scan: how many of so many ``codes`` it has at first, if few.

    ``shared``: the ranges that tensors are stored with.
    """
    found = dict[str, int]()
    for node in graph.nodes:
        if node.op != CARRIED or id(node) not in chosen.integer:
            continue
        name, first = node.outputs[0].name, _first(node.inputs[0], ranges)
        if first is not None:
            found |= few_codes({name: first}, shared, codes)
    return found


def _first(tensor: Tensor, ranges: Mapping[str, Range]) -> Range | None:
    """The range of a tensor that is stored, or constant."""
    value = real_value_of(tensor)
    if value is None or not value.size:
        return ranges.get(tensor.name)
    return Range(float(np.min(value)), float(np.max(value)))
