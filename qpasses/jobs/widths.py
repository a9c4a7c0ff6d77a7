"""Widths: which tensors got 16 bits, and how near the outputs are by it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qpasses.jobs.goals import Goals, Reached


@dataclass(frozen=True)
class Widths:
    """What was asked and ``reached`` on ``samples``, which were ``held_back`` or were not.

    ``tensors`` have 16 bits, by their names in the float model, because of it, the costliest
    first; ``refused`` would gain but are written by nodes that have none, by name and reason.
    """

    goals: Goals
    reached: Reached
    samples: int
    held_back: bool
    tensors: Sequence[str]
    refused: Mapping[str, str]
    rounds: Sequence[dict[str, Any]]

    @property
    def missed(self) -> list[str]:
        """How far outputs are from what was asked, one sentence for each goal."""
        held, wide = "that are held back" if self.held_back else "in use", len(self.tensors)
        where = f"{self.samples} samples {held}"
        goals = self.goals.asked.values()
        return [text for goal in goals for text in goal.missed(self.reached, where, wide)]

    def as_json(self) -> dict[str, Any]:
        """``widths`` of a report."""
        sqnr, drop, reached = self.goals.sqnr, self.goals.drop, self.reached
        metric = None
        if drop is not None:
            metric = {
                "name": drop.metric.name,
                "float": reached.real,
                "integer": reached.integer,
                "drop": reached.drop,
                "max_drop": drop.most,
                "met": drop.is_met(reached),
            }
        return {
            "min_sqnr_db": sqnr and sqnr.least_db,
            "reached_db": reached.sqnr_db,
            "metric": metric,
            "samples": self.samples,
            "held_back": self.samples if self.held_back else 0,
            "tensors": self.tensors,
            "refused": self.refused,
            "rounds": self.rounds,
            "missed": self.missed,
            "met": not self.missed,
        }
