"""Widening: which tensors get 16 bits, by what each costs the outputs and its width in time.

The noise that each tensor alone causes adds up at the outputs, so that the set for a goal is a
sort: a model in 8 bits is walked through once, and made again with those that are chosen.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from calibration import Samples
from calibration.pieces import loaded
from opsets.errors import ModelError
from qpasses.analysis.costing import costs_of, whole_of
from qpasses.checking.accuracy import compare
from qpasses.checking.meaning import Pair
from qpasses.checking.reference import reference_runs
from qpasses.checking.verification import compared
from qpasses.ir.commands import QuantizeOptions
from qpasses.ir.edges import Edges, RealSession
from qpasses.ir.graph import Graph
from qpasses.ir.record import Record
from qpasses.ir.tensor_types import WORD
from qpasses.jobs.judging import sized_as
from qpasses.jobs.resolving import Job, with_settings
from qpasses.load.integer_model import read_integer_model
from qpasses.pipeline import Stage, State, quantized

_ROUNDS = 4
"""So often a model is made at most."""

_WALKED = 4
"""Samples on which costs are measured."""

_SECONDS = 60.0
"""So long they are at most, each time."""

_MARGIN = 0.9
"""Of the noise that is allowed: sums predict it to within half a decibel."""

_NUMBER = 16
"""A number that is stored takes the time of so many products."""


@dataclass(frozen=True)
class Widths:
    """What was asked and reached: SQNR in dB of the worst output on ``samples`` that judged.

    ``tensors`` have 16 bits, by their names in the float model, because of it; ``refused``
    would gain but are written by nodes that have none, by name and reason.
    """

    min_sqnr_db: float | None
    reached_db: float | None
    samples: int
    tensors: Sequence[str]
    refused: Mapping[str, str]
    rounds: Sequence[dict[str, Any]]

    @property
    def is_met(self) -> bool:
        """Whether outputs are as near to float as was asked."""
        wanted, reached = self.min_sqnr_db, self.reached_db
        return wanted is None or (reached is not None and reached >= wanted)

    def as_json(self) -> dict[str, Any]:
        """``widths`` of a report."""
        return {**vars(self), "met": self.is_met}


def chooses_widths(asked: QuantizeOptions) -> bool:
    """Whether tensors get 16 bits by what they cost."""
    return asked.accuracy == "best" or asked.min_sqnr is not None


def widened(
    job: Job, asked: QuantizeOptions, behind: Callable[[Stage, State], None]
) -> tuple[Job, State, Widths]:
    """The job with the types of tensors that it ends with, what came of it, and how near."""
    settings = job.start.settings
    user, names = [*settings.tensor_types], list[str]()
    goal = None if asked.min_sqnr is None else 10 ** (-asked.min_sqnr / 10)
    aim = None if goal is None else goal * _MARGIN
    now = best = _round(with_settings(job, emit="integer"), names, behind)
    rounds, refused = [now.as_json()], {**now.made.refused}
    is_free = asked.weight_rounding is None and settings.accuracy != "fast"
    roundings = [settings.weight_rounding, *(["second-order"] if is_free else [])]
    while not (now.meets(goal) or len(rounds) == _ROUNDS or now.made.unfinished):
        if goal and aim and len(rounds) > 1:
            aim *= min(goal * 10 ** (now.decibels / 10), 1.0)  # as far off as the last was
        more = _chosen(now, aim, {*names, *refused})
        if not more:
            break
        names = [*names, *more]
        types = [*user, *(f"{re.escape(name)}={WORD}" for name in names)]
        tried = [
            _round(with_settings(now.job, tensor_types=types, weight_rounding=each), names)
            for each in roundings
        ]
        now = min(tried, key=lambda each: each.noise)
        roundings = [now.job.start.settings.weight_rounding]
        rounds.append(now.as_json())
        refused |= now.made.refused
        best = min(best, now, key=lambda each: (not each.meets(goal), each.noise))
    job, made = best.job, best.made
    if settings.emit != "integer":
        job = with_settings(job, emit=settings.emit)
        made = quantized(job.start)
    kept = [name for name in best.names if name not in refused]
    count = len(best.judges)
    return job, made, Widths(asked.min_sqnr, best.sqnr_db, count, kept, refused, rounds)


@dataclass(frozen=True)
class _Round:
    """A model on the way, beside float on samples that were held back.

    ``names``: those that were asked for in 16 bits; ``sqnr_db``: of its worst output;
    ``noise``: over the signal where costs are measured, which a Softmax does not hide.
    """

    job: Job
    made: State
    names: Sequence[str]
    judges: Samples
    pair: Pair | None
    sqnr_db: float | None
    noise: float

    @property
    def decibels(self) -> float:
        """Of the worst output; where there is no signal, as far off as can be."""
        return -np.inf if self.sqnr_db is None else self.sqnr_db

    def meets(self, goal: float | None) -> bool:
        """Whether the noise of each output is at most the ``goal``, if there is one."""
        return goal is not None and bool(10 ** (-self.decibels / 10) <= goal)

    def as_json(self) -> dict[str, Any]:
        """An entry of ``rounds``."""
        rounding = self.job.start.settings.weight_rounding
        return {
            "tensors": len(self.names),
            "sqnr_db": self.sqnr_db,
            "weight_rounding": rounding,
        }


def _round(
    job: Job, names: Sequence[str], behind: Callable[[Stage, State], None] | None = None
) -> _Round:
    """The model that the job makes; ``names`` are already among its types."""
    made = quantized(job.start, behind)
    judges = _judges(made)
    reached = _reached(job, made, judges)
    pair = None if made.unfinished else _pair(job, made)
    noise = np.inf if pair is None else whole_of(pair, judges)
    return _Round(job, made, names, judges, pair, reached, noise)


def _pair(job: Job, made: State) -> Pair:
    """The emitted model beside the float model."""
    read = read_integer_model(made.model, job.source.path.name)
    sample = made.samples.without(made.ranges.skipped).first()
    checked = compared(read, sized_as(read, job.source), sample, str(job.source.path))
    if checked.differences:
        raise ModelError(f"its own check finds {checked.differences[0]}: please report this")
    return checked.pair


def _judges(made: State) -> Samples:
    """Those that were held back, or where that are too few all that are good."""
    held = made.held_back
    return held if len(held) else made.samples.without(made.ranges.skipped).spread(16)


def _reached(job: Job, made: State, judges: Samples) -> float | None:
    """Of the worst float output."""
    edges = Edges.between(made.source, made.model, made.record)
    session = RealSession(loaded(made.model), edges)
    names = [value.name for value in job.source.reference.graph.output]
    rows = compare(names, reference_runs(job.source, judges), session).as_json()
    found = [row["sqnr_db"] for row in rows if row["sqnr_db"] is not None]
    return min(found, default=None)


def _chosen(now: _Round, aim: float | None, known: set[str]) -> list[str]:
    """Float tensors that are to have 16 bits too, the costliest first.

    So many that the noise that is left is ``aim``; without one, as much as what stays causes.
    """
    made, pair = now.made, now.pair
    assert pair is not None, "there is an integer model"
    good = made.samples.without({*made.ranges.skipped, *now.judges.names})
    some = (good if len(good) else now.judges).spread(_WALKED)
    costs = costs_of(pair, some, _SECONDS, made.progress)
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
    allowed = stays if aim is None else max(aim - stays, 0.0)
    time = _times(pair.integer, record, pair)
    order = sorted(noise, key=noise.__getitem__, reverse=True)
    if aim is not None:
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
    return chosen


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
