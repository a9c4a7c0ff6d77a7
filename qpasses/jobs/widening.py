"""Widening: which tensors get 16 bits, by what each costs the outputs and its width in time.

The noise that each tensor alone causes adds up at the outputs, about, so that the set for a
goal is a sort: a model in 8 bits is walked through once, and made again with those chosen.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, prod
from typing import Any

from calibration import Samples
from opsets.errors import ModelError
from qpasses.analysis.costing import costs_of, whole_of
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
from qpasses.recover.judge import HELD_BACK

_ROUNDS = 4
"""So often a model is made at most."""

_HALVES = 8
"""So often where a metric may fall by so much: noise does not tell how far it falls."""

_LITTLE = 0.1
"""Of what stays: to halve less than that changes no metric."""

_WALKED = 4
"""Samples on which costs are measured."""

_PRODUCTS = 2e12
"""Of a large one on fewer: so many products, if each tensor took a walk through all of it."""

_MARGIN = 0.9
"""Of the noise that is allowed: sums of costs are 1 dB less than all at once, or 4 dB more."""

_NUMBER = 16
"""A number that is stored takes the time of so many products."""


def chooses_widths(job: Job, asked: QuantizeOptions) -> bool:
    """Whether tensors get 16 bits by what they cost."""
    return asked.accuracy == "best" or bool(job.goals.asked)


def widened(
    job: Job, asked: QuantizeOptions, behind: Callable[[Stage, State], None]
) -> tuple[Job, State, Widths]:
    """The job with the types of tensors that it ends with, what came of it, and how near."""
    settings, goals = job.start.settings, job.goals
    user, costs = [*settings.tensor_types], dict[str, float]()
    course, scales = _Course(goals), Scales(job.source, goals.drop)

    def begun(stage: Stage, state: State) -> None:
        behind(stage, state)
        if stage is placed:  # a metric that fails does so before the work
            scales.begin(state)

    now = best = _round(with_settings(job, emit="integer"), scales, costs, begun)
    rounds, refused = [now.as_json()], {**now.made.refused}
    is_free = asked.weight_rounding is None and settings.accuracy != "fast"
    roundings = [settings.weight_rounding, *(["second-order"] if is_free else [])]
    while not (goals.are_met(now.reached) or len(rounds) == course.rounds or now.is_last):
        more = _chosen(now, course.limit(now.reached, len(rounds)), {*costs, *refused})
        if not more:
            break
        costs = {**costs, **more}
        types = [*user, *(f"{re.escape(name)}={WORD}" for name in costs)]
        tried = (
            _round(
                with_settings(now.job, tensor_types=types, weight_rounding=each), scales, costs
            )
            for each in roundings
        )
        now = min(tried, key=lambda each: each.noise)
        roundings = [now.job.start.settings.weight_rounding]
        rounds.append(now.as_json())
        refused |= now.made.refused
        best = min(best, now, key=lambda each: (not goals.are_met(each.reached), each.noise))
    job, made = best.job, best.made
    if settings.emit != "integer":
        job = with_settings(job, emit=settings.emit)
        made = quantized(job.start)
    order = sorted(best.costs, key=best.costs.__getitem__, reverse=True)
    wide = [name for name in order if name not in refused]
    held, judges = len(made.held_back) > 0, len(scales.judges)
    return job, made, Widths(goals, best.reached, judges, held, wide, refused, rounds)


@dataclass(frozen=True)
class _Round:
    """A model on the way, beside float on the samples that judge.

    ``costs``: by float tensor that was asked for in 16 bits, what it cost; ``noise``: over the
    signal where costs are measured, which a Softmax does not hide.
    """

    job: Job
    made: State
    costs: Mapping[str, float]
    judges: Samples
    pair: Pair | None
    reached: Reached
    noise: float

    @property
    def is_last(self) -> bool:
        """Whether no costs can be measured, as it is no whole integer model."""
        return self.pair is None

    def as_json(self) -> dict[str, Any]:
        """An entry of ``rounds``."""
        return {
            "tensors": len(self.costs),
            "sqnr_db": self.reached.sqnr_db,
            "metric": self.reached.integer,
            "weight_rounding": self.job.start.settings.weight_rounding,
        }


def _round(
    job: Job,
    scales: Scales,
    costs: Mapping[str, float],
    behind: Callable[[Stage, State], None] | None = None,
) -> _Round:
    """The model that the job makes; those that have ``costs`` are already among its types."""
    made = quantized(job.start, behind)
    reached, judges = scales.reached(made), scales.judges
    pair = None if made.unfinished else _pair(job, made)
    noise = inf if pair is None else whole_of(pair, judges.spread(HELD_BACK))
    return _Round(job, made, costs, judges, pair, reached, noise)


def _pair(job: Job, made: State) -> Pair:
    """The emitted model beside the float model."""
    read = read_integer_model(made.model, job.source.path.name)
    sample = made.samples.without(made.ranges.skipped).first()
    checked = compared(read, sized_as(read, job.source), sample, str(job.source.path))
    if checked.differences:
        raise ModelError(f"its own check finds {checked.differences[0]}: please report this")
    return checked.pair


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


def _chosen(now: _Round, limit: _Limit, known: set[str]) -> dict[str, float]:
    """Float tensors that are to have 16 bits, with their noise, those that pay most first."""
    made, pair = now.made, now.pair
    assert pair is not None, "there is an integer model"
    good = made.samples.without({*made.ranges.skipped, *now.judges.names})
    record, able = pair.record, made.plan.tensors.keys() - known
    time = _times(pair.integer, record, pair)
    walked = int(_PRODUCTS / max(len(time) * sum(time.values()), 1.0))
    some = (good if len(good) else now.judges).spread(max(1, min(walked, _WALKED)))
    costs = costs_of(pair, some, made.progress)
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
