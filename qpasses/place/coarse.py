"""Coarse: a node whose input, in so few codes, cannot say what it computes stays float."""

from collections.abc import Container

from qpasses.ir.graph import Graph, Node
from qpasses.ir.rewriting import Context
from qpasses.place.planning import Plan
from qpasses.place.ranges import Ranges
from qpasses.place.tensor_parameters import step_of, word_parameters
from qpasses.place.words import NO_WORDS, reads_words, words_of

_WIDEST_STEP = 4.0
"""Of what a Softmax reads: the exponential of the next code is 50 times as large."""


def leave_coarse(
    graph: Graph, chosen: Plan, found: Ranges, given: Container[str], context: Context
) -> bool:
    """Exclude each Softmax and LogSoftmax whose input has steps above 4; whether there is one.

    So it is where rows are far apart: less the maximum of its own row, every number of the one
    and the other is small, but one scale has to reach from row to row. In 16 bits steps are
    less, where these are asked for and the node reads them. ``given``: the tensors that a
    quantized model stores itself, as it wants them.
    """
    settings, coarse = context.settings, list[tuple[Node, float]]()
    for node in [each for each in graph.nodes if id(each) in chosen.integer]:
        name = node.inputs[0].name
        if node.op in ("Softmax", "LogSoftmax") and name in found.ranges and name not in given:
            step = step_of(found.ranges[name], settings)
            if step > _WIDEST_STEP:
                coarse.append((node, step))
    words = words_of(graph, chosen, settings, given) if coarse else NO_WORDS
    reasons = dict[str, str]()
    for node, narrow in coarse:
        name, step = node.inputs[0].name, narrow
        if reads_words(node, chosen, words, settings):
            step = word_parameters(found.ranges[name], settings).scale
        if step > _WIDEST_STEP:
            reasons[node.name] = f"{node.op} of {name!r} in steps of {step:.3g}: too wide"
    context.selection.excluded.update(reasons)
    return bool(reasons)
