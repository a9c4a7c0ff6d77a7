"""Close codes: what 8 bits do not tell apart has 16 by rule, or stays in float."""

from collections.abc import Container, Mapping

from calibration import Range
from qpasses.ir.graph import Graph, producer, type_name
from qpasses.ir.rewriting import Context
from qpasses.ir.runtime import OPSET_INT16
from qpasses.ir.settings import Settings
from qpasses.ir.tensor_types import BYTE, types_of
from qpasses.ir.whole_numbers import BOUNDED, casts_whole_numbers
from qpasses.place.counted_sums import counted_sums
from qpasses.place.planning import Plan
from qpasses.place.ranges import Ranges
from qpasses.place.tensor_parameters import step_of, word_parameters
from qpasses.place.wide_periods import wide_periods
from qpasses.place.words import words_of

ONE_STEP = 1 + 2.0**-20
"""From one whole number to the next: steps are rounded to float32."""


def close_codes(
    graph: Graph,
    chosen: Plan,
    ranges: Mapping[str, Range],
    given: Container[str],
    settings: Settings,
) -> list[str]:
    """All such tensors: whole numbers, what sines read, sums that their counts divide.

    ``given``: the tensors of which the model says itself how they are stored.
    """
    if graph.opset < OPSET_INT16:
        return []
    open_ = tensors_of_rules(chosen, given, settings)
    found = [
        *close_numbers(graph, chosen, ranges, open_, settings),
        *wide_periods(graph, chosen, ranges, open_, settings),
        *counted_sums(chosen, ranges, open_, settings),
    ]
    return [*dict.fromkeys(found)]


def tensors_of_rules(chosen: Plan, given: Container[str], settings: Settings) -> set[str]:
    """Those of a plan of which neither the model nor the user says that they have 8 bits."""
    types = types_of(settings.tensor_types, [*chosen.tensors])
    return {n for n in chosen.tensors if n not in given and types.get(n) != BYTE}


def close_numbers(
    graph: Graph,
    chosen: Plan,
    ranges: Mapping[str, Range],
    among: Container[str],
    settings: Settings,
) -> list[str]:
    """What casts make of whole numbers that lie closer than codes of 8 bits: positions, times.

    Not of those of 8 bits, which the user wants in fewer codes then.
    """
    found = []
    for name in whole_numbers(graph, chosen, ranges, settings):
        cast = producer(chosen.tensors[name])
        assert cast is not None
        if name in among and type_name(cast.inputs[0].dtype) not in BOUNDED:
            found += [name] if step_of(ranges[name], settings) > ONE_STEP else []
    return found


def whole_numbers(
    graph: Graph, chosen: Plan, ranges: Mapping[str, Range], settings: Settings
) -> list[str]:
    """What casts of whole numbers write that is going to be stored, by calibration alone."""
    nodes = [node for node in graph.nodes if id(node) in chosen.integer]
    names = [node.outputs[0].name for node in nodes if casts_whole_numbers(node)]
    return [name for name in names if name in ranges and not settings.rules.override(name)]


def leave_wide(
    graph: Graph, chosen: Plan, found: Ranges, given: Container[str], context: Context
) -> bool:
    """Exclude each Cast of ``close_numbers`` that can have no 16 bits either; whether there is
    one.
    """
    settings, ranges = context.settings, found.ranges
    open_ = tensors_of_rules(chosen, given, settings)
    close, reasons = close_numbers(graph, chosen, ranges, open_, settings), dict[str, str]()
    if not close:
        return False
    wanted = close_codes(graph, chosen, ranges, given, settings)
    words = words_of(graph, chosen, settings, given, close=wanted)
    for name in close:
        why = words.narrow.get(name, "")
        if graph.opset < OPSET_INT16:
            why = f"opset {graph.opset} has no tensors of int16"
        elif not why and word_parameters(ranges[name], settings).scale > ONE_STEP:
            why = "16 bits do not either"
        cast = producer(chosen.tensors[name])
        if why and cast is not None:
            reason = f"Cast to {name!r}: 8 bits do not tell its whole numbers apart, and {why}"
            reasons[cast.name] = reason
    context.selection.excluded.update(reasons)
    return bool(reasons)
