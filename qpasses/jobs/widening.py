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
from qpasses.analysis.costing import Costs, costs_of
from qpasses.analysis.walking import looked_at
from qpasses.checking.accuracy import compare
from qpasses.checking.meaning import Pair
from qpasses.checking.reference import reference_runs
from qpasses.checking.verification import compared
from qpasses.ir.commands import QuantizeOptions
from qpasses.ir.edges import Edges, RealSession
from qpasses.ir.graph import Graph
from qpasses.ir.record import Record
from qpasses.ir.settings import Settings
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
    job = with_settings(job, emit="integer")
    rounds, refused = list[dict[str, Any]](), dict[str, str]()
    is_free = asked.accuracy == "best" and asked.weight_rounding is None
    rounding = {"weight_rounding": "second-order"} if is_free else {}
    goal = None if asked.min_sqnr is None else 10 ** (-asked.min_sqnr / 10)
    aim = None if goal is None else goal * _MARGIN
    while True:
        made = quantized(job.start, behind if not rounds else None)
        refused |= made.refused
        judges = _judges(made)
        reached = _reached(job, made, judges)
        rounds.append({"tensors": len(names), "sqnr_db": reached})
        is_met = goal is not None and reached is not None and reached >= -10 * np.log10(goal)
        if is_met or len(rounds) == _ROUNDS or made.unfinished:
            break
        costs, pair = _costs(job, made, judges)
        if goal and aim and len(rounds) > 1 and reached is not None:
            aim *= min(goal / 10 ** (-reached / 10), 1.0)  # as far off as the last was
        more = _chosen(made, pair, costs, aim, {*names, *refused})
        if not more:
            break
        names += more
        types = [*user, *(f"{re.escape(name)}={WORD}" for name in names)]
        job = with_settings(job, tensor_types=types, **rounding)
    if rounding and len(rounds) > 1:
        job, made, reached = _better(job, made, reached, settings, judges)
    if settings.emit != "integer":
        job = with_settings(job, emit=settings.emit)
        made = quantized(job.start)
    kept = [name for name in names if name not in refused]
    return job, made, Widths(asked.min_sqnr, reached, len(judges), kept, refused, rounds)


def _better(
    job: Job, made: State, reached: float | None, settings: Settings, judges: Samples
) -> tuple[Job, State, float | None]:
    """The same, or what comes of weights that are rounded as ``settings`` say, if better.

    Beside wide activations the noise of weights is what is left, which second order has least
    of on most models.
    """
    other_job = with_settings(job, weight_rounding=settings.weight_rounding)
    other = quantized(other_job.start)
    found = _reached(other_job, other, judges)
    if found is not None and (reached is None or found > reached):
        return other_job, other, found
    return job, made, reached


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
    made: State, pair: Pair, costs: Costs, aim: float | None, known: set[str]
) -> list[str]:
    """Float tensors that are to have 16 bits, the costliest first.

    So many that the noise that is left is ``aim``; without one, as much as what stays causes.
    """
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
