"""Goals: how near to float the outputs are to be, and how near they are."""

from dataclasses import dataclass, replace
from math import isclose
from typing import Any

from calibration import Samples
from opsets.errors import UsageError
from qpasses.ir.commands import QuantizeOptions
from qpasses.ir.max_drop import as_drop
from qpasses.jobs.labels import Labels, given_labels
from qpasses.jobs.metrics import Metric, Outputs, given_metric
from qpasses.place.cautions import goal_warnings

JUDGES = 256
"""So many samples tell what a metric is, or a quarter of them where there are fewer."""


@dataclass(frozen=True)
class Reached:
    """SQNR in dB of the worst output; the metric of the float model and of the integer one."""

    sqnr_db: float | None
    real: float | None = None
    integer: float | None = None

    @property
    def drop(self) -> float | None:
        """By how much the metric fell."""
        if self.real is None or self.integer is None:
            return None
        return self.real - self.integer


@dataclass(frozen=True)
class SqnrGoal:
    """That every output has so many decibels of signal over noise."""

    least_db: float

    @property
    def noise(self) -> float:
        """What it allows, over signal."""
        return float(10 ** (-self.least_db / 10))

    def is_met(self, reached: Reached) -> bool:
        """Whether outputs are as near to float as was asked."""
        return reached.sqnr_db is not None and reached.sqnr_db >= self.least_db

    def missed(self, reached: Reached, where: str, wide: int) -> list[str]:
        """How far it is, with so many tensors ``wide``, in a sentence; none if it is met."""
        if self.is_met(reached):
            return []
        return goal_warnings(self.least_db, reached.sqnr_db, where, wide)


@dataclass(frozen=True)
class DropGoal:
    """That ``metric`` falls by ``most`` at most."""

    metric: Metric
    most: float
    labels: Labels | None = None

    def is_met(self, reached: Reached) -> bool:
        """Whether it fell by no more; 1 - 0.99 is 0.01."""
        drop = reached.drop
        return drop is not None and (drop <= self.most or isclose(drop, self.most))

    def missed(self, reached: Reached, where: str, wide: int) -> list[str]:
        """How far it is, with so many tensors ``wide``, in a sentence; none if it is met."""
        if self.is_met(reached):
            return []
        return [
            f"max_drop (--max-drop) {self.metric.name}={self.most:g} cannot be met: it is "
            f"{reached.real:.6g} of the float model and {reached.integer:.6g} of the integer "
            f"one, {reached.drop:.3g} less, on {where}, with {wide} tensors in 16 bits "
            "(`qpasses analyze` says where the rest is lost)"
        ]

    def figure(self, outputs: Outputs, real: Outputs, judges: Samples, whose: str) -> float:
        """The metric. Raises UsageError where it gives no number."""
        labels = None if self.labels is None else self.labels.of(judges)
        return self.metric.figure(outputs, labels, real, whose)


@dataclass(frozen=True)
class Goals:
    """What outputs are to be; both if both are asked for."""

    sqnr: SqnrGoal | None = None
    drop: DropGoal | None = None

    @property
    def asked(self) -> dict[str, SqnrGoal | DropGoal]:
        """Those that there are, by what users call them."""
        found = {"min_sqnr (--min-sqnr)": self.sqnr, "max_drop (--max-drop)": self.drop}
        return {name: goal for name, goal in found.items() if goal is not None}

    def are_met(self, reached: Reached) -> bool:
        """Whether all are; False where nothing is asked for."""
        return bool(self.asked) and all(g.is_met(reached) for g in self.asked.values())


def given_goals(asked: QuantizeOptions) -> Goals:
    """Without labels, which follow from samples. Raises UsageError for what is no metric."""
    sqnr = None if asked.min_sqnr is None else SqnrGoal(asked.min_sqnr)
    if asked.max_drop is None:
        for name, given in (("metric", asked.metric), ("labels", asked.labels)):
            if given is not None:
                raise UsageError(
                    f"{name} (--{name}) is for how far a metric may fall: give max_drop "
                    "(--max-drop METRIC=VALUE) too"
                )
        return Goals(sqnr)
    ((called, most),) = as_drop(asked.max_drop).items()
    metric = given_metric(asked.metric, called)
    if metric.needs_labels and asked.labels is None:
        raise UsageError(
            f"max_drop (--max-drop) {metric.name}: needs labels (--labels FILE.npy), one for "
            "each sample; agreement needs none"
        )
    if metric.needs_labels is False and asked.labels is not None:
        raise UsageError(f"labels (--labels): {metric.name} reads none: leave them away")
    return Goals(sqnr, DropGoal(metric, most))


def with_labels(goals: Goals, given: Any, samples: Samples) -> Goals:
    """The same with labels for ``samples``, if there are any. Raises UsageError."""
    if goals.drop is None or given is None:
        return goals
    return replace(goals, drop=replace(goals.drop, labels=given_labels(given, samples)))
