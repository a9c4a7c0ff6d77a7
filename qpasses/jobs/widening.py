"""Widening: which tensors get 16 bits, by what each costs the outputs and its width in time.

The noise that each tensor alone causes adds up at the outputs, so that the set for a goal is a
sort: a model in 8 bits is walked through once, and made again with those that are chosen.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from calibration import Samples
from opsets.errors import ModelError
from qpasses.analysis.costing import Costs, costs_of
from qpasses.analysis.walking import looked_at
from qpasses.checking.meaning import Pair
from qpasses.checking.verification import compared
from qpasses.ir.commands import QuantizeOptions
from qpasses.ir.graph import Graph
from qpasses.ir.record import Record
from qpasses.ir.tensor_types import WORD
from qpasses.jobs.goals import Goals, Reached
from qpasses.jobs.judging import sized_as
from qpasses.jobs.resolving import Job, with_settings
from qpasses.jobs.weighing import Scales
from qpasses.jobs.widths import Widths
from qpasses.load.integer_model import read_integer_model
from qpasses.pipeline import Stage, State, placed, quantized

_ROUNDS = 4
"""So often a model is made at most."""

_HALVES = 8
"""So often where a metric may fall by so much: noise does not tell how far it falls."""

_LITTLE = 0.1
"""Of what stays: to halve less than that changes no metric."""

_WALKED = 4
"""Samples on which costs are measured."""

_SECONDS = 60.0
"""So long they are at most, each time."""

_MARGIN = 0.9
"""Of the noise that is allowed: sums predict it to within half a decibel."""

_NUMBER = 16
"""A number that is stored takes the time of so many products."""


def chooses_widths(job: Job, asked: QuantizeOptions) -> bool:
    """Whether tensors get 16 bits by what they cost."""
    return asked.accuracy == "best" or bool(job.goals.asked)


def widened(job: Job, behind: Callable[[Stage, State], None]) -> tuple[Job, State, Widths]:
    """The job with the types of tensors that it ends with, what came of it, and how near."""
    settings, goals = job.start.settings, job.goals
    user, costs, refused = [*settings.tensor_types], dict[str, float](), dict[str, str]()
    job = with_settings(job, emit="integer")
    rounds, course = list[dict[str, Any]](), _Course(goals)
    scales = Scales(job.source, goals.drop)

    def begun(stage: Stage, state: State) -> None:
        behind(stage, state)
        if stage is placed:  # a metric that fails does so before the work
            scales.begin(state)

    while True:
        made = quantized(job.start, begun if not rounds else None)
        refused |= made.refused
        reached = scales.reached(made)
        found = {"sqnr_db": reached.sqnr_db, "metric": reached.integer}
        rounds.append({"tensors": len(costs), **found})
        if goals.are_met(reached) or len(rounds) == course.rounds or made.unfinished:
            break
        measured, pair = _costs(job, made, scales.judges)
        limit = course.limit(reached, len(rounds))
        more = _chosen(made, pair, measured, limit, {*costs, *refused})
        if not more:
            break
        costs |= more
        types = [*user, *(f"{re.escape(name)}={WORD}" for name in costs)]
        job = with_settings(job, tensor_types=types)
    if settings.emit != "integer":
        job = with_settings(job, emit=settings.emit)
        made = quantized(job.start)
    order = sorted(costs, key=costs.__getitem__, reverse=True)
    wide = [name for name in order if name not in refused]
    held, judges = len(made.held_back) > 0, len(scales.judges)
    return job, made, Widths(goals, reached, judges, held, wide, refused, rounds)


@dataclass(frozen=True)
class _Limit:
    """Noise that may be left: ``aim``, in all; a ``share`` of that of activations of 8 bits.

    With neither so much as what stays causes.
    """

    aim: float | None = None
    share: float | None = None

    def of(self, left: float, stays: float) -> float:
        """What of the noise that is ``left`` may be, beside that which ``stays``."""
        limits = [] if self.aim is None else [max(self.aim - stays, 0.0)]
        if self.share is not None:
            limits.append(left * self.share if left > stays * _LITTLE else 0.0)
        return min(limits, default=stays)


class _Course:
    """What noise the next model may have: for an SQNR what sums predict, for a metric half."""

    def __init__(self, goals: Goals) -> None:
        self._goals = goals
        self._aim = None if goals.sqnr is None else goals.sqnr.noise * _MARGIN
        self.rounds = _ROUNDS if goals.drop is None else _HALVES

    def limit(self, reached: Reached, rounds: int) -> _Limit:
        """By what the last of so many ``rounds`` reached; in the last one nothing."""
        sqnr, drop = self._goals.sqnr, self._goals.drop
        if sqnr and self._aim and rounds > 1 and reached.sqnr_db is not None:
            off = sqnr.noise / 10 ** (-reached.sqnr_db / 10)
            self._aim *= min(off, 1.0)  # as far off as the last was
        share = None
        if drop is not None and not drop.is_met(reached):
            share = 0.0 if rounds == self.rounds - 1 else 0.5
        return _Limit(self._aim, share)


def _costs(job: Job, made: State, judges: Samples) -> tuple[Costs, Pair]:
    """What each stored tensor of the emitted model costs."""
    read = read_integer_model(made.model, job.source.path.name)
    original = sized_as(read, job.source)
    some = made.samples.without({*made.ranges.skipped, *judges.names}).spread(_WALKED)
    some = some if len(some) else judges.spread(_WALKED)
    checked = compared(read, original, some.first(), str(job.source.path))
    if checked.differences:
        raise ModelError(f"its own check finds {checked.differences[0]}: please report this")
    pair = checked.pair
    return costs_of(pair, looked_at(pair), some, _SECONDS, made.progress), pair


def _chosen(
    made: State, pair: Pair, costs: Costs, limit: _Limit, known: set[str]
) -> dict[str, float]:
    """Float tensors that are to have 16 bits, with their noise, those that pay most first."""
    record, able = pair.record, made.plan.tensors.keys() - known
    noise: dict[str, float] = {}
    stays = costs.constants
    for stored, ratio in costs.tensors.items():
        real = pair.meanings[stored].real
        if record.tensors[stored].dtype != WORD and real in able:
            noise[real] = noise.get(real, 0.0) + ratio
        else:
            stays += ratio
    left = sum(noise.values())
    allowed = limit.of(left, stays)
    time = _times(pair.integer, record, pair)
    order = sorted(noise, key=noise.__getitem__, reverse=True)
    if limit != _Limit():
        order = sorted(noise, key=lambda name: noise[name] / time[name], reverse=True)
    chosen = list[str]()
    for name in order:
        if left <= allowed or not noise[name]:
            break
        chosen.append(name)
        left -= noise[name]
    for name in sorted(chosen, key=noise.__getitem__):  # what later ones made needless
        if left + noise[name] <= allowed:
            chosen.remove(name)
            left += noise[name]
    return {name: noise[name] for name in chosen}


def _times(graph: Graph, record: Record, pair: Pair) -> dict[str, float]:
    """By float tensor, what 16 bits of it take: products are computed twice, numbers moved."""
    found: dict[str, float] = {}
    tensors = {t.name: t for node in graph.nodes for t in node.outputs}
    for stored, meaning in pair.meanings.items():
        if not meaning.stored or stored not in tensors:
            continue
        readers = tensors[stored].outputs
        macs = sum(record.nodes[n.name].macs for n in readers if n.name in record.nodes)
        numbers = prod(pair.sizes.get(meaning.real) or [1])
        found[meaning.real] = macs + _NUMBER * numbers * (1 + len(readers))
    return found
