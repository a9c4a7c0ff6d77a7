"""Weighing: how near integer models are to the float model, on the samples that judge."""

from collections.abc import Iterable, Sequence
from typing import Any

from calibration import Samples
from calibration.pieces import loaded
from qpasses.checking.accuracy import Accuracy
from qpasses.checking.reference import reference_runs
from qpasses.ir.edges import Edges, RealSession
from qpasses.jobs.goals import DropGoal, Reached
from qpasses.jobs.metrics import Outputs
from qpasses.load.arguments import Source
from qpasses.pipeline import State
from qpasses.recover.judge import HELD_BACK

_BYTES = 1 << 28
"""Outputs that a metric reads have so many at most, of ``HELD_BACK`` samples in any case."""


class Scales:
    """The float model in one pan, which is run once if there is a metric that may ``drop``.

    ``judges``: the samples, from ``begin`` on.
    """

    judges: Samples

    def __init__(self, source: Source, drop: DropGoal | None) -> None:
        self._source, self._drop = source, drop
        self._names = [value.name for value in source.reference.graph.output]
        self._is_begun = False

    def begin(self, state: State) -> None:
        """Find the metric of the float model, when it is known which samples are good.

        Raises UsageError where that is no number.
        """
        self.judges, self._is_begun = _judges(state), True
        if self._drop is not None:
            self.judges = self._with_room(self.judges)
            self._kept = [found for _, _, found in reference_runs(self._source, self.judges)]
            self._real = self._named(self._kept)
            self._figure = self._drop.figure(self._real, self._real, self.judges, "float")

    def reached(self, made: State) -> Reached:
        """How near the integer model ``made`` is. Raises UsageError likewise."""
        if not self._is_begun:
            self.begin(made)
        edges = Edges.between(made.source, made.model, made.record)
        session, accuracy = RealSession(loaded(made.model), edges), Accuracy(self._names)
        outputs, advance = [], made.progress("compare with float", len(self.judges))
        for feed, expected, name in self._runs():
            found = session.run(None, feed, name)
            accuracy.update(expected, found)
            if self._drop is not None:
                outputs.append(found)
            advance()
        every = accuracy.as_json()
        rows = [row for row in every if row["agreement"] is None] or every  # labels have none
        least = min((r["sqnr_db"] for r in rows if r["sqnr_db"] is not None), default=None)
        if self._drop is None:
            return Reached(least)
        integer = self._named(outputs)
        figure = self._drop.figure(integer, self._real, self.judges, "integer")
        return Reached(least, self._figure, figure)

    def _runs(self) -> Iterable[tuple[Any, Sequence[Any], str]]:
        if self._drop is None:
            runs = reference_runs(self._source, self.judges)
            return ((feed, found, name) for name, feed, found in runs)
        pairs = zip(self.judges, self._kept, strict=True)
        return ((feed, found, name) for (name, feed), found in pairs)

    def _with_room(self, judges: Samples) -> Samples:
        """Of ``judges`` as many as have outputs that fit into memory together."""
        ((_, _, found),) = reference_runs(self._source, judges.spread(1))
        size = sum(getattr(each, "nbytes", 0) for each in found)
        return judges.spread(max(HELD_BACK, _BYTES // max(size, 1)))

    def _named(self, runs: Sequence[Sequence[Any]]) -> Outputs:
        return [dict(zip(self._names, found, strict=True)) for found in runs]


def _judges(state: State) -> Samples:
    """Those that were held back, or where that are too few of all that are good."""
    held = state.held_back
    if len(held):
        return held
    return state.samples.without(state.ranges.skipped).spread(state.most_held_back)
