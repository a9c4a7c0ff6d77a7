"""Whole ranges: whole numbers are stored so that none of them is rounded."""

from collections.abc import Container, Mapping
from dataclasses import replace
from math import ceil

from calibration import Range
from qpasses.ir.graph import Graph, producer, type_name
from qpasses.ir.rewriting import Context
from qpasses.ir.runtime import OPSET_INT16
from qpasses.ir.settings import Settings
from qpasses.ir.tensor_types import BYTE, types_of
from qpasses.ir.whole_numbers import BOUNDED, casts_whole_numbers
from qpasses.place.counted_sums import counted_sums
from qpasses.place.planning import Plan
from qpasses.place.ranges import WHOLE_STEPS, Ranges
from qpasses.place.tensor_parameters import range_of_words, step_of, word_parameters
from qpasses.place.wide_periods import wide_periods
from qpasses.place.words import words_of


def with_whole_ranges(graph: Graph, chosen: Plan, found: Ranges, settings: Settings) -> Ranges:
    """``found``, of casts of whole numbers so much wider that the scale is 1 over a whole one.

    So a picture of bytes keeps its bytes. No method cuts extremes off, where these are known:
    a rare label is a label. Tensors that an override matches keep what it says.
    """
    names, known = _casts(graph, chosen, found.ranges, settings), found.statistics
    whole = {
        name: known[name].range if name in known else found.ranges[name] for name in names
    }
    close = {*close_numbers(graph, chosen, whole, (), settings)}
    wider = {name: _in_whole_steps(whole[name], settings, name in close) for name in names}
    return replace(
        found,
        ranges={**found.ranges, **wider},
        methods={**found.methods, **dict.fromkeys(wider, WHOLE_STEPS)},
    )


def _in_whole_steps(real: Range, settings: Settings, has_words: bool) -> Range:
    """Wider by less than half; of what 8 bits do not tell apart the range of 16."""
    real, step = real.with_zero(), step_of(real, settings)
    if step > _ONE:
        count = int(_ONE / word_parameters(real, settings).scale) if has_words else 0
        return range_of_words(1 / count) if count else real
    (low, high), count = settings.limits, int(_ONE / step)
    if settings.is_symmetric(real.low):
        reach = (high - settings.middle) / count
        return Range(-reach, reach)
    below = min(ceil(-real.low * count), high - low)
    return Range(-below / count, (high - low - below) / count)


_ONE = 1 + 2.0**-20
"""Steps are rounded to float32."""


def close_numbers(
    graph: Graph,
    chosen: Plan,
    ranges: Mapping[str, Range],
    given: Container[str],
    settings: Settings,
) -> list[str]:
    """What casts make of whole numbers that lie closer than codes of 8 bits: positions, times.

    Not of those of 8 bits, which the user wants in fewer codes then. ``given``: the tensors of
    which the model says itself how they are stored.
    """
    types = types_of(settings.tensor_types, [*chosen.tensors])
    found = []
    for name in _casts(graph, chosen, ranges, settings):
        cast = producer(chosen.tensors[name])
        assert cast is not None
        is_open = name not in given and types.get(name) != BYTE
        if is_open and type_name(cast.inputs[0].dtype) not in BOUNDED:
            found += [name] if step_of(ranges[name], settings) > _ONE else []
    return found


def close_codes(
    graph: Graph,
    chosen: Plan,
    ranges: Mapping[str, Range],
    given: Container[str],
    settings: Settings,
) -> list[str]:
    """All tensors whose numbers 8 bits do not tell apart: these, what sines read, and sums
    that are divided by how many were added.
    """
    if graph.opset < OPSET_INT16:
        return []
    of = graph, chosen, ranges, given, settings
    sums = counted_sums(chosen, ranges, given, settings)
    return [*dict.fromkeys([*close_numbers(*of), *wide_periods(*of), *sums])]


def leave_wide(
    graph: Graph, chosen: Plan, found: Ranges, given: Container[str], context: Context
) -> bool:
    """Exclude each Cast of ``close_numbers`` that can have no 16 bits either; whether there is
    one.
    """
    settings, ranges = context.settings, found.ranges
    close = close_numbers(graph, chosen, ranges, given, settings)
    if not close:
        return False
    wanted = close_codes(graph, chosen, ranges, given, settings)
    words, casts = words_of(graph, chosen, settings, given, close=wanted), chosen.tensors
    for name in close:
        why = words.narrow.get(name, "")
        if graph.opset < OPSET_INT16:
            why = f"opset {graph.opset} has no tensors of int16"
        elif not why and word_parameters(ranges[name], settings).scale > _ONE:
            why = "16 bits do not either"
        if why:
            reason = f"Cast to {name!r}: 8 bits do not tell its whole numbers apart, and {why}"
            context.selection.excluded[casts[name].inputs[0].name] = reason
    return any(casts[name].inputs[0].name in context.selection.excluded for name in close)


def _casts(
    graph: Graph, chosen: Plan, ranges: Mapping[str, Range], settings: Settings
) -> list[str]:
    """What casts of whole numbers write that is going to be stored, by calibration alone."""
    nodes = [node for node in graph.nodes if id(node) in chosen.integer]
    names = [node.outputs[0].name for node in nodes if casts_whole_numbers(node)]
    return [name for name in names if name in ranges and not settings.rules.override(name)]
