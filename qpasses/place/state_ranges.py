"""State ranges: what a state of a recurrent node is stored as holds it in all steps."""

from dataclasses import replace

import numpy as np

from calibration import Range
from qpasses.ir.patterns import real_value_of
from qpasses.ir.recurrent_nodes import (
    INITIAL_C,
    INITIAL_H,
    Y_H,
    Y,
    given_inputs,
    given_outputs,
)
from qpasses.ir.settings import Settings
from qpasses.lowering.lstm_kernels import has_kernel
from qpasses.place.placed_states import cell_of, recurrent_nodes
from qpasses.place.planning import Plan
from qpasses.place.ranges import Ranges
from qpasses.place.tensor_parameters import range_of_power


def with_state_ranges(chosen: Plan, found: Ranges, settings: Settings) -> Ranges:
    """``found``, where all that holds a state has one range, constant first states in it too.

    A first state has the scale of the states of all steps, whether or not the last one is
    read, and it may be larger than any that follows. Cells of a kernel have powers of two as
    scales, wherever they are stored. Tensors that an override matches keep what it says.
    """
    ranges = dict(found.ranges)
    for node in recurrent_nodes(chosen):
        outputs, inputs = given_outputs(node), given_inputs(node)
        groups = [([outputs[Y].name, outputs[Y_H].name], inputs[INITIAL_H])]
        if node.op == "LSTM":
            groups.append(([cell_of(node)], inputs[INITIAL_C]))
        for place, (names, first) in enumerate(groups):
            known = [name for name in [*names, first.name] if name in ranges]
            spans = [ranges[name] for name in known]
            values = None if first.is_empty() else real_value_of(first)
            if values is not None and values.size:
                spans.append(Range(float(np.min(values)), float(np.max(values))))
            whole = spans[0]
            for each in spans[1:]:
                whole = whole.union(each)
            if place and has_kernel(node, settings.target):
                whole = range_of_power(whole)
            free = [name for name in known if settings.rules.override(name) is None]
            ranges |= dict.fromkeys(free, whole)
    return replace(found, ranges=ranges)
