"""Widening: which tensors get 16 bits, by what each costs the outputs and its width in time.

The noise that each tensor alone causes adds up at the outputs, about, so that the set for a
goal is a sort: a model in 8 bits is walked through once, and made again with those chosen.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from calibration import Samples
from opsets.errors import ModelError
from qpasses.analysis.costing import whole_of
from qpasses.analysis.walking import looked_at
from qpasses.checking.meaning import Pair
from qpasses.checking.verification import compared
from qpasses.ir.choices import WeightRounding
from qpasses.ir.commands import QuantizeOptions
from qpasses.ir.tensor_types import WORD, types_of
from qpasses.jobs.goals import Goals, Reached
from qpasses.jobs.judging import sized_as
from qpasses.jobs.pricing import Prices
from qpasses.jobs.resolving import Job, with_settings
from qpasses.jobs.weighing import Scales
from qpasses.jobs.widths import Widths
from qpasses.load.integer_model import read_integer_model
from qpasses.pipeline import Stage, State, placed, quantized
from qpasses.recover.judge import HELD_BACK

_ROUNDS = 4
"""So often a model is made at most."""

_STEPS = 6
"""So often where there is an SQNR to meet."""

_HALVES = 8
"""So often where a metric may fall by so much: noise does not tell how far it falls."""

_LITTLE = 0.1
"""Of what weights cost: to halve less than that changes no metric."""

_MARGIN = 0.9
"""Of the noise that is allowed."""

_BESIDE_WEIGHTS = 0.25
"""Of what weights cost activations may cost so much where nothing is asked for."""

_SAVED = 0.9
"""A set that takes more of the time of another one is not worth a model."""


def made_by(
    job: Job, asked: QuantizeOptions, behind: Callable[[Stage, State], None]
) -> tuple[Job, State, Widths | None]:
    """What comes of the job, which ends with the types of tensors that were found, if any.

    ``behind`` is called with the stages of the first model, and the state behind each.
    """
    if asked.accuracy == "best" or job.goals.asked:
        return _widened(job, asked, behind)
    return job, quantized(job.start, behind), None


def _widened(
    job: Job, asked: QuantizeOptions, behind: Callable[[Stage, State], None]
) -> tuple[Job, State, Widths]:
    """Tensors get 16 bits by what they cost."""
    settings, goals = job.start.settings, job.goals
    scales = Scales(job.source, goals.drop)

    def begun(stage: Stage, state: State) -> None:
        behind(stage, state)
        if stage is placed:  # a metric that fails does so before the work
            scales.begin(state)

    job = with_settings(job, emit="integer")
    now = _round(job, scales, [], begun)
    is_free = asked.weight_rounding is None and settings.accuracy != "fast"
    rounding = "second-order" if is_free else settings.weight_rounding
    is_best = asked.accuracy == "best"  # which goes on where a goal is met
    course = _Course(Goals() if is_best else goals, now)
    is_able = settings.emit != "tosa" or settings.has_wide_rescales
    while is_able and (wanted := course.wanted()) is not None:
        types = [*settings.tensor_types, *(f"{re.escape(name)}={WORD}" for name in wanted)]
        wide_job = with_settings(job, tensor_types=types, weight_rounding=rounding)
        course.take(_round(wide_job, scales, wanted))
        rounding = course.lightest.rounding
    best, reached = course.best, course.best.reached
    job, made = best.job, best.kept.made if best.kept else quantized(best.job.start)
    if settings.emit != "integer":
        job = with_settings(job, emit=settings.emit)
        made = quantized(job.start)
        reached = scales.reached(made)  # which onnxruntime may compute otherwise
    noise, refused = course.prices.noise, {**course.refused, **made.words.alone}
    wide = [name for name in best.asked if name not in refused]
    wide.sort(key=lambda name: (-noise[name], name))
    held, judges = len(made.held_back) > 0, len(scales.judges)
    rounds = [each.as_json() for each in course.rounds]
    return job, made, Widths(goals, reached, judges, held, wide, refused, rounds)


@dataclass(frozen=True)
class _Model:
    """What a job made, beside the float model, if it is integer."""

    made: State
    pair: Pair | None


@dataclass(frozen=True, eq=False)
class _Round:
    """A model on the way, beside float on the samples that judge.

    ``asked``: float tensors that were to have 16 bits; ``constants``: noise over signal of
    weights alone on those samples, ``noise`` of all. ``kept``: the model, while it may be
    asked for.
    """

    job: Job
    kept: _Model | None
    asked: Sequence[str]
    judges: Samples
    reached: Reached
    constants: float
    noise: float

    @property
    def model(self) -> _Model:
        """Of a round that is the best or the last one."""
        assert self.kept is not None, "it was let go"
        return self.kept

    @property
    def decibels(self) -> float:
        """What the worst output has, on the samples that judge."""
        return -inf if self.reached.sqnr_db is None else self.reached.sqnr_db

    @property
    def rounding(self) -> WeightRounding | None:
        """How weights are rounded."""
        return self.job.start.settings.weight_rounding

    def as_json(self) -> dict[str, Any]:
        """An entry of ``rounds``."""
        return {
            "tensors": len(self.asked),
            "sqnr_db": self.reached.sqnr_db,
            "metric": self.reached.integer,
            "weight_rounding": self.rounding,
        }


def _round(
    job: Job,
    scales: Scales,
    asked: Sequence[str],
    behind: Callable[[Stage, State], None] | None = None,
) -> _Round:
    """The model that the job makes; those ``asked`` for are already among its types."""
    made = quantized(job.start, behind)
    reached, judges = scales.reached(made), scales.judges
    if made.unfinished:
        return _Round(job, _Model(made, None), asked, judges, reached, inf, inf)
    pair = _pair(job, made)
    costs = whole_of(pair, judges.spread(HELD_BACK))
    outputs = {tensor.name for tensor in pair.real.outputs}
    noise, decibels = costs.whole, reached.sqnr_db
    if decibels is not None and outputs.issuperset(looked_at(pair)):
        noise = 10 ** (-decibels / 10)
    model = _Model(made, pair)
    return _Round(job, model, asked, judges, reached, costs.constants, noise)


def _pair(job: Job, made: State) -> Pair:
    """The emitted model beside the float model."""
    read = read_integer_model(made.model, job.source.path.name)
    sample = made.samples.without(made.ranges.skipped).first()
    checked = compared(read, sized_as(read, job.source), sample, str(job.source.path))
    if checked.differences:
        raise ModelError(f"its own check finds {checked.differences[0]}: please report this")
    return checked.pair


class _Course:
    """The models so far, and what the next one is to have in 16 bits.

    For an SQNR so much noise may be left as the sum of costs, which the last model was so many
    times as far from, predicts, and half of the last one's where that was not enough; for a
    metric half of the last one's; else a quarter of that of weights. The last model has all
    that can be had where nothing was enough.

    ``refused``: those that were asked for and have 8 bits all the same, by name and reason.
    """

    def __init__(self, goals: Goals, first: _Round) -> None:
        self._said = first.job.start.settings.tensor_types  # by the user, who decides
        self.prices, self.refused = Prices(), dict[str, str]()
        self.rounds = list[_Round]()
        self._goals, self._constants = goals, list[float]()
        self._most = _HALVES if goals.drop else _STEPS if goals.sqnr else _ROUNDS
        self.take(first)

    def take(self, now: _Round) -> None:
        """The next one."""
        self.rounds.append(now)
        self.refused |= now.model.made.words.refused
        kept = {id(now), id(self.best)}
        self.rounds = [
            each if id(each) in kept else replace(each, kept=None) for each in self.rounds
        ]

    @property
    def lightest(self) -> _Round:
        """That whose weights cost least."""
        return min(self.rounds, key=lambda each: each.constants)

    @property
    def best(self) -> _Round:
        """Of those that meet the goals the one that takes least time, else the nearest."""
        met = [each for each in self.rounds if self._goals.are_met(each.reached)]
        if met:
            return min(met, key=lambda each: self._time(each.asked))
        if self._goals.drop is not None:
            return min(self.rounds, key=lambda each: (each.reached.drop or 0.0, each.noise))
        if self._goals.sqnr is not None:
            return max(self.rounds, key=lambda each: each.decibels)
        return min(self.rounds, key=lambda each: each.noise)

    def wanted(self) -> list[str] | None:
        """The float tensors that the next model is to have in 16 bits; None: it is the end."""
        now = self.rounds[-1]
        made, pair = now.model.made, now.model.pair
        if pair is None or len(self.rounds) == self._most:
            return None
        if self._goals.are_met(now.reached) and (self._goals.drop or not now.asked):
            return None
        good = made.samples.without({*made.ranges.skipped, *now.judges.names})
        samples = good if len(good) else now.judges
        priced = self.prices.of(pair, samples, made.progress)
        self._constants.append(priced.constants)
        said = types_of(self._said, [*made.plan.tensors])
        stuck = {*now.asked} - priced.wide - made.words.alone.keys()
        free = made.plan.tensors.keys() - said.keys() - self.refused.keys() - stuck
        able = [name for name in self.prices.noise if name in free]
        left = sum(noise for name, noise in priced.narrow.items() if name in free)
        stays = sum(priced.narrow.values()) - left + priced.copies
        wanted = self.prices.cheapest(able, self._allowed(now, left, stays))
        return wanted if self._is_worth_it(wanted) else None

    def _allowed(self, now: _Round, left: float, stays: float) -> float:
        """So much noise tensors of 8 bits may make, of which now so much is ``left``.

        ``stays``: that of those that can have no 16 bits.
        """
        sqnr, drop = self._goals.sqnr, self._goals.drop
        lightest = self._constants[self.rounds.index(self.lightest)]
        others, limits = lightest + stays, list[float]()
        is_missed = not any(self._goals.are_met(each.reached) for each in self.rounds)
        is_last = is_missed and len(self.rounds) == self._most - 1
        if sqnr is not None and now.reached.sqnr_db is not None:
            off = sqnr.noise / 10 ** (-now.reached.sqnr_db / 10)
            whole = self._constants[-1] + stays + left
            limits.append(whole * off * _MARGIN - others)
            if is_missed and now.asked:  # sums said that it would do
                limits.append(0.0 if is_last else left / 2)
        if drop is not None and not drop.is_met(now.reached):
            is_little = left <= others * _LITTLE
            limits.append(0.0 if is_last or is_little else left / 2)
        return max(min(limits, default=others * _BESIDE_WEIGHTS), 0.0)

    def _is_worth_it(self, wanted: Sequence[str]) -> bool:
        """Whether a model with these may be better than those so far."""
        best, now = self.best, self.rounds[-1]
        alike = [each for each in self.rounds if each.rounding == self.lightest.rounding]
        if any({*wanted} == {*each.asked} for each in alike):
            return False
        if self._goals.are_met(best.reached):
            missed = [each for each in alike if not self._goals.are_met(each.reached)]
            is_less = any({*wanted} <= {*each.asked} for each in missed)
            return not is_less and self._time(wanted) < _SAVED * self._time(best.asked)
        if now.rounding != self.lightest.rounding:  # with other weights it is another one
            return True
        return self._goals.sqnr is not None or bool({*wanted} - {*now.asked})

    def _time(self, names: Sequence[str]) -> float:
        """What 16 bits of them take."""
        return sum(self.prices.time[name] for name in names if name not in self.refused)
