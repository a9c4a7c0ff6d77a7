"""Coarse: a node whose input, in so few codes, cannot say what it computes stays float."""

from collections.abc import Container

from qpasses.ir.graph import Graph
from qpasses.ir.rewriting import Context
from qpasses.place.placement import step_of
from qpasses.place.planning import Plan
from qpasses.place.ranges import Ranges

_WIDEST_STEP = 4.0
"""Of what a Softmax reads: the exponential of the next code is 50 times as large."""


def leave_coarse(
    graph: Graph, chosen: Plan, found: Ranges, given: Container[str], context: Context
) -> bool:
    """Exclude each Softmax and LogSoftmax whose input has steps above 4; whether there is one.

    So it is where rows are far apart: less the maximum of its own row, every number of the one
    and the other is small, but one scale has to reach from row to row. ``given``: the tensors
    that a quantized model stores itself, as it wants them.
    """
    reasons = {}
    for node in [each for each in graph.nodes if id(each) in chosen.integer]:
        name = node.inputs[0].name
        is_read = name in found.ranges and name not in given
        if node.op not in ("Softmax", "LogSoftmax") or not is_read:
            continue
        step = step_of(found.ranges[name], context.settings)
        if step > _WIDEST_STEP:
            reasons[node.name] = f"{node.op} of {name!r} in steps of {step:.3g}: too wide"
    context.selection.excluded.update(reasons)
    return bool(reasons)
