"""Align: which tensors get one range, decided before Q/DQ are placed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from calibration import Range
from qpasses.ir.graph import Graph
from qpasses.ir.settings import Settings
from qpasses.place.alignment.groups import align, few_codes, is_padded, observed
from qpasses.place.alignment.joins import Join, concerned, judge_joins
from qpasses.place.alignment.moved_constants import clipped_constants
from qpasses.place.alignment.tpu_mlir_rules import spread, spread_thresholds
from qpasses.place.masked_scores import masked
from qpasses.place.placed_states import to_observe as states_to_observe
from qpasses.place.planning import Plan
from qpasses.place.ranges import Ranges

__all__ = [
    "Aligned",
    "Join",
    "align",
    "aligned",
    "clipped_constants",
    "concerned",
    "few_codes",
    "observed",
    "to_observe",
]


@dataclass(frozen=True)
class Aligned:
    """The range of each tensor of a plan, and what was decided at its joins."""

    ranges: dict[str, Range]
    joins: Sequence[Join] = ()


def to_observe(graph: Graph, chosen: Plan, settings: Settings) -> list[str]:
    """The tensors whose ranges ``aligned`` starts from."""
    needed = observed(graph, chosen)
    if settings.alignment == "tpu-mlir":
        needed = [n for n, t in chosen.tensors.items() if n in needed or not is_padded(t)]
    follow = {each.result for each in masked(graph, chosen) if each.scores in needed}
    found = [name for name in needed if name not in follow]
    return [*found, *(name for name in states_to_observe(chosen) if name not in found)]


def aligned(graph: Graph, chosen: Plan, found: Ranges, settings: Settings) -> Aligned:
    """The ranges that tensors are stored with, from those that were ``found``."""
    if settings.alignment == "tpu-mlir":
        ranges = dict(found.ranges)
        if settings.target.activations == "symmetric":
            ranges = spread_thresholds(graph, ranges)
        else:
            ranges = spread(graph, ranges)
        return Aligned(_with_states(chosen, {**align(graph, chosen, ranges), **ranges}))
    if not settings.target.tables:
        return Aligned(align(graph, chosen, found.ranges, found.of_functions))
    joins = judge_joins(
        graph, chosen, found.ranges, found.statistics, settings, found.of_functions
    )
    apart = [(each.tensor, each.result) for each in joins if each.table]
    ranges = align(graph, chosen, found.ranges, found.of_functions, apart)
    unlike = [
        replace(each, table=ranges[each.tensor] != ranges[each.result]) for each in joins
    ]
    return Aligned(ranges, unlike)


def _with_states(chosen: Plan, ranges: dict[str, Range]) -> dict[str, Range]:
    """``ranges``, where a state and its next value have the union of theirs."""
    for pair in chosen.states:
        if ranges.keys() >= {*pair}:
            ranges |= dict.fromkeys(pair, ranges[pair[0]].union(ranges[pair[1]]))
    return ranges
