"""Whole ranges: whole numbers are stored so that none of them is rounded."""

from dataclasses import replace
from math import ceil

from calibration import Range
from qpasses.ir.graph import Graph
from qpasses.ir.settings import Settings
from qpasses.place.close_codes import (
    ONE_STEP,
    close_numbers,
    tensors_of_rules,
    whole_numbers,
)
from qpasses.place.planning import Plan
from qpasses.place.ranges import WHOLE_STEPS, Ranges
from qpasses.place.tensor_parameters import range_of_words, step_of, word_parameters


def with_whole_ranges(graph: Graph, chosen: Plan, found: Ranges, settings: Settings) -> Ranges:
    """``found``, of casts of whole numbers so much wider that the scale is 1 over a whole one.

    So a picture of bytes keeps its bytes. No method cuts extremes off, where these are known:
    a rare label is a label. Tensors that an override matches keep what it says.
    """
    names, known = whole_numbers(graph, chosen, found.ranges, settings), found.statistics
    whole = {
        name: known[name].range if name in known else found.ranges[name] for name in names
    }
    open_ = tensors_of_rules(chosen, (), settings)
    close = {*close_numbers(graph, chosen, whole, open_, settings)}
    wider = {name: _in_whole_steps(whole[name], settings, name in close) for name in names}
    return replace(
        found,
        ranges={**found.ranges, **wider},
        methods={**found.methods, **dict.fromkeys(wider, WHOLE_STEPS)},
    )


def _in_whole_steps(real: Range, settings: Settings, has_words: bool) -> Range:
    """Wider by less than half; of what 8 bits do not tell apart the range of 16."""
    real, step = real.with_zero(), step_of(real, settings)
    if step > ONE_STEP:
        count = int(ONE_STEP / word_parameters(real, settings).scale) if has_words else 0
        return range_of_words(1 / count) if count else real
    (low, high), count = settings.limits, int(ONE_STEP / step)
    if settings.is_symmetric(real.low):
        reach = (high - settings.middle) / count
        return Range(-reach, reach)
    below = min(ceil(-real.low * count), high - low)
    return Range(-below / count, (high - low - below) / count)
